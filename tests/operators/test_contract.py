import pytest
import torch
from torch.testing import assert_close

from evolvent.errors import ConfigError, UnknownNameError
from evolvent.operators import OPERATORS, make_operator
from evolvent.testing import check_operator

LEAST = {"steerable_c4": 4, "steerable_c8": 8, "steerable_d4": 8}  # channels of one field


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_every_kind_keeps_the_contract(kind):
    operator = make_operator(kind, 8, 8)
    check_operator(operator, (2, 8, *[5] * operator.space_axes))


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_every_kind_takes_one_channel_or_field_and_single_points(kind):
    least = LEAST.get(kind, 1)
    operator = make_operator(kind, least, least)
    check_operator(operator, (1, least, *[1] * operator.space_axes))


def test_unknown_kind_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="'dense'"):
        make_operator("dens", 1, 1)


@pytest.mark.parametrize("kind", OPERATORS.names())
def test_skew_part_of_every_kind(kind):
    operator = make_operator(kind, 8, 8).double()
    u = torch.randn(2, 8, *[5] * operator.space_axes, dtype=torch.float64)
    assert_close(operator.skew(u), operator(u) - operator.adjoint(u), rtol=0, atol=1e-12)
    assert (u * operator.skew(u)).sum().abs() < 1e-10


def test_steerable_kinds_are_between_whole_fields():
    for before, after in ((8, 12), (4, 8)):
        with pytest.raises(ConfigError, match=r"fields of D4 have 8 channels each.* multiple of 8, got"):
            make_operator("steerable_d4", before, after)
