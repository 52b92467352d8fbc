"""Powers of the Laplacian on a grid of pixels, by Fourier symbol."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_positive
from evolvent.operators._contract import DiffusionOperator
from evolvent.operators.integral.fractional import check_order

Boundary: TypeAlias = Literal["periodic", "reflecting"]


class _LaplacianPower(DiffusionOperator):
    """A function of the Laplacian of images, each channel for itself.

    Args:
        boundary: images go on ``"periodic"``, or mirrored at their edges (``"reflecting"``).
        spacing: distance of neighbouring pixels.
    """

    space_axes = 2
    exponent: float

    def __init__(self, s: float, boundary: Boundary, spacing: float) -> None:
        super().__init__()
        check_positive(spacing=spacing)
        self.s, self.spacing = float(s), float(spacing)
        self.boundary: Boundary = check_choice("boundary", boundary, get_args(Boundary))

    def symbol(self, xi: Tensor, eta: Tensor) -> Tensor:
        r"""What a wave :math:`e^{\mathrm i (\xi x + \eta y)}` is multiplied with; 0 for constants."""
        squared = xi.square() + eta.square()
        constant = squared == 0
        return squared.masked_fill(constant, 1.0).pow(self.exponent).masked_fill(constant, 0.0)

    def forward(self, u: Tensor) -> Tensor:
        return self._multiply(u, lambda symbol: symbol)

    def solve(self, u: Tensor, h: float) -> Tensor:
        return self._multiply(u, lambda symbol: 1 / (1 + h * symbol))

    def _multiply(self, u: Tensor, function) -> Tensor:
        height, width = u.shape[-2:]
        precise = u.to(torch.promote_types(u.dtype, torch.float32))
        if self.boundary == "reflecting":
            precise = torch.cat([precise, precise.flip(-1)], dim=-1)
            precise = torch.cat([precise, precise.flip(-2)], dim=-2)
        size, real = precise.shape[-2:], {"dtype": precise.dtype, "device": precise.device}
        step = self.spacing / (2 * math.pi)
        xi, eta = torch.fft.fftfreq(size[0], step, **real), torch.fft.rfftfreq(size[1], step, **real)
        spectrum = torch.fft.rfft2(precise) * function(self.symbol(xi[:, None], eta[None, :]))
        return torch.fft.irfft2(spectrum, s=size)[..., :height, :width].to(u.dtype)

    def extra_repr(self) -> str:
        return f"{self.s:g}, boundary={self.boundary!r}, spacing={self.spacing:g}"


class SpatialFractionalLaplacian(_LaplacianPower):
    r""":math:`(-\Delta)^s` of images, :math:`0 < s \le 1`, by its symbol :math:`|\xi|^{2s}`.

    .. math:: \mathcal F((-\Delta)^s v)(\xi) = |\xi|^{2s}\, \mathcal F v(\xi)

    Eq. 3.6 of Bohn, Griebel, Kannan 2021 (who write frequencies without the factor :math:`2\pi`). Exact for the waves
    that a grid can hold. Mirrored images are transformed at four times the size.

    Args:
        s: the order.
        boundary: ``"periodic"`` or ``"reflecting"``.
        spacing: distance of neighbouring pixels.

    Shape: (..., H, W) to the same.

    >>> wave = torch.cos(2 * math.pi * torch.arange(8.0) / 8).expand(1, 1, 8, 8)
    >>> torch.allclose(SpatialFractionalLaplacian(0.5)(wave), 2 * math.pi / 8 * wave, atol=1e-5)
    True
    """

    def __init__(self, s: float = 0.5, *, boundary: Boundary = "periodic", spacing: float = 1.0) -> None:
        if s != 1:
            check_order(s, 2, below=1.0, name="(-Delta)^s")
        super().__init__(s, boundary, spacing)
        self.exponent = self.s


class SpatialInverseLaplacian(_LaplacianPower):
    r""":math:`(-\Delta)^{-s}` of images, :math:`s > 0`, by its symbol :math:`|\xi|^{-2s}`; the mean is set to zero.

    .. math:: \mathcal F((-\Delta)^{-s} v)(\xi) = |\xi|^{-2s}\, \mathcal F v(\xi), \qquad \xi \ne 0

    Eq. 3.7 of Bohn, Griebel, Kannan 2021. Undoes :class:`SpatialFractionalLaplacian` on images of mean zero.

    Args:
        s: the order.
        boundary: ``"periodic"`` or ``"reflecting"``.
        spacing: distance of neighbouring pixels.

    Shape: (..., H, W) to the same.
    """

    def __init__(self, s: float = 0.5, *, boundary: Boundary = "periodic", spacing: float = 1.0) -> None:
        check_order(s, 2, below=math.inf, name="(-Delta)^-s")
        super().__init__(s, boundary, spacing)
        self.exponent = -self.s
