"""The system behind two stages of a nonlocal block."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from evolvent.dynamics._contract import PartitionedDynamics


class NonlocalSystem(PartitionedDynamics):
    r"""Two copies of the features, which drive each other through a nonlocal operator.

    .. math:: V' = \mathcal K_1\bigl[\mathcal O_X U\bigr], \qquad U' = \mathcal K_2\bigl[\mathcal O_X V\bigr]

    Eq. 4.3 of Bohn, Griebel, Kannan 2021 for their :math:`W = -U`, with the kernel of the input :math:`X` throughout,
    as their eq. 4.1 and 4.2 have it. From :math:`V = U = X`, one Verlet step gives :math:`V = B_1` and
    :math:`U = B_2`.

    Args:
        first, second: :math:`\mathcal K_1` and :math:`\mathcal K_2`.
        act: :math:`\mathcal O_X`, such as :meth:`evolvent.operators.NonlocalOperator.at` gives.

    Shape: a pair of (B, C, H, W) to the same.
    """

    def __init__(self, first: nn.Module, second: nn.Module, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.second, self.act = first, second, act

    def dy(self, t: float, z: Tensor) -> Tensor:
        return self.first(self.act(z))

    def dz(self, t: float, y: Tensor) -> Tensor:
        return self.second(self.act(y))

    def enter(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features, features

    def leave(self, u) -> Tensor:
        return u[1]
