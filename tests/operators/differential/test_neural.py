"""Neural ePDOs: equivariance for every rule and field, its necessity, dense forms, tracing."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evolvent.errors import ConfigError, ShapeError
from evolvent.groups import (
    Field,
    Representation,
    cyclic,
    dihedral,
    direct_sum,
    irrep,
    irreps,
    quotient,
    regular,
    regular_fields,
    trivial,
)
from evolvent.operators.differential import (
    FieldLinear,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    NeuralEPDO,
    dense,
)
from evolvent.testing.compilation import check_compiles, check_exports

KINDS = [FiniteDifferences(5), FiniteDifferences(3), GaussianDerivatives(5, 0.9), FittedGaussian(5)]
groups = st.sampled_from([cyclic(1), cyclic(2), cyclic(4), cyclic(8), dihedral(1), dihedral(2), dihedral(4)])


def moved_kinds(group):
    some = [regular(group), trivial(group), quotient(group, group.generated(*group.generators[-1:]))]
    return [*some, direct_sum(some[0], some[2])]


@st.composite
def layers(draw):
    group = draw(groups)
    rule = draw(st.sampled_from(["diagonal", "full", "invariant"]))
    kinds = moved_kinds(group) if rule == "diagonal" else [*irreps(group), moved_kinds(group)[2]]
    partitions, reduction = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    field = Field(draw(st.sampled_from(kinds)), 2)
    kind = draw(st.sampled_from(KINDS))
    order = draw(st.integers(0, min(4, kind.size - 1) if rule != "full" else 2))
    return NeuralEPDO(field, order, reduction, partitions, rule, kind, padding=draw(st.integers(0, 3)))


def worst_error(layer, u):
    v, field = layer(u), layer.in_field
    errors = [
        (layer(field.transform(u, g)) - field.transform(v, g)).norm() / v.norm().clamp(min=1)
        for g in field.group.grid_symmetries
    ]
    return max(error.item() for error in errors)


@pytest.mark.parametrize("coefficients", ["full", "invariant"])
def test_representations_need_not_be_orthogonal(coefficients):
    basis = np.array([[1, 0.5], [0, 2]])
    skewed = Representation(cyclic(4), np.linalg.inv(basis) @ irrep(cyclic(4), 1).matrices @ basis, "skewed")
    layer = NeuralEPDO(Field(skewed, 2), 2, 1, 1, coefficients).double()
    assert worst_error(layer, torch.randn(2, 4, 7, 7, dtype=torch.float64)) < 1e-12


@given(layers(), st.integers(5, 8), st.booleans())
@settings(max_examples=60)
def test_symmetries_of_the_grid_are_exact(layer, size, double):
    dtype, allowed = (torch.float64, 1e-12) if double else (torch.float32, 1e-6)
    u = torch.randn(2, layer.in_field.channels, size, size, dtype=dtype)
    assert worst_error(layer.to(dtype), u) <= allowed


class BrokenGenerator(nn.Module):
    """An ordinary map where Proposition 1 asks for one that commutes with the group."""

    def __init__(self, like: FieldLinear) -> None:
        super().__init__()
        self.conv = like.dense()
        nn.init.normal_(self.conv.weight, std=0.3)

    def forward(self, u):
        return self.conv(u)


@pytest.mark.parametrize("part", ["first", "second"])
@pytest.mark.parametrize("rule", ["diagonal", "full", "invariant"])
def test_the_constraint_on_the_generator_is_necessary(rule, part):
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), 2, 1, 2, rule).double()
    u = torch.randn(1, 8, 7, 7, dtype=torch.float64)
    assert worst_error(layer, u) <= 1e-12
    setattr(layer.rule, part, BrokenGenerator(getattr(layer.rule, part)).double())
    assert worst_error(layer, u) > 1e-3


def test_translations_are_exact_away_from_the_border():
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), partitions=2)
    u = torch.zeros(1, 8, 16, 16)
    u[..., 5:8, 5:8] = torch.randn(1, 8, 3, 3)
    torch.testing.assert_close(layer(u.roll((2, 1), (2, 3))), layer(u).roll((2, 1), (2, 3)))


def test_regular_and_general_coefficients_span_the_same():
    """A regular field written as a quotient by nothing but the identity has as many weights."""
    field = regular_fields(cyclic(6), 2)
    turned = NeuralEPDO(field, 3, partitions=2)
    general = NeuralEPDO(Field(direct_sum(regular(cyclic(6))), 2), 3, partitions=2)
    assert sum(p.numel() for p in turned.parameters()) == sum(p.numel() for p in general.parameters())


def test_weights_are_as_many_as_the_paper_says():
    fields, n, order, r, p = 16, 8, 4, 2, 4
    layer = NeuralEPDO(regular_fields(cyclic(n), fields), order, r, p)
    derivatives = (order + 1) * (order + 2) // 2
    expected = fields**2 * n // r + fields**2 * derivatives * n // (r * p)  # Table 1
    assert sum(w.numel() for w in layer.parameters()) == expected


def test_coefficients_are_those_of_the_features():
    layer = NeuralEPDO(regular_fields(cyclic(4), 4), 2, partitions=2)
    u = torch.randn(1, 16, 6, 6)
    assert layer.coefficients(u).shape == (1, 2, 6, 4, 6, 6)
    assert NeuralEPDO(layer.in_field, 2, partitions=2, padding=0).coefficients(u).shape[-2:] == (2, 2)


@pytest.mark.parametrize("rule", ["diagonal", "full", "invariant"])
def test_dense_layers_answer_the_same(rule):
    network = nn.Sequential(FieldLinear(regular_fields(cyclic(4), 1), regular_fields(cyclic(4), 2)))
    network.append(NeuralEPDO(regular_fields(cyclic(4), 2), 2, partitions=2, coefficients=rule, padding=1))
    u, plain = torch.randn(2, 4, 7, 7), dense(network)
    torch.testing.assert_close(plain(u), network(u), atol=1e-5, rtol=1e-4)
    assert not any(isinstance(part, FieldLinear) for part in plain.modules())
    assert any(isinstance(part, FieldLinear) for part in network.modules())


@pytest.mark.parametrize("rule", ["diagonal", "full", "invariant"])
def test_tracers_take_the_layer(rule):
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), 2, partitions=2, coefficients=rule)
    check_exports(layer, torch.randn(1, 8, 6, 6))
    check_compiles(layer, torch.randn(1, 8, 6, 6), backend="aot_eager")


def test_a_layer_is_copied_pickled_and_stored_as_its_weights():
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), partitions=2)
    u = torch.randn(1, 8, 6, 6)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(u), layer(u))
    assert list(layer.state_dict()) == ["rule.first.weight", "rule.second.weight"]


def test_half_precision_under_autocast():
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), partitions=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        v = layer(torch.randn(1, 8, 6, 6, dtype=torch.bfloat16))
    assert v.dtype == torch.bfloat16
    v.float().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: NeuralEPDO(regular_fields(cyclic(4), 6)), "^NeuralEPDO on 6 x .*partitions must divide the 6 fields"),
        (lambda: NeuralEPDO(regular_fields(cyclic(4), 8), reduction=3), "reduction must divide"),
        (lambda: NeuralEPDO(regular_fields(cyclic(4), 8), order=5), "^NeuralEPDO on 8 x .*at least 7 pixels"),
        (lambda: NeuralEPDO(Field(irreps(cyclic(8))[1], 8)), "^NeuralEPDO on 8 x irrep.*only moved"),
        (lambda: NeuralEPDO(regular_fields(cyclic(16), 8), coefficients="full"), "diagonal"),
        (lambda: NeuralEPDO(regular_fields(cyclic(4), 8), padding=-1), "padding"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()


def test_maps_smaller_than_the_stencils_are_refused():
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), partitions=2, padding=0)
    for use in (layer, layer.coefficients):
        with pytest.raises(ShapeError, match=r"NeuralEPDO: .* at least 5 x 5, got shape"):
            use(torch.zeros(1, 8, 3, 3))


@pytest.mark.parametrize("rule", ["diagonal", "full", "invariant"])
def test_no_samples_have_an_answer(rule):
    layer = NeuralEPDO(regular_fields(cyclic(4), 2), 2, partitions=2, coefficients=rule)
    assert layer(torch.zeros(0, 8, 5, 5)).shape == (0, 8, 5, 5)
