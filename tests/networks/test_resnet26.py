"""ResNet-26: counts of the papers, the baseline against PyTorch written out, answers that rotations do not change."""

import pytest
import torch
from field_layers import layer_errors
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _NormBase

from evolvent import create_model
from evolvent.analysis import count_parameters
from evolvent.errors import ConfigError
from evolvent.evolution import evolutions
from evolvent.networks.resnet26 import ProjectedTransition
from evolvent.operators.differential import dense
from evolvent.testing import check_compiles, check_onnx

NARROW = {"width": 1 / 8, "blocks": (1, 2, 1, 1), "num_classes": 5}
EQUIVARIANT = ("resnet26_steerable_pdo", "resnet26_epdo")


TRACED = ["resnet26_steerable_pdo", pytest.param("resnet26_epdo", marks=pytest.mark.slow)]


def trained(name: str, **options) -> torch.nn.Module:
    """A narrow network with the statistics of one batch, whose blocks are not their shortcuts."""
    torch.manual_seed(0)
    model = create_model(name, **NARROW | options)
    for part in model.modules():
        if isinstance(part, _NormBase):
            part.momentum = 1.0
            torch.nn.init.ones_(part.weight)
    model(torch.randn(16, 3, 32, 32))
    return model.eval()


@pytest.mark.parametrize(
    ("name", "classes", "published"),
    [
        ("resnet26", 1000, 13.7),
        ("resnet26_steerable_pdo", 100, 14.4),
        ("resnet26_steerable_pdo", 1000, 15.02),
        ("resnet26_epdo", 100, 8.24),
        ("resnet26_epdo", 1000, 8.82),
    ],
)
def test_counts_come_near_those_of_tables_3_and_4(name, classes, published):
    assert count_parameters(create_model(name, num_classes=classes)) / 1e6 == pytest.approx(published, rel=0.05)


def bottleneck(layers, u: torch.Tensor, stride: int) -> torch.Tensor:
    reduce, spatial, expand = (layers[k] for k in (0, 2, 4))
    v = torch.relu(reduce[1](F.conv2d(u, reduce[0].weight)))
    v = torch.relu(spatial[1](F.conv2d(v, spatial[0].weight, stride=stride, padding=1)))
    return expand[1](F.conv2d(v, expand[0].weight))


def test_baseline_is_what_the_papers_describe():
    model = trained("resnet26")
    x = torch.randn(2, 3, 64, 48)
    with torch.no_grad():
        u = x
        for k, stride in ((0, 2), (2, 1), (4, 1)):
            conv, norm = model.stem[k]
            u = torch.relu(norm(F.conv2d(u, conv.weight, stride=stride, padding=1)))
        u = F.max_pool2d(u, 3, 2, 1)
        for part in model.body:
            if isinstance(part, ProjectedTransition):
                conv, norm = part.shortcut
                stride = conv.stride[0]
                u = torch.relu(norm(F.conv2d(u, conv.weight, stride=stride)) + bottleneck(part.layers, u, stride))
            else:
                for step in part.dynamics:
                    u = torch.relu(u + bottleneck(step.layers, u, 1))
        assert u.shape == (2, 256, 2, 2)  # 32 times smaller, rounded up
        expected = F.linear(u.mean((2, 3)), model.head.linear.weight, model.head.linear.bias)
        torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("name", EQUIVARIANT)
@pytest.mark.parametrize("side", [32, 37])
def test_quarter_turns_do_not_change_the_answer(name, side):
    model = trained(name)
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        model.to(dtype)
        x = torch.randn(2, 3, side, side, dtype=dtype)
        with torch.no_grad():
            y = model(x)
            assert (y[0] - y[1]).norm() > 0.02 * y.norm()  # images are told apart
            for turns in (1, 2, 3):
                assert (model(x.rot90(turns, (2, 3))) - y).norm() <= tolerance * y.norm()


@pytest.mark.parametrize("name", EQUIVARIANT)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_every_layer_commutes_on_the_features_that_it_meets(name, dtype, tolerance):
    model = trained(name).to(dtype)
    with torch.no_grad():
        errors = layer_errors(model, torch.randn(2, 3, 37, 37, dtype=dtype))
    assert {layer: error for layer, error in errors.items() if not error <= tolerance} == {}
    assert len(errors) > 20


def test_mirrorings_do_not_change_the_answer_of_a_network_with_mirrorings():
    model = trained("resnet26_steerable_pdo", group="D4").double()
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(model(x.flip(3)), model(x), rtol=1e-10, atol=1e-10)


def test_the_baseline_knows_which_way_is_up():
    model, x = trained("resnet26"), torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert (model(x.rot90(1, (2, 3))) - model(x)).norm() > 0.01 * model(x).norm()


@pytest.mark.parametrize("name", ["resnet26", *EQUIVARIANT])
def test_blocks_after_the_first_of_a_unit_are_steps_of_an_evolution(name):
    model = create_model(name, width=1 / 16, blocks=(1, 2, 3, 1))
    assert [evolution.steps for _, evolution in evolutions(model)] == [1, 2]


@pytest.mark.parametrize("name", ["resnet26", *EQUIVARIANT])
def test_untrained_networks_do_not_overflow(name):
    """Neural ePDOs square the size of features, which normalisations without statistics do not divide by."""
    torch.manual_seed(0)
    model = create_model(name, num_classes=5, width=1 / 8).eval()
    with torch.no_grad():
        assert model(10 * torch.randn(2, 3, 64, 64)).abs().max() < 1e12


@pytest.mark.parametrize("options", [{"group": "C0"}, {"order": 5}, {"blocks": (1, 2)}, {"width": 0}])
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(ConfigError):
        create_model("resnet26_epdo", **NARROW | options)


@pytest.mark.parametrize("discretisation", ["gauss", "differences"])
def test_other_discretisations(discretisation):
    assert trained("resnet26_epdo", discretisation=discretisation)(torch.randn(1, 3, 32, 32)).isfinite().all()


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_dense_copies_answer_the_same(name):
    model, x = trained(name), torch.randn(2, 3, 32, 37)
    with torch.no_grad():
        torch.testing.assert_close(dense(model)(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", EQUIVARIANT)
def test_networks_compile(name):
    check_compiles(trained(name), torch.randn(2, 3, 32, 32), backend="aot_eager")


@pytest.mark.parametrize("name", TRACED)
def test_onnxruntime_answers_the_same(name):
    pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    check_onnx(trained(name), torch.randn(2, 3, 32, 32))
