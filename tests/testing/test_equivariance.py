"""The check must find what is wrong."""

import pytest
import torch
from torch import nn

from evolvent.groups import Field, cyclic, dihedral, irrep, regular_fields, scalars
from evolvent.operators.differential import FieldLinear, GroupRestriction, OrientationPooling, SteerablePDO
from evolvent.testing import check_equivariance

C4, D4, C8 = cyclic(4), dihedral(4), cyclic(8)
vectors = Field(irrep(C8, 1), 2)


class FirstRow(nn.Module):
    def forward(self, u):
        return u[:, :, 0].sum(-1)


class Whole(nn.Module):
    def forward(self, u):
        return u.sum((2, 3))


@pytest.mark.parametrize(
    ("module", "before", "after", "complaint"),
    [
        (nn.ReLU(), vectors, vectors, r"element 2 of C8 \(90°\): .* in float32, claimed at most 1e-06"),
        (nn.Conv2d(1, 1, 3, padding=1), scalars(C4), scalars(C4), r"element 1 of C4"),
        (SteerablePDO(scalars(C4), scalars(C4)), scalars(C4), regular_fields(C4, 1), "claimed are maps of 1 x regular"),
        (SteerablePDO(regular_fields(C4, 2), regular_fields(C4, 2)), scalars(D4, 8), scalars(D4, 8), "element 1 of D4"),
        (FirstRow(), scalars(C4), None, "element 1 of C4"),
    ],
)
def test_faults_are_found(module, before, after, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_equivariance(module, before, after)


def test_what_is_not_finite_is_found():
    with pytest.raises(AssertionError, match="not finite"):
        check_equivariance(nn.Threshold(9, float("nan")), scalars(C4), scalars(C4))


def test_answers_that_do_not_change_are_taken():
    check_equivariance(nn.Sequential(OrientationPooling(regular_fields(C8, 3)), Whole()), regular_fields(C8, 3), None)


def test_every_precision_has_its_bound():
    linear = FieldLinear(vectors, vectors)
    with pytest.raises(AssertionError, match="in float64, claimed at most 0e"):
        check_equivariance(linear, vectors, vectors, tolerances={torch.float64: 0.0})


def test_elements_that_move_no_pixels_are_tried_on_channels_alone():
    check_equivariance(nn.Tanh(), vectors, vectors)  # quarter turns only move and negate the two channels
    with pytest.raises(AssertionError, match=r"element 1 of C8 \(45°\), on channels alone"):
        check_equivariance(nn.Tanh(), vectors, vectors, pointwise=True)


def test_the_group_of_the_result_may_be_smaller():
    restriction = GroupRestriction(regular_fields(D4, 2), cyclic(2))
    check_equivariance(restriction, restriction.in_field, restriction.out_field)


def test_the_module_itself_is_left_alone():
    norm = nn.BatchNorm2d(1).train()
    before = torch.get_rng_state()
    check_equivariance(norm, scalars(C4), scalars(C4))
    assert norm.num_batches_tracked == 0
    assert norm.weight.dtype == torch.float32
    assert torch.equal(torch.get_rng_state(), before)
