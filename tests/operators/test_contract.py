import pytest
import torch
from torch.testing import assert_close

from evolvent.errors import UnknownNameError
from evolvent.operators import OPERATORS, make_operator
from evolvent.testing import check_operator


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_every_kind_keeps_the_contract(kind):
    operator = make_operator(kind, 4, 4)
    check_operator(operator, (2, 4, *[5] * operator.space_axes))


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_every_kind_takes_one_channel_and_single_points(kind):
    operator = make_operator(kind, 1, 1)
    check_operator(operator, (1, 1, *[1] * operator.space_axes))


def test_unknown_kind_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="'dense'"):
        make_operator("dens", 1, 1)


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_skew_part_of_every_kind(kind):
    operator = make_operator(kind, 4, 4).double()
    u = torch.randn(2, 4, *[5] * operator.space_axes, dtype=torch.float64)
    assert_close(operator.skew(u), operator(u) - operator.adjoint(u), rtol=0, atol=1e-12)
    assert (u * operator.skew(u)).sum().abs() < 1e-10
