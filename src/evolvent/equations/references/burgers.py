"""Burgers' equation from a sine, in closed form by the transformation of Cole and Hopf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_positive
from evolvent._core.errors import ShapeError

_PER_WIDTH = 3.0  # nodes in the width of the narrowest peak; the rule's error is then below rounding
_NEGLIGIBLE = 40.0  # e to minus this is a share that may be left out
_NUMBERS = 2**21  # values of the integrand that are held at once


class ColeHopf:
    r"""The solution of :math:`u_t + u u_x = \nu u_{xx}`, :math:`u(x, 0) = -\sin \pi x`, with period 2,

    .. math:: u = -\frac{\int \sin \pi (x - \eta)\, f(x - \eta)\, e^{-\eta^2 / 4 \nu t} d\eta}
       {\int f(x - \eta)\, e^{-\eta^2 / 4 \nu t} d\eta}, \qquad f(y) = e^{-\cos(\pi y) / 2 \pi \nu}

    (Basdevant et al. 1986). The integrands are smooth and vanish at both ends of where they count, so that the
    trapezoidal rule is exact up to rounding once its step resolves their peaks.

    Args:
        viscosity: :math:`\nu`.

    Shape: points (N, 2) of x and t to (N, 1).

    >>> import torch
    >>> u = ColeHopf(0.01 / math.pi)
    >>> [round(value, 4) for value in u(torch.tensor([[0.5, 0.0], [0.25, 0.5]]))[:, 0].tolist()]
    [-1.0, -0.8474]
    """

    def __init__(self, viscosity: float = 0.01 / math.pi) -> None:
        check_positive(viscosity=viscosity)
        self.viscosity = viscosity

    def __call__(self, points: Tensor) -> Tensor:
        """The solution at points, in float64."""
        if points.ndim != 2 or points.shape[1] != 2:
            raise ShapeError(f"the solution takes points (N, 2) of x and t, got shape {tuple(points.shape)}.")
        x, t = points.detach().cpu().double().numpy().T
        shares = np.linspace(-1, 1, self._nodes(t[np.isfinite(t)].max(initial=0.0)))
        rows = max(1, _NUMBERS // len(shares))
        with np.errstate(invalid="ignore"):  # there is no solution before the start, nor at the end of time
            parts = [self._at(x[n : n + rows], t[n : n + rows], shares) for n in range(0, len(x), rows)]
        return torch.from_numpy(np.concatenate([np.empty(0), *parts]))[:, None]

    def _reach(self, t: Any) -> Any:
        """Beyond this, eta has a share of the integrals that is below rounding."""
        return np.sqrt(4 * t / math.pi + 4 * _NEGLIGIBLE * self.viscosity * t)

    def _nodes(self, longest: float) -> int:
        """How many resolve the peaks within the reach at all times."""
        curvature = math.pi / (2 * self.viscosity) + 1 / max(2 * self.viscosity * longest, 1e-300)
        return 2 * math.ceil(_PER_WIDTH * self._reach(longest) * math.sqrt(curvature)) + 3

    def _at(self, x: np.ndarray, t: np.ndarray, shares: np.ndarray) -> np.ndarray:
        y = x[:, None] - self._reach(t)[:, None] * shares
        exponent = -np.cos(np.pi * y) / (2 * np.pi * self.viscosity)
        exponent = exponent - (1 / (math.pi * self.viscosity) + _NEGLIGIBLE) * shares**2  # eta^2 / 4 nu t
        density = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return -(np.sin(np.pi * y) * density).sum(1) / density.sum(1)
