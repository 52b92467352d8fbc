"""Six-layer networks over fields: published counts, invariance, what is stored, tracing, and their dense copies."""

import pytest
import torch
from field_layers import layer_errors
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase

from evolvent import create_model
from evolvent.analysis import count_parameters
from evolvent.errors import ConfigError, ShapeError
from evolvent.groups import cyclic
from evolvent.groups.field import move_pixels
from evolvent.networks.equivariant import read_group
from evolvent.operators.differential import FieldBatchNorm, FieldBias, SteerablePDO, dense
from evolvent.testing import check_compiles, check_exports, check_network, check_onnx

FIELDS, FEW = (2, 4, 2, 2, 4, 3), (2,) * 6
SMALL = {
    "steerable PDO": ("steerable_pdo_c16", {"fields": FIELDS}),
    "steerable PDO, quotient": ("steerable_pdo", {"group": "C8", "kind": "quotient", "fields": FEW}),
    "steerable PDO, mirrored": ("steerable_pdo", {"group": "D4", "fields": FEW}),
    "steerable PDO, D8 to C8": ("steerable_pdo", {"group": "D8", "restrict": True, "fields": FEW}),
    "ePDO": ("epdo_c16", {"fields": FIELDS, "partitions": 2}),
    "ePDO, differences": ("epdo_c8", {"fields": FIELDS, "partitions": 2, "discretisation": "differences"}),
    "ePDO, Gauss": ("epdo_c8", {"fields": FIELDS, "partitions": 2, "discretisation": "gauss"}),
    "ePDO, quotient": ("epdo_c16_quotient", {"group": "C8", "fields": FEW, "partitions": 2}),
    "ePDO, mirrored": ("epdo", {"group": "D4", "fields": FEW, "partitions": 2}),
    "ePDO, D16 to C16": ("epdo_d16_c16", {"fields": FEW, "partitions": 2}),
}
TRACED = [
    "steerable PDO",
    "ePDO",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("ePDO, quotient", "ePDO, D16 to C16")),
]
PUBLISHED = {"steerable_pdo_c16": 941_958, "epdo_c16": 233_622}


def pictures(count: int, height: int = 28, width: int = 28, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Smooth images that differ from each other at every scale of the networks."""
    return F.interpolate(torch.rand(count, 1, 6, 6, dtype=dtype), (height, width), mode="bilinear")


def trained(name: str) -> torch.nn.Module:
    """A small network with biases that are not at their first values and the statistics of one batch."""
    torch.manual_seed(0)
    registered, options = SMALL[name]
    model = create_model(registered, num_classes=5, **options)
    for p in model.parameters():
        p.data += 0.1 * torch.randn_like(p)
    for part in model.modules():
        if isinstance(part, _NormBase):
            part.momentum = 1.0
    model(pictures(16))
    return model.eval()


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_counts_are_those_of_table_2(name, count):
    assert count_parameters(create_model(name)) == count


@pytest.mark.parametrize("name", SMALL)
def test_no_symmetry_of_the_grid_changes_the_answer(name):
    model = trained(name)
    group = read_group(model.spec.options.get("group", "C16"))
    if "to" in name:  # mirrorings are given up before the last layer
        group = cyclic(group.rotations)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        model.to(dtype)
        for side in (28, 29):
            x = pictures(4, side, side, dtype)
            with torch.no_grad():
                y = model(x)
                assert (y - y.mean(0)).norm() > 0.02 * y.norm()  # images are told apart
                for g in group.grid_symmetries:
                    off = (model(move_pixels(x, group, g)) - y).norm() / y.norm()
                    assert off <= tolerance, f"{group.element_name(g)}, {side} pixels, {dtype}: {off:.1e}"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_every_layer_commutes_on_the_features_that_it_meets(name, dtype, tolerance):
    model = trained(name).to(dtype)
    with torch.no_grad():
        errors = layer_errors(model, pictures(4, 29, 29, dtype))
    assert {layer: error for layer, error in errors.items() if not error <= tolerance} == {}
    assert len(errors) > 20


@pytest.mark.parametrize("name", ["steerable PDO", "ePDO", "ePDO, quotient"])
def test_no_images_have_no_answers(name):
    assert trained(name)(pictures(0)).shape == (0, 5)


@pytest.mark.parametrize("name", ["steerable PDO", "ePDO", "ePDO, D16 to C16"])
def test_networks_of_rotations_alone_know_mirror_images(name):
    model, x = trained(name), pictures(2)
    with torch.no_grad():
        assert (model(x.flip(3)) - model(x)).norm() > 1e-3 * model(x).norm()


@pytest.mark.parametrize("name", [*PUBLISHED, "epdo_d16_c16"])
def test_what_is_stored_is_little_more_than_the_parameters(name):
    model = create_model(name)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    stored = sum(value.numel() * value.element_size() for value in state.values())
    assert stored < 1.1 * 4 * count_parameters(model)
    assert model.eval().state_dict().keys() == state.keys()


@pytest.mark.parametrize("name", ["steerable PDO", "ePDO", "ePDO, quotient"])
def test_weights_that_are_loaded_in_evaluation_count_at_once(name):
    model, other, x = trained(name), trained(name), pictures(2)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1.1)
        before = model(x)
        model.load_state_dict(other.state_dict())
        assert torch.equal(model(x), other(x))
        assert not torch.equal(model(x), before)


@pytest.mark.parametrize("name", ["steerable PDO, quotient", "ePDO, quotient", "ePDO, D16 to C16"])
def test_members_keep_the_contract_of_networks(name):
    registered, options = SMALL[name]
    check_network(registered, torch.rand(2, 1, 28, 28), **options)


@pytest.mark.parametrize("name", SMALL)
def test_dense_copies_answer_the_same(name):
    model, x = trained(name), pictures(2, 29, 28)
    with torch.no_grad():
        copied = dense(model)
        torch.testing.assert_close(copied(x), model(x), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(part, SteerablePDO | FieldBatchNorm | FieldBias) for part in copied.modules())


@pytest.mark.parametrize("name", TRACED)
def test_networks_compile(name):
    check_compiles(trained(name), pictures(2), backend="aot_eager")


@pytest.mark.parametrize("name", ["steerable PDO", "ePDO", "ePDO, quotient"])
def test_dense_copies_are_exported(name):
    check_exports(dense(trained(name)), pictures(2))


@pytest.mark.parametrize("name", TRACED)
def test_onnxruntime_answers_the_same(name):
    pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    check_onnx(trained(name), pictures(2))


@pytest.mark.parametrize("group", ["C", "c8", "E4", "C0", "8"])
def test_groups_that_do_not_exist_are_refused(group):
    with pytest.raises(ConfigError, match="groups are called C4"):
        create_model("epdo", group=group)


def test_quotients_need_a_group_that_has_them():
    with pytest.raises(ConfigError, match="quotient fields here need"):
        create_model("epdo", group="D8", kind="quotient")


def test_images_that_would_shrink_to_nothing_are_refused():
    name, options = SMALL["steerable PDO"]
    with pytest.raises(ShapeError, match=r"at least 19 pixels along each side, got shape \(1, 1, 18, 30\)"):
        create_model(name, **options)(torch.rand(1, 1, 18, 30))
