"""Exact nearest neighbours of many points in bounded memory."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_whole, described
from evolvent._core.errors import ConfigError, DataError, ShapeError

Search: TypeAlias = Literal["auto", "blocks", "tree", "faiss"]

_BLOCK = 1 << 24  # distances held at a time
_ROWS_AT_A_TIME = 4096  # between two reports of progress
_FLAT = 8  # coordinates up to which a tree of boxes is faster than all distances
_MANY = 2048  # points from which a search is worth another library's start


class Neighbours(NamedTuple):
    """The nearest points of each point, nearest first.

    Shape: indices int64 (N, k); squared_distances (N, k).
    """

    indices: Tensor
    squared_distances: Tensor


def nearest_neighbours(
    x: Tensor,
    k: int,
    *,
    include_self: bool = False,
    search: Search = "auto",
    tell: Callable[[float], None] = lambda share: None,
) -> Neighbours:
    r"""The :math:`k` points nearest to each point, in Euclidean distance.

    All ways to search are exact and hold at most some :math:`10^7` distances at a time. Points at the same place are
    neighbours at distance zero; which of equally distant ones is named first is not defined.

    Args:
        x: points.
        k: neighbours of each; with ``include_self`` the point itself is the first of them.
        search: ``"blocks"`` compares all pairs by matrix products; ``"tree"`` divides space (scipy), which is fast for
            few coordinates; ``"faiss"`` compares all pairs by the library of that name, if it is installed; ``"auto"``
            chooses by size.
        tell: called with the share of the work that is done.

    Shape: (N, d) to (N, k).

    >>> nearest_neighbours(torch.tensor([[0.0], [1.0], [3.0]]), 1).indices.tolist()
    [[1], [0], [1]]
    """
    check_points(x)
    check_whole(1, k=k)
    check_choice("search", search, get_args(Search))
    asked = k if include_self else k + 1
    if asked > len(x):
        most = max(len(x) - (not include_self), 0)
        raise ConfigError(f"{len(x)} points have {most} neighbours each, so k must not exceed that, got {k}.")
    find = _SEARCHES[_chosen(search, *x.shape)](x, asked)
    found = []
    for first in range(0, len(x), _ROWS_AT_A_TIME):
        rows = torch.arange(first, min(first + _ROWS_AT_A_TIME, len(x)), device=x.device)
        found.append(_self_first(find(rows), rows))
        tell(min(1.0, (first + len(rows)) / len(x)))
    indices, squares = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Neighbours(indices[:, asked - k :], squares[:, asked - k :])


def check_points(x: Tensor) -> None:
    """Refuse what is not a table of numbers with finite distances."""
    if not isinstance(x, Tensor) or x.ndim != 2 or not x.is_floating_point():
        raise ShapeError(f"points are a tensor of floating-point numbers (N, coordinates), got {described(x)}.")
    wrong = (~(4 * x.square().sum(dim=1)).isfinite()).nonzero().flatten()  # of squares of distances
    if len(wrong):
        raise DataError(
            f"points must be finite, and so must their squares, but {len(wrong)} of {len(x)} hold NaN, infinity or too "
            f"large numbers, the first is row {int(wrong[0])}. Leave them out, fill them in or change the unit."
        )


def _chosen(search: str, count: int, coordinates: int) -> str:
    if search != "auto":
        return search
    if count < _MANY:
        return "blocks"
    if coordinates <= _FLAT:
        return "tree"
    return "faiss" if importlib.util.find_spec("faiss") else "blocks"


Find: TypeAlias = Callable[[Tensor], Neighbours]


def _by_blocks(x: Tensor, k: int) -> Find:
    centred = x - x.mean(dim=0)  # differences of squares lose fewer digits near the origin
    norms = centred.square().sum(dim=1)
    rows_at_a_time = max(1, _BLOCK // len(x))

    def find(rows: Tensor) -> Neighbours:
        found = []
        for part in rows.split(rows_at_a_time):
            squares = torch.addmm(norms.expand(len(part), -1), centred[part], centred.T, alpha=-2)
            indices = squares.topk(k, largest=False).indices
            exact = (centred[indices] - centred[part, None]).square().sum(dim=2)
            order = exact.argsort(dim=1, stable=True)
            found.append((indices.gather(1, order), exact.gather(1, order)))
        return Neighbours(*(torch.cat(parts) for parts in zip(*found, strict=True)))

    return find


def _by_tree(x: Tensor, k: int) -> Find:
    from scipy.spatial import KDTree

    points = x.detach().cpu().double().numpy()
    tree: Any = KDTree(points)

    def find(rows: Tensor) -> Neighbours:
        distances, indices = tree.query(points[rows.cpu().numpy()], k=list(range(1, k + 1)), workers=-1)
        return _as_neighbours(indices, np.square(distances), x)

    return find


def _by_faiss(x: Tensor, k: int) -> Find:
    try:
        import faiss  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ConfigError("search 'faiss' needs the package faiss-cpu. Run: pip install 'evolvent[graphs]'.") from None
    points = np.ascontiguousarray((x - x.mean(dim=0)).detach().cpu().float().numpy())
    index: Any = faiss.IndexFlatL2(points.shape[1])
    index.add(points)

    def find(rows: Tensor) -> Neighbours:
        squares, indices = index.search(points[rows.cpu().numpy()], k)
        return _as_neighbours(indices, squares.clip(min=0), x)

    return find


_SEARCHES = {"blocks": _by_blocks, "tree": _by_tree, "faiss": _by_faiss}


def _as_neighbours(indices: np.ndarray, squares: np.ndarray, like: Tensor) -> Neighbours:
    return Neighbours(torch.from_numpy(indices.astype(np.int64)).to(like.device), torch.from_numpy(squares).to(like))


def _self_first(found: Neighbours, rows: Tensor) -> Neighbours:
    """Each point as its own first neighbour, also among others at the same place."""
    indices, squares = found.indices.clone(), found.squared_distances.clone()
    place = (indices == rows[:, None]).int()
    place = torch.where(place.any(dim=1), place.argmax(dim=1), indices.shape[1] - 1)[:, None]
    inside = torch.arange(indices.shape[1], device=rows.device)
    source = torch.where(inside == 0, place, torch.where(inside <= place, inside - 1, inside))
    indices, squares = indices.gather(1, source), squares.gather(1, source)
    indices[:, 0], squares[:, 0] = rows, 0
    return Neighbours(indices, squares)
