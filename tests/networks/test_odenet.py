import pytest
import torch
from torch import nn

from evolvent import create_model
from evolvent.errors import ConfigError


@pytest.mark.parametrize(("width", "groups", "expected"), [(64, 32, 32), (32, 8, 8), (6, 8, 1)])
def test_groups_divide_the_channels(width, groups, expected):
    norms = [m for m in create_model("rknet", width=width, groups=groups).modules() if isinstance(m, nn.GroupNorm)]
    assert {norm.num_groups for norm in norms} == {expected}


@pytest.mark.parametrize("groups", [1, 8, 32])
def test_channels_alone_in_their_group_say_little_to_the_head(groups):
    """The mean over space is what the head reads; in a group of its own each channel's is made zero, then rectified."""
    torch.manual_seed(0)
    model = create_model("rknet", width=32, groups=groups)
    means = model.forward_features(torch.randn(16, 1, 28, 28)).mean((2, 3))
    spread_over_channels = means.std(1).mean()
    assert (spread_over_channels > 0.2) == (groups < 32)


def test_no_groups_are_refused():
    with pytest.raises(ConfigError, match="groups"):
        create_model("rknet", groups=0)


def test_adaptive_and_fixed_steps_agree():
    torch.manual_seed(0)
    adaptive = create_model("odenet", width=8, groups=2, rtol=1e-6, atol=1e-6).double()
    fixed = create_model("rknet", width=8, groups=2, steps=16).double()
    fixed.load_state_dict(adaptive.state_dict())
    x = torch.randn(2, 1, 28, 28, dtype=torch.float64)
    torch.testing.assert_close(fixed(x), adaptive(x), rtol=0, atol=1e-4)  # F has kinks: RK4 falls short of order 4
