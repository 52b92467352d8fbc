"""Multigrid in channels: a convolution whose coupling of channels is coarsened level by level."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_whole
from evolvent.operators._contract import OPERATORS, LinearOperator


class MultigridConvolution(LinearOperator):
    r"""Grouped 3x3 convolutions on a hierarchy of ever fewer channels, without bias.

    .. math:: K = K_0, \qquad K_\ell = G_\ell + P_\ell K_{\ell + 1} R_\ell, \qquad K_m = G_m

    Ephrath et al. 2020 and Eliasof et al. 2023 (multigrid-in-channels) replace a whole residual block by a nonlinear
    cycle over levels. This is our reading of it as a linear operator, the additive cycle: on level :math:`\ell` the
    channels, a :math:`2^\ell`-th of all, are cut into :math:`2^{m - \ell}` groups of fixed size, and the zero-padded
    convolution :math:`G_\ell` acts inside groups; the restriction :math:`R_\ell` and the prolongation :math:`P_\ell`
    are 1x1 convolutions that make one group of two neighbouring ones and back. The coarsest :math:`G_m` has a single
    group, so every channel reaches every other, while for a fixed group size weights and work grow linearly with the
    number of channels. All parts are learned, and

    .. math:: K_\ell^\top = G_\ell^\top + R_\ell^\top K_{\ell + 1}^\top P_\ell^\top .

    Args:
        in_channels, out_channels: number of feature maps.
        group_size: channels that a group shall have at least. There are :math:`2^m` groups, as many as divide both
            numbers of channels into such groups; for one group (an odd width) the operator is a full convolution.

    Shape: (B, in_channels, H, W) to (B, out_channels, H, W); the adjoint goes back.

    >>> [sum(w.numel() for w in MultigridConvolution(c, c).parameters()) for c in (128, 256, 512)]
    [41728, 86784, 176896]
    """

    space_axes = 2

    def __init__(self, in_channels: int, out_channels: int, group_size: int = 16) -> None:
        super().__init__()
        check_whole(group_size=group_size)
        groups = _count_groups(in_channels, out_channels, group_size)
        into, out = in_channels // groups, out_channels // groups
        self.groups = [groups >> level for level in range(groups.bit_length())]  # 2^m, ..., 2, 1
        self.local = nn.ParameterList(torch.empty(n * out, into, 3, 3) for n in self.groups)
        self.restrict = nn.ParameterList(torch.empty(n * into, 2 * into, 1, 1) for n in self.groups[1:])
        self.prolong = nn.ParameterList(torch.empty(2 * n * out, out, 1, 1) for n in self.groups[1:])
        self._draw_weights()

    def forward(self, u: Tensor) -> Tensor:
        return self._act(u, 0)

    def adjoint(self, v: Tensor) -> Tensor:
        return self._act_back(v, 0)

    def _act(self, u: Tensor, level: int) -> Tensor:
        near = F.conv2d(u, self.local[level], padding=1, groups=self.groups[level])
        if level + 1 == len(self.groups):
            return near
        pairs = self.groups[level + 1]
        coarse = self._act(F.conv2d(u, self.restrict[level], groups=pairs), level + 1)
        return near + F.conv2d(coarse, self.prolong[level], groups=pairs)

    def _act_back(self, v: Tensor, level: int) -> Tensor:
        near = F.conv_transpose2d(v, self.local[level], padding=1, groups=self.groups[level])
        if level + 1 == len(self.groups):
            return near
        pairs = self.groups[level + 1]
        coarse = self._act_back(F.conv_transpose2d(v, self.prolong[level], groups=pairs), level + 1)
        return near + F.conv_transpose2d(coarse, self.restrict[level], groups=pairs)

    @torch.no_grad()
    def _draw_weights(self) -> None:
        """As kaiming's for a full convolution: the levels together double the mean square of the input."""
        for weight in self.local:
            nn.init.kaiming_normal_(weight).div_(len(self.local) ** 0.5)
        for weight in (*self.restrict, *self.prolong):
            nn.init.kaiming_normal_(weight, nonlinearity="linear")

    def extra_repr(self) -> str:
        out, into = self.local[-1].shape[:2]
        return f"{into * self.groups[0]}, {out * self.groups[0]}, groups={self.groups}"


def _count_groups(in_channels: int, out_channels: int, group_size: int) -> int:
    """The largest power of two that divides both numbers into groups of at least ``group_size``."""
    groups, least = 1, min(in_channels, out_channels)
    while in_channels % (2 * groups) == out_channels % (2 * groups) == 0 and least // (2 * groups) >= group_size:
        groups *= 2
    return groups


OPERATORS.add("multigrid", MultigridConvolution)
