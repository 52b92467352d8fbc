"""Steerable PDOs: equivariance, adjoint, counts, kernels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from evolvent.errors import ConfigError, ShapeError
from evolvent.groups import (
    Field,
    Group,
    cyclic,
    derivative_representation,
    dihedral,
    direct_sum,
    intertwiner_count,
    irreps,
    quotient,
    regular,
    regular_fields,
    scalars,
    tensor_product,
    trivial,
)
from evolvent.operators.differential import (
    FieldLinear,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    SteerablePDO,
)
from evolvent.testing import check_operator

groups = st.sampled_from([cyclic(1), cyclic(2), cyclic(4), cyclic(6), cyclic(8), dihedral(1), dihedral(2), dihedral(4)])
KINDS = [FiniteDifferences(5), FiniteDifferences(7, accuracy=2), GaussianDerivatives(5, 0.9), FittedGaussian(5)]


def some_representations(group: Group) -> list:
    some = [trivial(group), regular(group), *irreps(group)]
    some.append(quotient(group, group.generated(*group.generators[-1:])))
    return [*some, direct_sum(some[0], some[-1])]


@st.composite
def operators(draw):
    group = draw(groups)
    fields = [Field(draw(st.sampled_from(some_representations(group))), draw(st.integers(1, 2))) for _ in range(2)]
    return SteerablePDO(*fields, draw(st.integers(0, 4)), draw(st.sampled_from(KINDS)))


@given(operators(), st.integers(5, 7), st.booleans())
@settings(max_examples=60)
def test_symmetries_of_the_grid_are_exact(operator, size, double):
    dtype, allowed = (torch.float64, 1e-12) if double else (torch.float32, 1e-6)
    operator = operator.to(dtype)
    u = torch.randn(2, operator.in_field.channels, size, size, dtype=dtype)
    v = operator(u)
    for g in operator.in_field.group.grid_symmetries:
        off = operator(operator.in_field.transform(u, g)) - operator.out_field.transform(v, g)
        assert off.norm() <= allowed * max(1.0, v.norm())


@given(operators())
@settings(max_examples=30)
def test_operators_are_linear_and_have_their_adjoint(operator):
    check_operator(operator, (1, operator.in_field.channels, 6, 6), (1, operator.out_field.channels, 6, 6))


@given(operators())
@settings(max_examples=30)
def test_there_are_as_many_weights_as_characters_count(operator):
    derivatives = derivative_representation(operator.in_field.group, operator.order)
    product = tensor_product(operator.in_field.representation, derivatives)
    count = intertwiner_count(product, operator.out_field.representation)
    assert operator.weight.shape == (operator.out_field.multiplicity, operator.in_field.multiplicity, count)


def test_the_turned_kernels_span_what_intertwiners_span():
    group = cyclic(4)
    operator = SteerablePDO(Field(quotient(group, [0, 2]), 1), regular_fields(group, 1), 2).double()
    kernels = torch.stack([_kernel_of(operator, k) for k in range(operator.weight.shape[2])])
    operator._prepare_intertwiners()
    operator.double()
    others = torch.einsum("bpqd,dt->bpqt", operator.coefficients, operator.stencils).flatten(1)
    both = torch.linalg.matrix_rank(torch.cat([kernels.flatten(1), others]))
    assert both == torch.linalg.matrix_rank(others) == len(others) == len(kernels)


def _kernel_of(operator: SteerablePDO, k: int) -> torch.Tensor:
    with torch.no_grad():
        operator.weight.zero_()[0, 0, k] = 1
        return operator.kernel()


def test_band_limited_operators_are_as_many_as_in_e2cnn():
    operator = SteerablePDO(regular_fields(cyclic(16), 1), regular_fields(cyclic(16), 1), 3, basis="band_limited")
    assert operator.weight.shape[2] == 138


def test_band_limited_operators_do_not_wrap_frequencies():
    """Mode 7 of 16 through a first derivative would give 8 or wrap; it only falls to 6."""
    group = cyclic(16)
    operator = SteerablePDO(regular_fields(group, 1), regular_fields(group, 1), 1, basis="band_limited").double()
    mode = torch.cos(2 * torch.pi * 7 * torch.arange(16, dtype=torch.float64) / 16)
    ramp = torch.arange(9, dtype=torch.float64).view(1, 1, 1, 9).expand(1, 1, 9, 9)
    answer = operator(mode.view(1, 16, 1, 1) * ramp)[0, :, 4, 4]
    found = torch.fft.rfft(answer).abs()
    assert found[[0, 1, 2, 3, 4, 5, 8]].max() < 1e-10 < found[6]


def test_a_laplacian_is_among_the_operators():
    operator = SteerablePDO(scalars(cyclic(4)), scalars(cyclic(4)), 2, FiniteDifferences(3)).double()
    assert operator.weight.shape[2] == 2  # the identity and the Laplacian
    x = torch.arange(7, dtype=torch.float64) - 3
    paraboloid = (x[:, None] ** 2 + x[None, :] ** 2)[None, None]
    laplacian = operator(paraboloid) - operator(torch.ones_like(paraboloid)) * paraboloid
    inner = laplacian[0, 0, 1:-1, 1:-1]
    torch.testing.assert_close(inner, inner[0, 0].expand_as(inner))


def test_the_dense_convolution_answers_the_same():
    operator = SteerablePDO(regular_fields(cyclic(4), 2), regular_fields(cyclic(4), 3), 3, padding=1)
    u = torch.randn(2, 8, 9, 9)
    torch.testing.assert_close(operator.dense()(u), operator(u))
    assert operator(u).shape == (2, 12, 7, 7)


def test_linear_maps_of_fields_are_convolutions_of_one_pixel():
    group = dihedral(3)
    linear = FieldLinear(regular_fields(group, 2), Field(irreps(group)[-1], 3))
    u = torch.randn(2, 12, 5, 4)
    torch.testing.assert_close(linear(u), F.conv2d(u, linear.kernel()), atol=1e-5, rtol=1e-5)
    check_operator(linear, (1, 12, 2, 3), (1, 6, 2, 3))


def test_constants_are_exact_in_double_after_a_detour():
    operator = SteerablePDO(regular_fields(cyclic(8), 1), regular_fields(cyclic(8), 1))
    exact = torch.tensor(operator._arrays["stencils"])
    assert torch.equal(operator.double().float().double().stencils, exact)
    assert operator.float().stencils.dtype == torch.float32


def test_the_state_dictionary_holds_the_weights_alone():
    operator = SteerablePDO(regular_fields(cyclic(8), 2), regular_fields(cyclic(8), 2))
    assert list(operator.state_dict()) == list(operator.eval().state_dict()) == ["weight"]


def test_half_precision_under_autocast():
    operator = SteerablePDO(scalars(cyclic(8)), regular_fields(cyclic(8), 2))
    linear = FieldLinear(regular_fields(cyclic(8), 2), regular_fields(cyclic(8), 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        v = linear(operator(torch.randn(1, 1, 8, 8)))
    assert v.dtype == torch.bfloat16
    v.float().sum().backward()
    assert operator.weight.grad is not None
    assert operator.weight.grad.isfinite().all()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: SteerablePDO(scalars(cyclic(4)), scalars(cyclic(8))), "one group"),
        (lambda: SteerablePDO(scalars(cyclic(4)), scalars(cyclic(4)), 6), "^SteerablePDO from .*at least 7 pixels"),
        (lambda: SteerablePDO(scalars(cyclic(4)), scalars(cyclic(4)), padding=-1), "padding"),
        (lambda: SteerablePDO(scalars(cyclic(4)), scalars(cyclic(4)), basis="band_limited"), "regular fields"),
        (
            lambda: SteerablePDO(regular_fields(dihedral(4), 1), regular_fields(dihedral(4), 1), basis="band_limited"),
            "cyclic",
        ),
    ],
)
def test_what_does_not_fit_is_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()


def test_features_of_another_field_are_refused():
    with pytest.raises(ShapeError, match="8 channels"):
        SteerablePDO(regular_fields(cyclic(4), 2), scalars(cyclic(4)))(torch.zeros(1, 4, 5, 5))


def test_maps_smaller_than_the_stencils_are_refused():
    with pytest.raises(ShapeError, match="at least 5 x 5, got shape"):
        SteerablePDO(scalars(cyclic(4)), scalars(cyclic(4)), padding=0)(torch.zeros(1, 1, 3, 3))


@pytest.mark.parametrize("field", [regular_fields(cyclic(4), 2), Field(irreps(cyclic(4))[1], 4)], ids=str)
def test_linear_maps_take_no_samples(field):
    assert FieldLinear(field, field)(torch.zeros(0, 8, 3, 3)).shape == (0, 8, 3, 3)
