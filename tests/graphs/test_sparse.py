"""Sparse matrices against dense ones."""

import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.errors import ShapeError
from evolvent.graphs import SparseMatrix


def random_matrix(rows, columns, share=0.4, dtype=torch.float64):
    full = torch.randn(rows, columns, dtype=dtype)
    return torch.where(torch.rand(rows, columns) < share, full, 0)


FURTHER = [(), (1,), (3,), (2, 3), (0,)]


@given(st.integers(1, 7), st.integers(1, 7), st.sampled_from(FURTHER), st.sampled_from([0, 0.4, 1]))
def test_products_and_gradients_are_those_of_the_dense_matrix(rows, columns, further, share):
    full = random_matrix(rows, columns, share)
    sparse = SparseMatrix.from_dense(full)
    u = torch.randn(columns, *further, dtype=torch.float64, requires_grad=True)
    v = torch.randn(rows, *further, dtype=torch.float64)
    found, expected = sparse @ u, torch.einsum("ij,j...->i...", full, u)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(sparse.dense(), full)
    [gradient] = torch.autograd.grad(found, u, v, create_graph=True)
    torch.testing.assert_close(gradient, torch.einsum("ij,i...->j...", full, v))


def test_second_derivatives():
    sparse, u = SparseMatrix.from_dense(random_matrix(4, 3)), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda v: (sparse @ v).sin(), u)


def test_entries_at_the_same_place_are_added_and_rows_are_sorted():
    matrix = SparseMatrix.from_entries([1, 0, 1, 1], [2, 1, 0, 2], torch.tensor([1.0, 2.0, 3.0, 4.0]), (3, 3))
    assert matrix.dense().tolist() == [[0, 2, 0], [3, 0, 5], [0, 0, 0]]
    assert matrix.columns.tolist() == [1, 0, 2]
    assert matrix.rows.tolist() == [0, 1, 1]


def test_transpose_sum_scale_diagonal_and_symmetry():
    full = random_matrix(5, 5)
    sparse, factor = SparseMatrix.from_dense(full), torch.arange(5, dtype=torch.float64)
    torch.testing.assert_close(sparse.T.dense(), full.T)
    torch.testing.assert_close(sparse.plus(sparse.T).dense(), full + full.T)
    torch.testing.assert_close(sparse.scaled(factor, factor + 1).dense(), factor[:, None] * full * (factor + 1))
    torch.testing.assert_close(sparse.diagonal(), full.diagonal())
    torch.testing.assert_close(sparse.plus_diagonal(factor).dense(), full + factor.diag())
    torch.testing.assert_close(sparse.row_sums(), full.sum(1))
    assert sparse.plus(sparse.T).is_symmetric
    assert not sparse.is_symmetric
    assert not SparseMatrix.from_dense(random_matrix(2, 3)).is_symmetric


def test_scipy_there_and_back():
    full = random_matrix(4, 6)
    sparse = SparseMatrix.from_dense(full)
    again = SparseMatrix.from_scipy(sparse.to_scipy().tocoo(), torch.float64)
    torch.testing.assert_close(again.dense(), full)


def test_other_precision_is_made_once_and_pickles_are_small():
    sparse = SparseMatrix.from_dense(random_matrix(4, 4))
    assert sparse.to(dtype=torch.float32) is sparse.to(dtype=torch.float32)
    assert (sparse @ torch.randn(4)).dtype == torch.float32
    assert (sparse @ torch.randn(4, dtype=torch.bfloat16)).dtype == torch.bfloat16
    twin = pickle.loads(pickle.dumps(sparse))
    torch.testing.assert_close(twin.dense(), sparse.dense())
    assert "4 x 4" in repr(sparse)


def test_a_tensor_with_other_rows_is_refused():
    with pytest.raises(ShapeError, match=r"4 columns.*\(3,\)"):
        SparseMatrix.from_dense(random_matrix(4, 4)) @ torch.randn(3)


def test_compiled_products_are_the_same():
    sparse, u = SparseMatrix.from_dense(random_matrix(6, 6)), torch.randn(6, 2, dtype=torch.float64)
    compiled = torch.compile(lambda v: sparse @ v, backend="eager")
    torch.testing.assert_close(compiled(u), sparse @ u)


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([0, 1], [0, 5], "columns 0 to 2, got column 5"),
        ([0, 9], [0, 1], "rows 0 to 2, got row 9"),
        ([0, -1], [0, 1], "got row -1"),
        ([0, 1], [0, 1, 2], "three lists of one length"),
        ([0.5, 1.0], [0, 1], "integers"),
    ],
)
def test_entries_outside_of_the_matrix_are_refused(rows, columns, message):
    with pytest.raises(ShapeError, match=message):
        SparseMatrix.from_entries(rows, columns, torch.ones(2), (3, 3))
    assert SparseMatrix.from_entries([], [], torch.ones(0), (3, 3)).dense().abs().sum() == 0
