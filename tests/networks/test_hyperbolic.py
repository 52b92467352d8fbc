"""The fully hyperbolic network: whole, reversible, and with a head that sees where a feature is."""

import pytest
import torch
from torch.nn import functional as F

from evolvent import analysis, create_model, set_gradient
from evolvent.errors import ConfigError


def wavelet_network(**options):
    return create_model("hyperbolic_wavelet", **{"width": 2, "blocks": (2, 2), "image_size": 8, **options})


def test_reversible_gradient_is_that_of_backpropagation():
    torch.manual_seed(0)
    model, x = wavelet_network(blocks=(3, 3, 2)).double(), torch.randn(4, 3, 8, 8, dtype=torch.float64)
    gradients = {}
    for strategy in ("backprop", "reversible"):
        set_gradient(model, strategy)
        model.zero_grad()
        F.cross_entropy(model(x), torch.arange(4)).backward()
        gradients[strategy] = torch.cat([p.grad.flatten() for p in model.parameters()])
    torch.testing.assert_close(gradients["reversible"], gradients["backprop"], rtol=0, atol=1e-10)


def test_memory_does_not_grow_with_depth():
    def saved(blocks: int) -> int:
        model = wavelet_network(blocks=(blocks, blocks))
        set_gradient(model, "reversible")
        return analysis.activation_bytes(model, torch.randn(2, 3, 8, 8))

    assert saved(2) == saved(10)


def test_units_keep_all_numbers_of_the_stem():
    units = wavelet_network(width=2, blocks=(1, 1, 1)).trajectories(torch.randn(1, 3, 8, 8))
    assert [tuple(unit[-1].shape) for unit in units] == [(1, 2, 8, 8), (1, 8, 4, 4), (1, 32, 2, 2)]


def test_head_tells_a_feature_from_the_same_elsewhere():
    torch.manual_seed(0)
    here = torch.zeros(1, 3, 64, 64)
    here[..., 24:28, 24:28] = 1
    there = here.roll(16, dims=-1)  # still too far from the border to feel it
    apart = {}
    for pool in (2, 32):
        model = wavelet_network(image_size=64, head_pool=pool).eval()
        apart[pool] = (model(here) - model(there)).abs().max()
    assert apart[2] > 1e-2
    assert apart[32] < 1e-5


@pytest.mark.parametrize("options", [{"image_size": 10, "blocks": (1, 1, 1)}, {"head_pool": 0}, {"head_pool": 5}])
def test_sizes_that_do_not_fit_are_refused(options):
    with pytest.raises(ConfigError):
        wavelet_network(**options)
