"""Burgers' equation from a sine, in closed form by the transformation of Cole and Hopf."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole
from evolvent._core.errors import ShapeError


class ColeHopf:
    r"""The solution of :math:`u_t + u u_x = \nu u_{xx}`, :math:`u(x, 0) = -\sin \pi x`, with period 2,

    .. math:: u = -\frac{\int \sin \pi (x - \eta)\, f(x - \eta)\, e^{-\eta^2 / 4 \nu t} d\eta}
       {\int f(x - \eta)\, e^{-\eta^2 / 4 \nu t} d\eta}, \qquad f(y) = e^{-\cos(\pi y) / 2 \pi \nu}

    (Basdevant et al. 1986), by Gauss-Hermite quadrature.

    Args:
        viscosity: :math:`\nu`.
        nodes: of the quadrature.

    Shape: points (N, 2) of x and t to (N, 1).

    >>> import torch
    >>> u = ColeHopf(0.01 / math.pi)
    >>> [round(value, 4) for value in u(torch.tensor([[0.5, 0.0], [0.25, 0.5]]))[:, 0].tolist()]
    [-1.0, -0.8474]
    """

    def __init__(self, viscosity: float = 0.01 / math.pi, nodes: int = 120) -> None:
        check_positive(viscosity=viscosity)
        check_whole(2, nodes=nodes)
        self.viscosity = viscosity
        self._nodes, self._weights = np.polynomial.hermite.hermgauss(nodes)

    def __call__(self, points: Tensor) -> Tensor:
        """The solution at points, in float64."""
        if points.ndim != 2 or points.shape[1] != 2:
            raise ShapeError(f"the solution takes points (N, 2) of x and t, got shape {tuple(points.shape)}.")
        x, t = points.detach().cpu().double().numpy().T
        y = x[:, None] - 2 * np.sqrt(self.viscosity * t)[:, None] * self._nodes
        exponent = -np.cos(np.pi * y) / (2 * np.pi * self.viscosity)
        density = self._weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
        u = -(np.sin(np.pi * y) * density).sum(1) / density.sum(1)
        return torch.from_numpy(u)[:, None]
