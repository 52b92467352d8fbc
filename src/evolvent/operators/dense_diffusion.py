"""Diffusion between the entries of a vector, with implicit steps by Cholesky factorisation."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.operators._contract import DiffusionOperator


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
