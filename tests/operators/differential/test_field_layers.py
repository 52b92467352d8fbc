"""Layers over fields: they commute with their group, and refuse fields on which they would not."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.groups import (
    Field,
    Group,
    Representation,
    cyclic,
    dihedral,
    direct_sum,
    irrep,
    irreps,
    quotient,
    regular,
    regular_fields,
    scalars,
    sign,
    trivial,
)
from evolvent.operators.differential import (
    EquivarianceWarning,
    FieldActivation,
    FieldBatchNorm,
    FieldBias,
    FieldDropout,
    FieldLinear,
    FieldPooling,
    GroupRestriction,
    NeuralEPDO,
    NormActivation,
    OrientationPooling,
    SteerablePDO,
    dense,
)
from evolvent.testing import check_equivariance, check_exports

groups = st.sampled_from([cyclic(1), cyclic(2), cyclic(4), cyclic(8), dihedral(1), dihedral(2), dihedral(4)])
C4, C8, D4 = cyclic(4), cyclic(8), dihedral(4)
VECTORS = Field(irrep(C8, 1), 3)


def permutations(group: Group) -> list[Representation]:
    cosets = quotient(group, group.generated(*group.generators[-1:]))
    return [trivial(group), regular(group), cosets, direct_sum(trivial(group), regular(group), cosets)]


@st.composite
def moved_fields(draw):
    """Fields whose channels are only moved."""
    return Field(draw(st.sampled_from(permutations(draw(groups)))), draw(st.integers(1, 3)))


@st.composite
def fields(draw):
    group = draw(groups)
    some = [*permutations(group), *irreps(group)]
    some += [direct_sum(irreps(group)[-1], regular(group)), direct_sum(*irreps(group))]
    return Field(draw(st.sampled_from(some)), draw(st.integers(1, 3)))


def generic(layer: nn.Module) -> nn.Module:
    """With parameters and statistics as after some training."""
    for parameter in layer.parameters():
        nn.init.normal_(parameter, 0.5)
    if isinstance(layer, FieldBatchNorm):
        for _ in range(3):
            layer(1 + 2 * torch.randn(3, layer.in_field.channels, 4, 4))
    return layer


def check(layer, size: int = 8) -> None:
    for mode in (True, False):
        check_equivariance(generic(layer).train(mode), layer.in_field, layer.out_field, size, pointwise=True)


def uneven(norm: nn.BatchNorm2d) -> nn.BatchNorm2d:
    """As after some training, when channels have their own scales."""
    nn.init.uniform_(norm.weight)
    return norm


@given(fields(), st.integers(3, 6))
@settings(max_examples=40)
def test_normalisation_commutes(field, size):
    check(FieldBatchNorm(field), size)


@given(moved_fields(), st.sampled_from(["relu", "leaky_relu", "elu", "gelu", "silu", "softplus", "sigmoid", "tanh"]))
@settings(max_examples=30)
def test_activations_commute_where_channels_are_moved(field, name):
    check(FieldActivation(field, name))


@pytest.mark.parametrize("name", ["tanh", "softsign", "identity"])
@pytest.mark.parametrize("representation", [sign(C4), irrep(C4, 1), direct_sum(sign(D4), regular(D4)), irrep(D4, 2, 1)])
def test_odd_activations_commute_where_signs_change(name, representation):
    check(FieldActivation(Field(representation, 2), name))


@given(fields())
@settings(max_examples=40)
def test_shortening_commutes(field):
    check(NormActivation(field))


@given(fields())
def test_dropout_commutes(field):
    check(FieldDropout(field, 0.4))


@given(fields())
@settings(max_examples=30)
def test_lengths_do_not_change(field):
    check(OrientationPooling(field, "norm"))


@given(moved_fields(), st.sampled_from(["max", "mean"]))
@settings(max_examples=30)
def test_pooled_orientations_do_not_change(field, how):
    check(OrientationPooling(field, how))


@given(fields(), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=30)
def test_averages_over_pixels_commute(field, size, count):
    check(FieldPooling(field, size), size * count)


@given(moved_fields(), st.integers(1, 5), st.integers(1, 9), st.sampled_from(["average", "max"]))
@settings(max_examples=60)
def test_centred_windows_commute_on_every_map(field, size, side, how):
    layer = FieldPooling(field, size, how, pad=True)
    assert layer(torch.zeros(1, field.channels, side, side + 1)).shape[2:] == (-(-side // size), -(-(side + 1) // size))
    check(layer, side)


@pytest.mark.parametrize("subgroup", [cyclic(1), cyclic(2), dihedral(1), dihedral(2), cyclic(4), D4], ids=str)
@pytest.mark.parametrize("representation", [trivial(D4), regular(D4), *irreps(D4)], ids=str)
def test_restrictions_commute_with_the_smaller_group(representation, subgroup):
    check(GroupRestriction(Field(representation, 2), subgroup))


def test_regular_fields_become_regular_fields():
    layer = GroupRestriction(regular_fields(C8, 3), C4)
    assert layer.out_field == regular_fields(C4, 6)
    assert layer.state_dict() == {}


@pytest.mark.parametrize(
    ("module", "field"),
    [
        (nn.ReLU(), VECTORS),
        (nn.Tanh(), VECTORS),
        (nn.ReLU(), Field(sign(C4), 2)),
        (uneven(nn.BatchNorm2d(8)), regular_fields(C8, 1)),
        (nn.MaxPool2d(2), VECTORS),
        (nn.Dropout2d(0.5), regular_fields(C8, 1)),
    ],
)
def test_layers_that_ignore_fields_do_not_commute(module, field):
    with pytest.raises(AssertionError, match=r"element [12] of"):
        check_equivariance(module, field, field, pointwise=True)


def test_pooling_that_leaves_out_pixels_does_not_commute():
    field = regular_fields(C4, 1)
    layer = FieldPooling(field)
    with pytest.warns(EquivarianceWarning, match=r"7x7, so FieldPooling on 1 x regular\(C4\) .* pad=True"):
        layer(torch.zeros(1, 4, 7, 7))
    layer(torch.zeros(1, 4, 7, 7))  # said once
    with pytest.raises(AssertionError, match="element 1 of C4"):
        check_equivariance(layer, field, field, 7)


def test_pooling_says_nothing_without_symmetries():
    FieldPooling(scalars(cyclic(1), 2))(torch.zeros(1, 2, 7, 7))
    check_exports(FieldPooling(scalars(C4, 2), pad=True), torch.randn(1, 2, 7, 7))


def test_exporting_says_nothing():
    torch.export.export(FieldPooling(scalars(C4, 2)).eval(), (torch.randn(1, 2, 7, 7),))


@pytest.mark.parametrize("how", ["average", "max"])
def test_pooling_is_the_ordinary_one_where_it_can_be(how):
    u = torch.randn(2, 4, 6, 9)
    layer = FieldPooling(regular_fields(C4, 1), 3, how)
    expected = F.avg_pool2d(u, 3) if how == "average" else F.max_pool2d(u, 3)
    assert_close(layer(u), expected)
    assert_close(FieldPooling(layer.in_field, 3, how, pad=True)(u), expected)


@pytest.mark.parametrize("field", [regular_fields(D4, 3), Field(quotient(D4, [0, 4]), 2), scalars(C4, 5)], ids=str)
def test_permuted_fields_are_normalised_as_one_channel(field, dtype, tolerance):
    layer, plain = FieldBatchNorm(field).to(dtype), nn.BatchNorm2d(field.multiplicity).to(dtype)
    for mode in (True, True, False):
        u = 3 + torch.randn(4, field.channels, 5, 6, dtype=dtype)
        expected = plain.train(mode)(field.fibres(u).flatten(2, 3)).reshape(u.shape)
        assert_close(layer.train(mode)(u), expected, **tolerance)
    assert sum(p.numel() for p in layer.parameters()) == 2 * field.multiplicity


def test_the_general_normalisation_contains_the_special_one(dtype, tolerance):
    """A regular field in another basis is normalised as it is in its own."""
    field, turn = regular_fields(C4, 2), np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    other = Field(Representation(C4, turn @ regular(C4).matrices @ turn.T, "turned"), 2)
    layer, turned = FieldBatchNorm(field).to(dtype), FieldBatchNorm(other).to(dtype)
    change = torch.tensor(turn, dtype=dtype)
    for mode in (True, True, False):
        u = 1 + torch.randn(3, 8, 4, 4, dtype=dtype)
        v = torch.einsum("ij,bmjyx->bmiyx", change, field.fibres(u)).flatten(1, 2)
        expected = torch.einsum("ij,bmjyx->bmiyx", change, field.fibres(layer.train(mode)(u))).flatten(1, 2)
        assert_close(turned.train(mode)(v), expected, **tolerance)
    assert_close(turned.norm.running_var, layer.norm.running_var, **tolerance)


def test_normalised_vectors_have_unit_variance_and_keep_their_direction():
    layer = FieldBatchNorm(VECTORS)
    u = 4 * torch.randn(8, 6, 5, 5)
    v = VECTORS.fibres(layer(u))
    assert_close(v.square().mean(dim=(0, 2, 3, 4)), torch.ones(3), atol=1e-3, rtol=0)
    assert F.cosine_similarity(v, VECTORS.fibres(u), dim=2).min() > 0.9999
    assert sum(p.numel() for p in layer.parameters()) == 3


@pytest.mark.parametrize("field", [VECTORS, regular_fields(C4, 2), Field(direct_sum(trivial(C4), irrep(C4, 1)), 2)])
def test_normalisation_keeps_its_state(field):
    layer = generic(FieldBatchNorm(field))
    keys = list(layer.state_dict())
    u = torch.randn(2, field.channels, 4, 4)
    expected = layer.eval()(u)
    assert list(layer.state_dict()) == keys
    twin = FieldBatchNorm(field).eval()
    twin.load_state_dict(layer.state_dict())
    assert torch.equal(twin(u), expected)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(u), expected)
    check_exports(layer, u)
    assert all("directions" not in key and "coordinates" not in key for key in keys)


@pytest.mark.parametrize("field", [VECTORS, regular_fields(C8, 2)], ids=str)
@pytest.mark.parametrize("kind", [FieldBatchNorm, NormActivation, FieldActivation, OrientationPooling, FieldPooling])
def test_half_precision_under_autocast(kind, field):
    if kind is FieldActivation and field is VECTORS:
        return
    layer = kind(field, "norm") if kind is OrientationPooling else kind(field)
    u = torch.randn(2, field.channels, 4, 4, dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        v = layer(u)
    v.float().square().sum().backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()
    assert v.dtype == torch.bfloat16


@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_shortening_is_finite_in_half_precision(bias):
    layer = NormActivation(VECTORS, bias).half()
    assert layer(torch.zeros(1, VECTORS.channels, 2, 2, dtype=torch.float16)).isfinite().all()


@pytest.mark.parametrize(
    "field", [VECTORS, regular_fields(C8, 2), Field(direct_sum(irrep(C8, 1), trivial(C8)), 2)], ids=str
)
def test_no_images_leave_the_statistics_alone(field):
    norm = FieldBatchNorm(field)
    norm(torch.randn(2, field.channels, 3, 3))
    before = {name: value.clone() for name, value in norm.state_dict().items() if "tracked" not in name}
    assert norm(torch.zeros(0, field.channels, 3, 3)).shape == (0, field.channels, 3, 3)
    for name, value in before.items():
        assert torch.equal(norm.state_dict()[name], value)


def test_shortening_is_its_formula_and_finite_at_zero():
    layer = NormActivation(VECTORS).double()
    nn.init.constant_(layer.bias, 0.7)
    u = torch.randn(2, 6, 3, 3, dtype=torch.float64)
    length = VECTORS.fibres(u).norm(dim=2, keepdim=True)
    expected = (VECTORS.fibres(u) * (length - 0.7).relu() / length).flatten(1, 2)
    assert_close(layer(u), expected, rtol=1e-9, atol=1e-9)
    for bias in (0.7, 0.0, -0.7):
        nn.init.constant_(layer.bias, bias)
        zero = torch.zeros(1, 6, 2, 2, dtype=torch.float64, requires_grad=True)
        layer(zero).sum().backward()
        assert zero.grad is not None
        assert zero.grad.isfinite().all()


@pytest.mark.parametrize("how", ["max", "mean", "norm"])
def test_pooled_orientations_have_finite_gradients_at_zero(how):
    zero = torch.zeros(1, 8, 2, 2, requires_grad=True)
    OrientationPooling(regular_fields(C4, 2), how)(zero).sum().backward()
    assert zero.grad is not None
    assert zero.grad.isfinite().all()


def test_dropout_drops_whole_fields_and_stands_still_in_evaluation():
    layer, u = FieldDropout(regular_fields(C4, 100), 0.25), torch.ones(2, 400, 3, 3)
    means = layer.in_field.fibres(layer(u)).flatten(2)
    assert_close(means.amin(2), means.amax(2))
    assert means.unique().tolist() == pytest.approx([0, 4 / 3])
    assert 0.1 < (means == 0).float().mean() < 0.4
    assert torch.equal(layer.eval()(u), u)


@pytest.mark.parametrize(
    "layer",
    [
        FieldBatchNorm(VECTORS),
        FieldActivation(regular_fields(C8, 2)),
        NormActivation(VECTORS),
        FieldDropout(VECTORS),
        OrientationPooling(VECTORS, "norm"),
        FieldPooling(VECTORS),
        GroupRestriction(regular_fields(C8, 2), C4),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_every_layer_is_exported_copied_and_refuses_other_fields(layer):
    u = torch.randn(2, layer.in_field.channels, 4, 4)
    check_exports(layer, u)
    assert torch.equal(copy.deepcopy(layer).eval()(u), layer.eval()(u))
    assert str(layer.in_field) in repr(layer)
    with pytest.raises(ShapeError, match=f"{type(layer).__name__} takes images of {layer.in_field.channels} channels"):
        layer(torch.zeros(1, 1, 4, 4))


def stretched(group: Group) -> Field:
    change = np.diag([1.0, 3.0])
    return Field(Representation(group, change @ irrep(group, 1).matrices @ np.linalg.inv(change), "stretched"), 1)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda: FieldActivation(VECTORS), ConfigError, r"'relu' .* 3 x irrep\(C8, 1\).* Use NormActivation"),
        (lambda: FieldActivation(VECTORS, "tanh"), ConfigError, "NormActivation"),
        (lambda: FieldActivation(Field(sign(C4), 1), "elu"), ConfigError, "NormActivation"),
        (lambda: FieldActivation(scalars(C4), "rleu"), UnknownNameError, "'relu'"),
        (lambda: OrientationPooling(VECTORS), ConfigError, "how='norm'"),
        (lambda: OrientationPooling(scalars(C4), "maximum"), UnknownNameError, "max, mean, norm"),
        (lambda: FieldPooling(VECTORS, how="max"), ConfigError, "how='average'"),
        (lambda: FieldPooling(scalars(C4), 0), ConfigError, "size"),
        (lambda: FieldPooling(scalars(C4), 4)(torch.zeros(1, 1, 3, 5)), ShapeError, r"\(1, 1, 3, 5\)"),
        (lambda: FieldDropout(scalars(C4), 1.0), ConfigError, "share"),
        (lambda: GroupRestriction(scalars(C4), C8), ConfigError, "not contained"),
        (lambda: FieldBatchNorm(stretched(C8)), ConfigError, "orthogonal"),
        (lambda: FieldBatchNorm(Field(sign(C4), 2))(torch.zeros(1, 2, 1, 1)), ShapeError, "more than one number"),
        (lambda: FieldBatchNorm(scalars(C4, 2))(torch.zeros(1, 2, 1, 1)), ShapeError, r"\(1, 2, 1, 1\)"),
        (lambda: NormActivation(stretched(C8)), ConfigError, "orthogonal"),
        (lambda: OrientationPooling(stretched(C8), "norm"), ConfigError, "orthogonal"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, error, says):
    with pytest.raises(error, match=says):
        wrong()


@given(fields())
@settings(max_examples=20)
def test_normalisations_merge_into_the_convolutions_before_them(field):
    parts = FieldLinear(field, field), generic(FieldBias(field)), generic(FieldBatchNorm(field)), nn.Tanh()
    network, u = nn.Sequential(*parts).double().eval(), torch.randn(2, field.channels, 3, 4, dtype=torch.float64)
    assert_close(dense(network)(u), network(u), rtol=1e-10, atol=1e-10)
    assert [type(part) for part in dense(network)][1:] == [nn.Identity, nn.Identity, nn.Tanh]
    assert_close(dense(network[1:])(u), network[1:](u), rtol=1e-10, atol=1e-10)


class RectifiedConvolution(nn.Conv2d):
    def forward(self, u):
        return super().forward(u).relu()


@pytest.mark.parametrize(
    "make",
    [
        RectifiedConvolution,
        lambda *sizes: nn.utils.parametrizations.weight_norm(nn.Conv2d(*sizes)),
        lambda *sizes: changed_by_a_hook(nn.Conv2d(*sizes)),
    ],
)
def test_only_plain_convolutions_take_normalisations_in(make):
    field = regular_fields(C4, 2)
    network = nn.Sequential(make(8, 8, 3), generic(FieldBatchNorm(field))).eval()
    u = torch.randn(2, 8, 5, 5)
    assert_close(dense(network)(u), network(u), rtol=1e-4, atol=1e-5)


def changed_by_a_hook(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda module, inputs, output: output.relu())
    return layer


class Named(nn.Module):
    """A network that calls its layers by names and numbers."""

    def __init__(self) -> None:
        super().__init__()
        field = regular_fields(C4, 2)
        named = OrderedDict(lift=SteerablePDO(scalars(C4), field), norm=generic(FieldBatchNorm(field)), act=nn.Tanh())
        self.stem, self.body = nn.Sequential(named), nn.Sequential(*copy.deepcopy(list(named.values())[1:]))

    def forward(self, u):
        u = self.stem.act(self.stem.norm(self.stem.lift(u)))
        return self.body[1](self.body[0](u))


def test_dense_copies_keep_the_names_of_layers():
    network, u = Named().eval(), torch.randn(2, 1, 6, 6)
    assert_close(dense(network)(u), network(u), rtol=1e-4, atol=1e-5)


def test_normalisation_can_follow_all_batches_alike():
    field = Field(irrep(C4, 1), 2)
    norm, batches = FieldBatchNorm(field, momentum=None), torch.randn(3, 2, 4, 5, 5)
    for u in batches:
        norm(u)
    expected = batches.unflatten(2, (2, 2)).square().mean(dim=(1, 3, 4, 5)).mean(0) * 100 / 99
    assert_close(norm.norm.running_var, expected)


LAYERS = [
    lambda: SteerablePDO(scalars(C4), regular_fields(C4, 2)),
    lambda: SteerablePDO(scalars(C4), Field(irrep(C4, 1), 2)),
    lambda: NeuralEPDO(regular_fields(C4, 2), reduction=1, partitions=1),
    lambda: NeuralEPDO(Field(irrep(C4, 1), 2), 2, 1, 1, "invariant"),
    lambda: FieldBatchNorm(Field(direct_sum(trivial(C4), irrep(C4, 1)), 2)),
    lambda: GroupRestriction(regular_fields(C8, 1), C4),
]


@pytest.mark.parametrize("make", LAYERS)
def test_layers_are_made_in_the_default_precision(make):
    torch.set_default_dtype(torch.float64)
    try:
        layer = make()
        assert all(b.dtype == torch.float64 for b in layer.buffers() if b.is_floating_point())
        assert layer(torch.randn(2, layer.in_field.channels, 5, 5)).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_made_without_numbers_get_their_constants(make, dtype):
    layer = make().to(dtype).eval()
    with torch.device("meta"):
        deferred = make()
    deferred = deferred.to(dtype).to_empty(device="cpu").eval()
    deferred.load_state_dict(layer.state_dict())
    u = torch.randn(2, layer.in_field.channels, 5, 5, dtype=dtype)
    assert torch.equal(deferred(u), layer(u))


@pytest.mark.parametrize(
    "layer",
    [
        FieldActivation, FieldBatchNorm, FieldBias, FieldDropout, FieldPooling, NeuralEPDO, NormActivation,
        OrientationPooling, lambda n: FieldLinear(n, n), lambda n: SteerablePDO(n, n),
        lambda n: GroupRestriction(n, C4),
    ],
)  # fmt: skip
def test_numbers_of_channels_are_no_fields(layer):
    with pytest.raises(ConfigError, match=r"is made for fields, such as regular_fields\(cyclic\(8\), 4\), got 16"):
        layer(16)


@pytest.mark.parametrize("layer", [NeuralEPDO, lambda field, **options: SteerablePDO(field, field, **options)])
def test_names_are_no_discretisations(layer):
    with pytest.raises(ConfigError, match=r"FiniteDifferences\(5\), got 'gauss'"):
        layer(regular_fields(C4, 8), discretisation="gauss")
