"""The 1x1 convolution against PyTorch's."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from evolvent.operators import Pointwise


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (3, 4, 5, 2), (0, 4, 3, 3)])
def test_is_the_convolution(shape, dtype):
    mine, reference = Pointwise(4, 6).to(dtype), nn.Conv2d(4, 6, 1, bias=False).to(dtype)
    reference.load_state_dict(mine.state_dict())
    u = torch.randn(shape, dtype=dtype, requires_grad=True)
    found, expected = mine(u), reference(u)
    assert_close(found, expected)
    weights = torch.randn_like(found)
    for a, b in zip(
        torch.autograd.grad((weights * found).sum(), [u, mine.weight]),
        torch.autograd.grad((weights * expected).sum(), [u, reference.weight]),
        strict=True,
    ):
        assert_close(a, b)


def test_any_memory_layout():
    mix, u = Pointwise(4, 3), torch.randn(2, 4, 5, 6)
    assert_close(mix(u.contiguous(memory_format=torch.channels_last)), mix(u))
