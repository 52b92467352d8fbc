"""Distances between all points of two sets, by matrix products where these keep enough digits."""

from __future__ import annotations

import torch
from torch import Tensor

_LOST = 2.0**12  # times the unit in the last place, below which a difference of squares keeps less than four digits


def distances(x: Tensor, y: Tensor) -> Tensor:
    """Distances between points of pairs of sets, exact to the last digits for sets that lie far from the origin, or two
    points of which are near each other.

    Args:
        x, y: points; of a set and itself the diagonal means nothing.

    Shape: (T, N, d) and (T, M, d) to (T, N, M).

    >>> distances(torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])).tolist()
    [[[5.0, 1.0]]]
    """
    found = torch.cdist(x, y)
    norms = torch.cat([part.square().sum(dim=-1) for part in (x, y)], dim=-1)
    inexact = found.square() < near(norms, _LOST)[..., None]
    if x is y:
        inexact.diagonal(dim1=-2, dim2=-1).fill_(False)
    inexact = inexact.flatten(-2).any(dim=-1)
    if not bool(inexact.any()):
        return found
    exact = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    return torch.where(inexact[..., None, None], exact, found)


def near(norms: Tensor, lost: float) -> Tensor:
    """Squared distances below which a difference of squares loses digits, for squared norms (..., N) to (..., 1)."""
    return lost * torch.finfo(norms.dtype).eps * 2 * norms.amax(-1, keepdim=True)
