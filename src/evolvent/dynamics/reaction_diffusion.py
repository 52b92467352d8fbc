"""Reaction and diffusion: a mild nonlinear term, and a stiff linear one that joins all pixels."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from evolvent._core.checks import check_choice
from evolvent._core.errors import ConfigError
from evolvent.dynamics._contract import Dynamics, SplitDynamics
from evolvent.dynamics.layers import ActivationName, Norm
from evolvent.dynamics.parabolic import Parabolic
from evolvent.dynamics.residual import Residual
from evolvent.operators import DenseDiffusion, DepthwiseDiffusion, DiffusionOperator, FieldOperator, LinearOperator


class ReactionDiffusion(SplitDynamics):
    r"""An explicit reaction :math:`f` and a diffusion :math:`L` that methods treat implicitly.

    .. math:: u' = f(u) - L u, \qquad (I + h L)\, u_{j+1} = u_j + h f(u_j)

    Haber et al. 2019 (IMEXnet); the second formula is the step that an IMEX method makes of it. :math:`L` is symmetric
    and positive semidefinite: for images :class:`~evolvent.operators.DepthwiseDiffusion`, solved by Fourier transform;
    for vectors :class:`~evolvent.operators.DenseDiffusion`, a matrix :math:`A^\top A`, solved by Cholesky
    factorisation.

    Args:
        channels: number of channels.
        reaction: :math:`f`, either ``"residual"``, which is :class:`~evolvent.dynamics.Residual`
            :math:`\mathcal N(K_2\, \sigma(\mathcal N(K_1 u) + b_1)) + b_2`, or ``"symmetric"``, which is
            :class:`~evolvent.dynamics.Parabolic` :math:`-K^\top \sigma(\mathcal N(K u) + b)`.
        operator: kind of the operators in :math:`f`; ``"dense"`` for vectors.
        norm: kind of :math:`\mathcal N`, or None.
        bias: whether to learn the :math:`b`, one number per channel.
        activation: name of :math:`\sigma`.

    Shape: (B, channels, ...) to the same.

    >>> import torch
    >>> f = ReactionDiffusion(4)
    >>> u = torch.randn(2, 4, 8, 8)
    >>> f.solve(0.0, u + 0.1 * f.explicit(0.0, u), 0.1).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(
        self,
        channels: int,
        *,
        reaction: Literal["residual", "symmetric"] = "symmetric",
        operator: str = "full",
        norm: Norm | None = None,
        bias: bool = False,
        activation: ActivationName = "relu",
    ) -> None:
        super().__init__()
        self.reaction: Dynamics
        if check_choice("reaction", reaction, ("residual", "symmetric")) == "residual":
            self.reaction = Residual(channels, operator=operator, norm=norm, bias=bias, activation=activation)
        else:
            self.reaction = Parabolic(channels, operator=operator, norm=norm, bias=bias, activation=activation)
        self.diffusion = _make_diffusion(self.reaction, channels)

    def explicit(self, t: float, u: Tensor) -> Tensor:
        return self.reaction(t, u)

    def stiff(self, t: float, u: Tensor) -> Tensor:
        return self.diffusion(u)

    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        return self.diffusion.solve(u, h)


def _make_diffusion(reaction: Dynamics, channels: int) -> DiffusionOperator:
    """Diffusion in the space that the operators of the reaction act in."""
    operator = next(m for m in reaction.modules() if isinstance(m, LinearOperator))
    if isinstance(operator, FieldOperator):
        raise ConfigError(
            f"the diffusion of ReactionDiffusion differs between channels, so it does not commute with the group on "
            f"{operator.out_field}. Use another operator, or other dynamics."
        )
    return DepthwiseDiffusion(channels) if operator.space_axes == 2 else DenseDiffusion(channels)
