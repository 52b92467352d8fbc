import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from evolvent.operators import Dense
from evolvent.testing import check_operator


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
def test_contract(before, after, batch):
    check_operator(Dense(before, after), (batch, before), (batch, after))


def test_forward_is_the_matrix_and_adjoint_its_transpose():
    K = Dense(4, 3).double()
    with torch.no_grad():
        columns = torch.stack([K(e[None])[0] for e in torch.eye(4, dtype=torch.float64)], dim=1)
        rows = torch.stack([K.adjoint(e[None])[0] for e in torch.eye(3, dtype=torch.float64)], dim=0)
    assert_close(columns, K.weight.detach())
    assert_close(rows, columns)


def test_repr_tells_the_sizes():
    assert repr(Dense(2, 3)) == "Dense(2, 3)"
