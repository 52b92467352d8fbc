import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import Dynamics, PartitionedDynamics, Residual


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
    if f.activation == "post":
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
    for kind in (Dynamics, PartitionedDynamics):
        with pytest.raises(TypeError, match="abstract"):
            kind()
