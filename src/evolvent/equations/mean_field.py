"""What a crowd pays on its way besides its energy: for where it is, and for how dense it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_not_negative, check_positive
from evolvent._core.errors import ConfigError, ShapeError


class RunningCost(ABC):
    r"""A cost :math:`\mathcal F(\varrho) = \int f(x, \varrho)\, \varrho\, dx` of a crowd at one time.

    Attributes:
        needs_density: whether f depends on the density.
    """

    needs_density: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, x: Tensor, log_density: Tensor) -> Tensor:
        """What each point pays, f. Shape: (N, d) and (N, 1) to (N, 1)."""

    def variation(self, x: Tensor, log_density: Tensor) -> Tensor:
        r"""The variation :math:`\delta \mathcal F / \delta \varrho`, the force in the Hamilton-Jacobi equation;
        by default f itself, as of costs that do not depend on the density.
        """
        return self(x, log_density)


class Obstacle(RunningCost):
    r"""A hill that is costly to stand on, :math:`f(x) = h\, e^{-|(x - c) / r|^2 / 2}`, in the first coordinates.

    Ruthotto et al. 2020, whose crowd of dimension d avoids a hill in its first two coordinates.

    Args:
        height: h.
        centre: c, of the coordinates that matter; others do not.
        radius: r, one number or one for each of them.

    >>> Obstacle(5.0, (0.0, 0.0))(torch.zeros(1, 2), torch.zeros(1, 1))
    tensor([[5.]])
    """

    def __init__(self, height: float, centre: Sequence[float], radius: float | Sequence[float] = 1.0) -> None:
        check_not_negative(height=height)
        self.height, self.centre = height, list(centre)
        self.radius = [radius] * len(self.centre) if isinstance(radius, (int, float)) else list(radius)
        if not self.centre or len(self.radius) != len(self.centre):
            raise ConfigError(
                f"an obstacle needs a centre with a radius for each coordinate or one for all, got {len(self.centre)} "
                f"coordinates and {len(self.radius)} radii."
            )
        for value in self.radius:
            check_positive(radius=value)

    def share(self, x: Tensor) -> Tensor:
        """The cost as a share of the height. Shape: (N, d) to (N, 1)."""
        if x.shape[1] < len(self.centre):
            raise ShapeError(f"an obstacle in {len(self.centre)} coordinates, but points have {x.shape[1]}.")
        offset = (x[:, : len(self.centre)] - x.new_tensor(self.centre)) / x.new_tensor(self.radius)
        return torch.exp(-offset.square().sum(1, keepdim=True) / 2)

    def __call__(self, x: Tensor, log_density: Tensor) -> Tensor:
        return self.height * self.share(x)


class Congestion(RunningCost):
    r"""A price for being where others are.

    ``"entropy"`` is :math:`f = \lambda \ln \varrho` with the variation :math:`\lambda (\ln \varrho + 1)`, as in
    Ruthotto et al. 2020; ``"density"`` is :math:`f = \lambda \varrho` with the variation :math:`2 \lambda \varrho`.

    Args:
        weight: :math:`\lambda`.
        kind: of price.
    """

    needs_density = True

    def __init__(self, weight: float, kind: Literal["entropy", "density"] = "entropy") -> None:
        check_not_negative(weight=weight)
        self.weight, self.kind = weight, check_choice("kind of congestion", kind, ("entropy", "density"))

    def __call__(self, x: Tensor, log_density: Tensor) -> Tensor:
        return self.weight * (log_density if self.kind == "entropy" else log_density.exp())

    def variation(self, x: Tensor, log_density: Tensor) -> Tensor:
        change = log_density + 1 if self.kind == "entropy" else 2 * log_density.exp()
        return self.weight * change
