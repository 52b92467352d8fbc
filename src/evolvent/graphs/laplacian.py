"""From weights between points to a graph Laplacian: three normalisations that go by one name in print."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar, get_args

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, described
from evolvent._core.errors import DataError, ShapeError
from evolvent.graphs.sparse import SparseMatrix

Normalisation: TypeAlias = Literal["row", "symmetric", "gcn"]

Matrix = TypeVar("Matrix", SparseMatrix, Tensor)


def normalise(weights: Matrix, kind: Normalisation) -> Matrix:
    r"""Normalise the weights of a graph.

    .. math::
        W_{row} = D^{-1} W, \qquad
        W_{symmetric} = \tfrac12 (S + S^\top),\; S = D^{-1/2} W D^{-1/2}, \qquad
        W_{gcn} = \tilde D^{-1/2} (W + I) \tilde D^{-1/2}

    with :math:`D` the sums of rows, those of :math:`W + I` in the last. Wang et al. write "symmetrically normalize" for
    all; their code has the first for points of the plane, the second for few-shot tasks and the third, of Kipf and
    Welling 2017, for graphs. Nodes without an edge keep rows of zeros, with ``"gcn"`` just their loop.

    Args:
        weights: not negative, sparse or dense; ``"gcn"`` needs a symmetric matrix, the others take directed ones.
        kind: which.

    Shape: (N, N) to the same; dense matrices may have further axes before these.

    >>> normalise(torch.tensor([[0.0, 2.0], [1.0, 1.0]]), "row").tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    check_choice("normalisation", kind, get_args(Normalisation))
    check_weights(weights)
    if kind == "row":
        return _scaled(weights, _power(_row_sums(weights), -1.0), None)
    if kind == "gcn":
        _check_symmetric(weights)
        weights = _with_loops(weights)
    factor = _power(_row_sums(weights), -0.5)
    scaled = _scaled(weights, factor, factor)
    return scaled if kind == "gcn" else _mean_with_transpose(scaled)


def laplacian(weights: Matrix) -> Matrix:
    r"""The Laplacian :math:`L = D - W`, which annihilates constants; :math:`D` are the sums of rows of :math:`W`.

    Loops cancel. The diagonal of a sparse :math:`L` is stored whole, so that :math:`I - \gamma L` has its pattern.

    Shape: (N, N) to the same; dense matrices may have further axes before these.

    >>> laplacian(torch.tensor([[5.0, 1.0], [2.0, 0.0]])).tolist()
    [[1.0, -1.0], [-2.0, 2.0]]
    """
    _check_square(weights)
    sums = _row_sums(weights)
    if isinstance(weights, SparseMatrix):
        return weights.with_values(-weights.values).plus_diagonal(sums)
    return torch.diag_embed(sums) - weights


def _check_square(weights: SparseMatrix | Tensor) -> None:
    if not isinstance(weights, (SparseMatrix, Tensor)):
        raise ShapeError(
            f"the weights of a graph are a SparseMatrix or a tensor, got {described(weights)}. Convert them with "
            "SparseMatrix.from_scipy or torch.as_tensor."
        )
    if len(weights.shape) < 2 or weights.shape[-2] != weights.shape[-1]:
        raise ShapeError(f"the weights of a graph form a square matrix, got shape {tuple(weights.shape)}.")


def check_weights(weights: SparseMatrix | Tensor) -> None:
    """Refuse what is not a square matrix of numbers of at least 0."""
    _check_square(weights)
    values = weights.values if isinstance(weights, SparseMatrix) else weights
    if not torch.compiler.is_compiling() and not bool((values >= 0).all()):
        raise DataError("the weights of a graph must be numbers of at least 0; some are negative or NaN.")


def _check_symmetric(weights: SparseMatrix | Tensor) -> None:
    if torch.compiler.is_compiling():
        return
    if isinstance(weights, SparseMatrix):
        symmetric = weights.is_symmetric
    else:
        symmetric = torch.allclose(weights, weights.mT, rtol=1e-5, atol=1e-8)
    if not symmetric:
        raise DataError(
            "normalisation 'gcn' is for undirected graphs, but some weights differ from those of the opposite edge. "
            "Make the graph undirected first: evolvent.graphs.undirected(weights). Where the normalisation can be "
            "chosen, 'row' and 'symmetric' take directed graphs."
        )


def _row_sums(weights: SparseMatrix | Tensor) -> Tensor:
    return weights.row_sums() if isinstance(weights, SparseMatrix) else weights.sum(dim=-1)


def _power(sums: Tensor, exponent: float) -> Tensor:
    """A power of sums; zero for the empty ones."""
    return torch.where(sums > 0, sums.clamp_min(torch.finfo(sums.dtype).tiny) ** exponent, 0)


def _scaled(weights: Matrix, rows: Tensor, columns: Tensor | None) -> Matrix:
    if isinstance(weights, SparseMatrix):
        return weights.scaled(rows, columns)
    scaled = rows[..., :, None] * weights
    return scaled if columns is None else scaled * columns[..., None, :]


def _with_loops(weights: Matrix) -> Matrix:
    if isinstance(weights, SparseMatrix):
        return weights.plus_diagonal(weights.values.new_ones(len(weights)))
    return weights + torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)


def _mean_with_transpose(weights: Matrix) -> Matrix:
    if isinstance(weights, SparseMatrix):
        total = weights.plus(weights.T)
        return total.with_values(total.values / 2)
    return (weights + weights.mT) / 2


def undirected(weights: Matrix) -> Matrix:
    r"""The graph whose edges go both ways, with the larger of two weights, :math:`\max(w_{ij}, w_{ji})`.

    Shape: (N, N) to the same; dense matrices may have further axes before these.

    >>> undirected(SparseMatrix.from_dense(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))).dense().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    _check_square(weights)
    if isinstance(weights, SparseMatrix):
        total = weights.plus(weights.T)
        absent = total.with_values(torch.zeros_like(total.values))
        forth, back = absent.plus(weights).values, absent.plus(weights.T).values
        return total.with_values(torch.maximum(forth, back))
    return torch.maximum(weights, weights.mT)
