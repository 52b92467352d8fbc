import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import Dynamics, PartitionedDynamics, Residual, SecondOrderDynamics, SplitDynamics
from evolvent.errors import ConfigError, UnknownNameError


def batch_norm(x: torch.Tensor, norm: nn.BatchNorm2d) -> torch.Tensor:
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
    return (x - mean) / (var + norm.eps).sqrt() * norm.weight[:, None, None] + norm.bias[:, None, None]


@pytest.fixture(params=["post", "pre"])
def residual(request) -> Residual:
    made = Residual(4, request.param)
    for norm in (made.norm1, made.norm2):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return made


def test_against_the_formula_by_hand(residual, dtype, tolerance):
    f = residual.to(dtype)
    u = torch.randn(3, 4, 6, 5, dtype=dtype)
    k1, k2 = f.conv1.weight, f.conv2.weight
    if f.placement == "post":
        inner = batch_norm(F.conv2d(u, k1, padding=1), f.norm1).clamp(min=0)
        expected = batch_norm(F.conv2d(inner, k2, padding=1), f.norm2)
    else:
        inner = F.conv2d(batch_norm(u, f.norm1).clamp(min=0), k1, padding=1)
        expected = F.conv2d(batch_norm(inner, f.norm2).clamp(min=0), k2, padding=1)
    assert_close(f(0.0, u), expected, **tolerance)


def test_single_pixel_and_single_image_in_evaluation(residual):
    u = torch.randn(1, 4, 1, 1)
    assert residual.eval()(0.0, u).shape == u.shape


def test_right_hand_sides_are_abstract():
    for kind in (Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics):
        with pytest.raises(TypeError, match="abstract"):
            kind()


@pytest.mark.parametrize("operator", ["full", "dense"])
@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("count", [1, 2])
def test_bare_forms_against_the_formula(count, place, operator, dtype, tolerance):
    f = Residual(3, place, convolutions=count, operator=operator, norm=None, bias=True, activation="tanh").to(dtype)
    for p in f.parameters():
        nn.init.normal_(p)
    u = torch.randn(2, 3, *([4, 5] if operator == "full" else []), dtype=dtype)

    def K(index, x):
        weight = getattr(f, f"conv{index}").weight
        return F.conv2d(x, weight, padding=1) if operator == "full" else x @ weight.T

    def b(index):
        return getattr(f, f"bias{index}").view(3, *[1] * (u.ndim - 2))

    if place == "post":
        expected = torch.tanh(K(1, u) + b(1))
        expected = K(2, expected) + b(2) if count == 2 else expected
    else:
        expected = K(1, torch.tanh(u + b(1)))
        expected = K(2, torch.tanh(expected + b(2))) if count == 2 else expected
    assert_close(f(0.0, u), expected, **tolerance)


def test_state_is_what_it_was_before_the_options():
    """Saved networks keep loading: names, order and the numbers drawn."""
    torch.manual_seed(5)
    found = Residual(2)
    torch.manual_seed(5)
    drawn = [nn.init.kaiming_normal_(torch.empty(2, 2, 3, 3)) for _ in range(2)]
    norm = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    names = [f"{part}{i}.{n}" for i in (1, 2) for part, of in (("conv", ["weight"]), ("norm", norm)) for n in of]
    assert list(found.state_dict()) == names
    assert_close([found.conv1.weight, found.conv2.weight], drawn, check_stride=False)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 6),
        ({"norm": None}, 2),
        ({"norm": "group", "bias": True}, 8),
        ({"convolutions": 1}, 3),
        ({"convolutions": 1, "norm": None, "bias": True}, 2),
        ({"operator": "lean", "norm": None}, 4),
    ],
)
def test_options_add_their_parameters(options, count):
    assert len(list(Residual(8, **options).parameters())) == count


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="must be 1 or 2, got 3"):
        Residual(2, convolutions=3)  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown placement 'mid'"):
        Residual(2, "mid")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="Did you mean 'relu'"):
        Residual(2, activation="rely")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="Did you mean 'batch'"):
        Residual(2, norm="bath")  # type: ignore[arg-type]
