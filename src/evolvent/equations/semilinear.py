"""Semilinear parabolic equations with a terminal value, in any dimension, as stochastic processes see them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from evolvent._core.checks import check_column, check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.registry import Registry


@dataclass(frozen=True, kw_only=True)
class SemilinearProblem:
    r"""The value :math:`u(0, \xi)` of the solution of an equation that runs backward from its terminal value.

    .. math:: u_t + \tfrac 12 \mathrm{tr}(\sigma \sigma^\top \nabla^2 u) + \mu \cdot \nabla u
              + f(t, x, u, \sigma^\top \nabla u) = 0, \qquad u(T, x) = g(x)

    With the process :math:`dX = \mu\, dt + \sigma\, dW`, :math:`X_0 = \xi`, Ito's formula gives
    :math:`du = -f\, dt + z \cdot dW` along paths, where :math:`z = \sigma^\top \nabla u` (Han, Jentzen, E 2018, eq. 5).

    Args:
        name, title: of the problem.
        dimension: of x.
        until: :math:`T`.
        start: :math:`\xi`, the same in all coordinates.
        volatility, drift: of the process: constants for ``"brownian"``, factors of :math:`X` for ``"geometric"``.
        process: Brownian motion with drift, or geometric Brownian motion.
        source: :math:`f(t, x, u, z)`; x and z are (N, dimension), u is (N, 1).
        terminal: :math:`g(x)`, (N, 1).
        steps: of time that the problem is usually solved with.
        reference: computes the value by other means.

    >>> heat = SemilinearProblem(
    ...     name="heat", dimension=2, until=1.0, volatility=2**0.5,
    ...     source=lambda t, x, u, z: 0 * u, terminal=lambda x: x.square().sum(1, keepdim=True),
    ... )
    >>> heat.paths(torch.zeros(4, 3, 2)).shape
    torch.Size([5, 3, 2])
    """

    name: str
    dimension: int
    until: float
    source: Callable[[float, Tensor, Tensor, Tensor], Tensor]
    terminal: Callable[[Tensor], Tensor]
    volatility: float
    drift: float = 0.0
    start: float = 0.0
    process: Literal["brownian", "geometric"] = "brownian"
    steps: int = 20
    reference: Callable[[], float] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        check_whole(1, dimension=self.dimension, steps=self.steps)
        if not (0 < self.until < math.inf and self.volatility > 0):
            raise ConfigError(
                f"problem {self.name!r} needs a positive time and volatility, got {self.until} and {self.volatility}."
            )
        if self.process == "geometric" and self.start <= 0:
            raise ConfigError(f"problem {self.name!r}: a geometric process starts above 0, got {self.start}.")

    def paths(self, increments: Tensor) -> Tensor:
        """The process at equally spaced times, exactly, from the increments of the Brownian motion.

        Shape: (steps, B, dimension) to (steps + 1, B, dimension).
        """
        steps = len(increments)
        motion = torch.cat([torch.zeros_like(increments[:1]), increments.cumsum(0)])
        times = torch.linspace(0, self.until, steps + 1, dtype=motion.dtype, device=motion.device)[:, None, None]
        if self.process == "brownian":
            return self.start + self.drift * times + self.volatility * motion
        return self.start * torch.exp((self.drift - self.volatility**2 / 2) * times + self.volatility * motion)

    def check_columns(self, x: Tensor) -> None:
        """Refuse a terminal value or a source that is not one number for each of the points x."""
        u = check_column(self.terminal(x), len(x), f"the terminal value of problem {self.name!r}")
        changed = u + self.source(0.0, x, u, torch.zeros_like(x))
        check_column(changed, len(x), f"u + the source of problem {self.name!r}")

    def along(self, value: Tensor, z: Tensor, paths: Tensor, increments: Tensor) -> Tensor:
        r"""The solution at the end of paths, :math:`u_{n+1} = u_n - f(t_n, X_n, u_n, z_n) h + z_n \cdot \Delta W_n`.

        Shape: value one number, z and increments (steps, B, dimension), paths (steps + 1, B, dimension) to (B, 1).
        """
        h = self.until / len(increments)
        u, martingale = value.expand(z.shape[1], 1), (z * increments).sum(2, keepdim=True)
        for n in range(len(increments)):
            u = u - h * self.source(n * h, paths[n], u, z[n]) + martingale[n]
        return check_column(u, z.shape[1], f"the solution of problem {self.name!r} along paths")


SEMILINEAR: Registry[Callable[..., SemilinearProblem]] = Registry("semilinear problem")


def register_semilinear(
    name: str,
) -> Callable[[Callable[..., SemilinearProblem]], Callable[..., SemilinearProblem]]:
    """Register a function of ``dimension`` that makes a problem."""

    def add(make: Callable[..., SemilinearProblem]) -> Callable[..., SemilinearProblem]:
        SEMILINEAR.add(name, make)
        return make

    return add
