"""The Haar wavelet transform: pooling that loses nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core.checks import check_images
from evolvent._core.errors import ShapeError
from evolvent.operators._contract import LinearOperator


class HaarTransform(LinearOperator):
    r"""Orthogonal Haar transform over blocks of 2x2 pixels: half the resolution, four times the channels.

    .. math::
        \begin{pmatrix} s \\ h \\ v \\ d \end{pmatrix} = \frac12
        \begin{pmatrix} 1 & 1 & 1 & 1 \\ 1 & -1 & 1 & -1 \\ 1 & 1 & -1 & -1 \\ 1 & -1 & -1 & 1 \end{pmatrix}
        \begin{pmatrix} u(2x, 2y) \\ u(2x, 2y + 1) \\ u(2x + 1, 2y) \\ u(2x + 1, 2y + 1) \end{pmatrix},
        \qquad L^{-1} = L^\top

    Lensink et al. 2019 coarsen with it, so that a whole network is invertible. The first :math:`C` channels of the
    result are twice the block averages of all channels; then follow the differences along rows, along columns and
    across.

    Shape: (B, C, H, W) with even H and W to (B, 4C, H/2, W/2); the adjoint, which is the inverse, goes back.

    >>> u = torch.randn(1, 3, 8, 6)
    >>> pool = HaarTransform()
    >>> pool(u).shape, torch.allclose(pool.inverse(pool(u)), u, atol=1e-6)
    (torch.Size([1, 12, 4, 3]), True)
    """

    space_axes = 2

    def forward(self, u: Tensor) -> Tensor:
        check_images(u, "the Haar transform")
        if u.shape[2] % 2 or u.shape[3] % 2:
            raise ShapeError(
                f"the Haar transform takes images of even height and width, got shape {tuple(u.shape)}. "
                "Pad or crop them to an even size, or coarsen once less."
            )
        upper, lower = u[:, :, 0::2], u[:, :, 1::2]
        rows = torch.cat((upper + lower, upper - lower), dim=1)
        left, right = rows[..., 0::2], rows[..., 1::2]
        s, v, h, d = torch.cat((left + right, left - right), dim=1).mul(0.5).chunk(4, dim=1)
        return torch.cat((s, h, v, d), dim=1)

    def adjoint(self, v: Tensor) -> Tensor:
        check_images(v, "the inverse Haar transform")
        if v.shape[1] % 4:
            raise ShapeError(
                f"the inverse Haar transform takes a multiple of 4 channels, got shape {tuple(v.shape)}. "
                "Pass what the transform returned."
            )
        s, h, v, d = v.mul(0.5).chunk(4, dim=1)
        upper, lower = s + v, s - v
        upper_slope, lower_slope = h + d, h - d
        even = _interleave(upper + upper_slope, upper - upper_slope, axis=3)
        odd = _interleave(lower + lower_slope, lower - lower_slope, axis=3)
        return _interleave(even, odd, axis=2)

    def inverse(self, v: Tensor) -> Tensor:
        r""":math:`L^{-1} v = L^\top v`."""
        return self.adjoint(v)


def _interleave(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """Lines of two images in turn along an axis."""
    return torch.stack((even, odd), dim=axis + 1).flatten(axis, axis + 1)
