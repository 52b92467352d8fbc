"""Sparse matrices in compressed rows, applied to features of any shape with gradients that cost one product."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import described
from evolvent._core.errors import ShapeError


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    r"""A matrix :math:`A` of which only some entries are stored, row by row (CSR).

    It multiplies tensors whose first axis counts its columns, whatever axes follow: ``A @ u`` is
    :math:`\sum_j a_{ij} u_j`. The gradient with respect to :math:`u` is a product with :math:`A^\top`, whose rows are
    sorted once; the entries themselves are constants.

    Args:
        starts: int64 (rows + 1,), where each row begins and the last ends.
        columns: int64 (entries,), ascending inside each row.
        values: (entries,).
        width: number of columns.

    Shape: (width, ...) to (rows, ...).

    >>> A = SparseMatrix.from_entries([0, 0, 1], [1, 2, 0], torch.tensor([1.0, 2.0, 3.0]), (2, 3))
    >>> (A @ torch.tensor([1.0, 10.0, 100.0])).tolist()
    [210.0, 3.0]
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int

    @classmethod
    def from_entries(cls, rows: Any, columns: Any, values: Tensor, shape: tuple[int, int]) -> Self:
        """A matrix from its entries in any order; entries at the same place are added.

        Args:
            rows, columns: integers, as many as there are values.
            values: the entries.
            shape: rows and columns of the matrix.

        Raises:
            ShapeError: if an index lies outside of the matrix, or there are not as many of them as values.
        """
        rows, columns = (torch.as_tensor(index, device=values.device) for index in (rows, columns))
        if not torch.compiler.is_compiling():
            _check_entries(rows, columns, values, shape)
        rows, columns = rows.long(), columns.long()
        place, owner = (rows * shape[1] + columns).unique(return_inverse=True)
        added = values.new_zeros(len(place)).index_add_(0, owner, values)
        return cls._from_places(place, added, shape)

    @classmethod
    def _from_places(cls, place: Tensor, values: Tensor, shape: tuple[int, int]) -> Self:
        """``place`` is row * width + column, ascending."""
        row = place.div(shape[1], rounding_mode="floor")
        counts = torch.bincount(row, minlength=shape[0])
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), place - row * shape[1], values, shape[1])

    @classmethod
    def from_dense(cls, matrix: Tensor) -> Self:
        """The entries of a dense matrix that are not zero."""
        rows, columns = matrix.nonzero(as_tuple=True)
        return cls.from_entries(rows, columns, matrix[rows, columns], (matrix.shape[0], matrix.shape[1]))

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype | None = None) -> Self:
        """A matrix or array of ``scipy.sparse``, of any kind; entries at the same place are added."""
        csr = matrix.tocsr(copy=True)
        csr.sum_duplicates()
        starts, columns = (torch.from_numpy(index.astype(np.int64)) for index in (csr.indptr, csr.indices))
        return cls(starts, columns, torch.from_numpy(csr.data).to(dtype or torch.get_default_dtype()), csr.shape[1])

    def to_scipy(self) -> Any:
        """The same matrix as ``scipy.sparse.csr_array``, in float64."""
        from scipy.sparse import csr_array

        parts = (part.detach().cpu().numpy() for part in (self.values.double(), self.columns, self.starts))
        return csr_array(tuple(parts), shape=self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.starts) - 1, self.width

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        return self.values.device

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, int64 (entries,)."""
        return torch.repeat_interleave(torch.arange(len(self), device=self.device), self.starts.diff())

    @cached_property
    def T(self) -> SparseMatrix:
        """The transpose."""
        order, starts, columns = self._flip
        flipped = SparseMatrix(starts, columns, self.values[order], len(self))
        vars(flipped)["T"] = self
        return flipped

    @cached_property
    def _flip(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transpose without its values: the order of the entries in it, its starts and its columns."""
        order = torch.argsort(self.columns, stable=True)
        counts = torch.bincount(self.columns, minlength=self.width)
        return order, torch.cat([counts.new_zeros(1), counts.cumsum(0)]), self.rows[order]

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether entries across the diagonal agree, up to rounding."""
        if len(self) != self.width:
            return False
        same = torch.equal(self.starts, self.T.starts) and torch.equal(self.columns, self.T.columns)
        return same and torch.allclose(self.values, self.T.values, rtol=1e-5, atol=1e-12)

    @cached_property
    def _csr(self) -> Tensor:
        """The same matrix as torch's own kind; its kernels take 32-bit indices without converting them."""
        small = max(len(self.columns), *self.shape) < 2**31
        starts, columns = (part.to(torch.int32) if small else part for part in (self.starts, self.columns))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(starts, columns, self.values, self.shape, check_invariants=False)

    def __matmul__(self, u: Tensor) -> Tensor:
        if u.shape[:1] != (self.width,):
            raise ShapeError(
                f"a sparse matrix of {self.width} columns multiplies tensors with as many rows, got shape "
                f"{tuple(u.shape)}."
            )
        if torch.compiler.is_compiling():
            return self.product(u)  # made of operations that tracers know and differentiate
        return _Product.apply(u, self)  # pyright: ignore[reportReturnType]

    def product(self, u: Tensor) -> Tensor:
        """``self @ u`` without gradient and without checks; sums are made in float32 at least."""
        precise = torch.promote_types(u.dtype, torch.float32)
        matrix, flat = self.to(u.device, precise), u.reshape(self.width, -1).to(precise)
        if torch.compiler.is_compiling() or flat.shape[1] == 0:
            gathered = matrix.values[:, None] * flat[matrix.columns]
            found = flat.new_zeros(len(self), flat.shape[1]).index_add(0, matrix.rows, gathered)
        else:
            found = _into_empty(matrix._csr, flat)
        return found.reshape(len(self), *u.shape[1:]).to(u.dtype)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None, **_: Any) -> SparseMatrix:
        """The matrix on another device, or with entries of another precision."""
        device, dtype = torch.device(device) if device else self.device, dtype or self.dtype
        if device == self.device and dtype == self.dtype:
            return self
        known = self._elsewhere.get((device, dtype))
        if known is None:
            starts, columns = self.starts.to(device), self.columns.to(device)
            known = SparseMatrix(starts, columns, self.values.to(device, dtype), self.width)
            self._elsewhere[device, dtype] = known
        return known

    @cached_property
    def _elsewhere(self) -> dict[tuple[torch.device, torch.dtype], SparseMatrix]:
        """Copies that were asked for."""
        return {}

    def with_values(self, values: Tensor) -> SparseMatrix:
        """A matrix with other entries at the same places; what was found about the places is known to it."""
        twin = SparseMatrix(self.starts, self.columns, values, self.width)
        vars(twin).update({name: vars(self)[name] for name in ("rows", "_flip") if name in vars(self)})
        return twin

    def dense(self) -> Tensor:
        """All entries, (rows, width)."""
        full = self.values.new_zeros(self.shape)
        full[self.rows, self.columns] = self.values
        return full

    def row_sums(self) -> Tensor:
        """(rows,)."""
        return self.values.new_zeros(len(self)).index_add_(0, self.rows, self.values)

    def diagonal(self) -> Tensor:
        """The entries on the diagonal of a square matrix, zero where none is stored."""
        there = self.rows == self.columns
        return self.values.new_zeros(len(self)).index_add_(0, self.rows[there], self.values[there])

    def plus_diagonal(self, added: Tensor) -> SparseMatrix:
        """A square matrix with a number added to each entry of the diagonal, which is stored whole."""
        every = torch.arange(len(self), device=self.device)
        rows, columns = torch.cat([self.rows, every]), torch.cat([self.columns, every])
        return SparseMatrix.from_entries(rows, columns, torch.cat([self.values, added]), self.shape)

    def scaled(self, rows: Tensor | None = None, columns: Tensor | None = None) -> SparseMatrix:
        """The matrix with rows and columns multiplied by numbers, one for each."""
        values = self.values
        values = values if rows is None else values * rows[self.rows]
        return self.with_values(values if columns is None else values * columns[self.columns])

    def plus(self, other: SparseMatrix) -> SparseMatrix:
        """The sum of two matrices of one shape."""
        rows, columns = torch.cat([self.rows, other.rows]), torch.cat([self.columns, other.columns])
        return SparseMatrix.from_entries(rows, columns, torch.cat([self.values, other.values]), self.shape)

    def __getstate__(self) -> dict[str, Any]:
        """What is stored; whatever follows from it is made again."""
        return {name: getattr(self, name) for name in ("starts", "columns", "values", "width")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SparseMatrix({rows:,} x {columns:,}, {len(self.columns):,} entries, {self.dtype})"


def check_graph(graph: Any) -> None:
    """Refuse what is not a sparse matrix, such as one of another library."""
    if not isinstance(graph, SparseMatrix):
        raise ShapeError(
            f"a graph is a SparseMatrix of the weights of its edges, got {described(graph)}. Make one of them with "
            "SparseMatrix.from_dense, from_scipy, or from_entries(rows, columns, weights, shape)."
        )


def _check_entries(rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> None:
    """An index out of range would otherwise become an entry of another row."""
    if not rows.shape == columns.shape == values.shape or rows.ndim != 1:
        raise ShapeError(
            f"rows, columns and values of a sparse matrix are three lists of one length, got shapes "
            f"{tuple(rows.shape)}, {tuple(columns.shape)} and {tuple(values.shape)}."
        )
    for name, index, size in (("row", rows, shape[0]), ("column", columns, shape[1])):
        if not len(index):
            continue
        if index.is_floating_point() or index.is_complex():
            raise ShapeError(f"{name}s of a sparse matrix are integers, got {index.dtype}. Convert them to int64.")
        low, high = (int(end) for end in index.aminmax())
        if low < 0 or high >= size:
            raise ShapeError(
                f"a sparse matrix of shape {tuple(shape)} has {name}s 0 to {size - 1}, got {name} "
                f"{low if low < 0 else high}. Count from 0, or give a larger shape."
            )


def _into_empty(matrix: Tensor, u: Tensor) -> Tensor:
    """``torch.sparse.mm`` without the zeros that it makes and copies first, which take as long as wide products."""
    if u.device.type == "cpu" and not torch.backends.mkl.is_available():
        return torch.sparse.mm(matrix, u)
    return u.new_empty(len(matrix), u.shape[1]).addmm_(matrix, u, beta=0)


class _Product(torch.autograd.Function):
    """A constant matrix times a tensor; the backward pass is a product with the transpose."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.product(u)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _Product.apply(gradients[0], ctx.matrix.T), None  # pyright: ignore[reportReturnType]
