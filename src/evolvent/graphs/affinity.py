r"""Weights between points: a Gaussian of their distance, kept for the nearest ones.

.. math:: w_{ij} = e^{-|x_i - x_j|^2 / \sigma_i^2} \quad\text{for the } n_{top} \text{ nearest } j \text{ of each } i

Wang et al., section 3.2. The matrix is directed: :math:`j` may be among the nearest of :math:`i` and not the reverse;
:func:`~evolvent.graphs.normalise` says what becomes of that.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole, described
from evolvent._core.errors import ConfigError, DataError, ShapeError
from evolvent.graphs.distances import near
from evolvent.graphs.neighbours import Search, nearest_neighbours
from evolvent.graphs.sparse import SparseMatrix

_ROUNDING = 2.0**16  # times the unit in the last place, below which a difference of squares has lost too many digits


def gaussian_affinity(
    x: Tensor,
    n_top: int,
    *,
    sigma: float | None = None,
    sigma_neighbour: int | None = None,
    include_self: bool = True,
    search: Search = "auto",
    tell: Callable[[float], None] = lambda share: None,
) -> SparseMatrix:
    r"""The weights of the :math:`n_{top}` nearest points of each point, sparse.

    Give either ``sigma`` or ``sigma_neighbour``. Where :math:`\sigma_i = 0`, because so many points lie in one place,
    those points have weight 1 and all others 0, which is the limit.

    Args:
        x: points.
        n_top: entries kept in each row.
        sigma: :math:`\sigma`, one for all points.
        sigma_neighbour: :math:`\sigma_i` is the distance of the neighbour of this number, the point itself not counted.
        include_self: whether the point itself, with weight 1, is one of the entries that are kept. The diagonal takes
            part in normalisation, but cancels in the Laplacian.
        search: how neighbours are found, see :func:`~evolvent.graphs.nearest_neighbours`.
        tell: called with the share of the search that is done.

    Shape: (N, d) to (N, N).

    >>> W = gaussian_affinity(torch.tensor([[0.0], [1.0], [3.0]]), 2, sigma=1.0)
    >>> W.dense()[0].tolist() == [1.0, torch.tensor(-1.0).exp().item(), 0.0]
    True
    """
    _check_scale(n_top, sigma, sigma_neighbour, include_self)
    kept = n_top - 1 if include_self else n_top
    others = max(kept, sigma_neighbour or 1)
    if others >= len(x):
        raise ConfigError(
            f"n_top and sigma_neighbour ask for {others} neighbours, but {len(x)} points have "
            f"{max(len(x) - 1, 0)} each. Choose smaller ones."
        )
    found = nearest_neighbours(x, others + 1, include_self=True, search=search, tell=tell)
    scale = found.squared_distances[:, sigma_neighbour] if sigma_neighbour else None
    chosen = slice(0, kept + 1) if include_self else slice(1, kept + 1)
    squares, columns = found.squared_distances[:, chosen], found.indices[:, chosen]
    rows = torch.arange(len(x), device=x.device)[:, None].expand_as(columns)
    weights = _gaussian(squares, sigma, scale[:, None] if scale is not None else None)
    return SparseMatrix.from_entries(rows.flatten(), columns.flatten(), weights.flatten(), (len(x), len(x)))


def dense_affinity(
    x: Tensor,
    n_top: int,
    *,
    sigma: float | None = None,
    sigma_neighbour: int | None = None,
    include_self: bool = True,
) -> Tensor:
    r"""The same weights as :func:`gaussian_affinity` for many small sets of points at once, as dense matrices.

    Shape: (..., N, d) to (..., N, N).

    >>> dense_affinity(torch.randn(4, 10, 3), 5, sigma_neighbour=3).shape
    torch.Size([4, 10, 10])
    """
    _check_scale(n_top, sigma, sigma_neighbour, include_self)
    _check_sets(x)
    count = x.shape[-2]
    kept = n_top - 1 if include_self else n_top
    others = max(kept, sigma_neighbour or 1)
    if others >= count:
        raise ConfigError(
            f"n_top and sigma_neighbour ask for {others} neighbours, but {count} points have {max(count - 1, 0)} each. "
            "Choose smaller ones."
        )
    centred = x - x.mean(dim=-2, keepdim=True)
    norms = centred.square().sum(dim=-1)
    if not torch.compiler.is_compiling() and not bool(norms.isfinite().all()):
        raise DataError("points must be finite, and so must their squares; some are NaN, infinite or too large.")
    squares = norms[..., :, None] + norms[..., None, :] - 2 * (centred @ centred.mT)
    itself = torch.eye(count, dtype=torch.bool, device=x.device)
    squares = squares.masked_fill(itself, -torch.inf)  # the point itself comes first
    nearest, columns = squares.topk(others + 1, dim=-1, largest=False)
    if torch.compiler.is_compiling() or bool((nearest[..., 1] < near(norms, _ROUNDING)).any()):
        nearest, columns = _exact(centred, columns)
    nearest = nearest.clamp(min=0)
    scale = nearest[..., sigma_neighbour, None] if sigma_neighbour else None
    chosen = slice(0, kept + 1) if include_self else slice(1, kept + 1)
    weights = _gaussian(nearest[..., chosen], sigma, scale)
    return torch.zeros_like(squares).scatter(-1, columns[..., chosen], weights)


def _exact(x: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Squared distances, exact to the last digits, of points (..., N, d) from those of these numbers (..., N, k), and
    the numbers; in ascending order, the point itself first."""
    sets = x.reshape(-1, *x.shape[-2:])
    first = x.shape[-2] * torch.arange(sets.shape[0], device=x.device)  # len(sets) would fix the batch of exports
    chosen = (columns.reshape(sets.shape[0], -1) + first[:, None]).flatten()
    others = sets.flatten(0, 1).index_select(0, chosen).view(*columns.shape, x.shape[-1])
    squares = (others - x[..., None, :]).square().sum(dim=-1)
    itself = columns == torch.arange(x.shape[-2], device=x.device)[:, None]
    squares, order = squares.masked_fill(itself, -1).topk(columns.shape[-1], dim=-1, largest=False)
    return squares, columns.gather(-1, order)


def _check_sets(x: Tensor) -> None:
    if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
        raise ShapeError(f"points are a tensor of floating-point numbers (..., N, coordinates), got {described(x)}.")


def _check_scale(n_top: int, sigma: float | None, sigma_neighbour: int | None, include_self: bool) -> None:
    check_whole(2 if include_self else 1, n_top=n_top)  # one neighbour at least
    if (sigma is None) == (sigma_neighbour is None):
        raise ConfigError(f"give either sigma or sigma_neighbour, got {sigma} and {sigma_neighbour}.")
    if sigma is not None:
        check_positive(sigma=sigma)
    else:
        check_whole(1, sigma_neighbour=sigma_neighbour)


def _gaussian(squares: Tensor, sigma: float | None, scale: Tensor | None) -> Tensor:
    """``scale`` is the square of each row's sigma; a zero gives the limit."""
    if sigma is not None:
        return torch.exp(-squares / sigma**2)
    assert scale is not None
    tiny = torch.finfo(squares.dtype).tiny
    return torch.exp(-squares / scale.clamp_min(tiny))
