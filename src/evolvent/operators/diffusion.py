"""Symmetric positive semidefinite operators with cheap implicit steps: on images by FFT, on vectors by Cholesky."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.operators._contract import DiffusionOperator


class DepthwiseDiffusion(DiffusionOperator):
    r"""Symmetric positive semidefinite :math:`L = K^\top K` with a learned, periodic 3x3 filter on each channel.

    .. math::
        (K u)_i(x) = \sum_{|d|_\infty \le 1} k_i(d)\, u_i(x + d), \qquad
        \hat L_i(\xi) = \Bigl|\sum_d k_i(d)\, e^{\mathrm i\, d \cdot \xi}\Bigr|^2, \qquad
        (I + h L)^{-1} u = \mathcal F^{-1} \frac{\mathcal F u}{1 + h \hat L}

    Haber et al. 2019 (IMEXnet). One solve costs :math:`O(N \log N)` for :math:`N` pixels and lets every pixel see every
    other. Fourier transforms are made in float32 at least, whatever the precision of the input. Filters are drawn with
    sum zero, so that :math:`L` keeps constants at the start of training.

    Args:
        channels: number of feature maps.

    Shape: (B, channels, H, W) to the same.

    >>> L = DepthwiseDiffusion(2)
    >>> u = torch.randn(1, 2, 8, 8)
    >>> torch.allclose(L.solve(u + 0.5 * L(u), 0.5), u, atol=1e-5)
    True
    """

    space_axes = 2

    def __init__(self, channels: int) -> None:
        super().__init__()
        weight = torch.randn(channels, 1, 3, 3) / 3
        self.weight = nn.Parameter(weight - weight.mean((2, 3), keepdim=True))

    def forward(self, u: Tensor) -> Tensor:
        return self._periodic(self._periodic(u, self.weight), self.weight.flip(2, 3))

    def symbol(self, height: int, width: int) -> Tensor:
        r""":math:`\hat L_i(\xi)` at the frequencies of :func:`torch.fft.rfft2`, (channels, height, width // 2 + 1)."""
        # a filter wider than the image is wrapped round it, as the periodic image itself would be
        down, across = -(-3 // height), -(-3 // width)
        stencil = self.weight.to(torch.promote_types(self.weight.dtype, torch.float32))
        tiles = F.pad(stencil, (0, across * width - 3, 0, down * height - 3))
        wrapped = tiles.view(-1, down, height, across, width).sum((1, 3))
        return torch.view_as_real(torch.fft.rfft2(wrapped)).square().sum(-1)

    def solve(self, u: Tensor, h: float) -> Tensor:
        size = u.shape[-2:]
        spectrum = torch.fft.rfft2(u.to(torch.promote_types(u.dtype, torch.float32)))
        return torch.fft.irfft2(spectrum / (1 + h * self.symbol(*size)), s=size).to(u.dtype)

    @staticmethod
    def _periodic(u: Tensor, stencil: Tensor) -> Tensor:
        return F.conv2d(F.pad(u, (1, 1, 1, 1), mode="circular"), stencil, groups=stencil.shape[0])

    def extra_repr(self) -> str:
        return str(self.weight.shape[0])


class DenseDiffusion(DiffusionOperator):
    r"""Symmetric positive semidefinite matrix :math:`L = A^\top A` on feature vectors.

    .. math:: L u = A^\top (A u), \qquad (I + h L)^{-1} u = C^{-\top} C^{-1} u, \quad C C^\top = I + h A^\top A

    The form for vectors of :class:`~evolvent.operators.DepthwiseDiffusion`. :math:`I + h L` has no eigenvalue below 1,
    so that its Cholesky factorisation always exists; it costs :math:`C^3 / 3` once for a whole batch and is made in
    float32 at least, whatever the precision of the input.

    Args:
        channels: length of the vectors.

    Shape: (B, channels) to the same.

    >>> L = DenseDiffusion(3)
    >>> u = torch.randn(2, 3)
    >>> torch.allclose(L.solve(u + 0.5 * L(u), 0.5), u, atol=1e-5)
    True
    """

    space_axes = 0

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, channels))
        nn.init.kaiming_normal_(self.weight, nonlinearity="linear")

    def forward(self, u: Tensor) -> Tensor:
        return F.linear(F.linear(u, self.weight), self.weight.T)

    def solve(self, u: Tensor, h: float) -> Tensor:
        precise = torch.promote_types(u.dtype, torch.float32)
        with torch.autocast(u.device.type, enabled=False):
            A = self.weight.to(precise)
            system = torch.eye(len(A), dtype=precise, device=A.device) + h * (A.T @ A)
            return torch.cholesky_solve(u.to(precise).T, torch.linalg.cholesky(system)).T.to(u.dtype)

    def extra_repr(self) -> str:
        return str(self.weight.shape[0])
