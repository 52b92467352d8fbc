"""The Hamiltonian network against eq. 2.6 of Bohn, Griebel, Kannan 2021, written out."""

import pytest
import torch
from torch.nn import functional as F

from evolvent import create_model
from evolvent.errors import ConfigError


def written_out(state: dict[str, torch.Tensor], x: torch.Tensor, blocks: int, h: float, pixels: bool) -> torch.Tensor:
    u = F.conv2d(x, state["stem.weight"], padding=1)
    for unit in range(3):
        if unit:
            u = u if pixels else F.avg_pool2d(u, 2)
            u = F.conv2d(u, state[f"body.{2 * unit - 1}.{0 if pixels else 1}.weight"]).relu()
        y, z = u.chunk(2, dim=1)
        for j in range(blocks):
            k1, k2 = (state[f"body.{2 * unit}.dynamics.{j}.layer{i}.operator.weight"] for i in (1, 2))
            b1, b2 = (state[f"body.{2 * unit}.dynamics.{j}.layer{i}.bias"][:, None, None] for i in (1, 2))
            y = y + h * F.conv_transpose2d((F.conv2d(z, k1, padding=1) + b1).relu(), k1, padding=1)
            z = z - h * F.conv_transpose2d((F.conv2d(y, k2, padding=1) + b2).relu(), k2, padding=1)
        u = torch.cat([y, z], dim=1)
    if pixels:
        return F.conv2d(u, state["head.weight"], state["head.bias"])
    return F.linear(F.avg_pool2d(u, 2).flatten(1), state["head.linear.weight"], state["head.linear.bias"])


@pytest.mark.parametrize("readout", ["classification", "segmentation"])
def test_network_is_eq_2_6(readout, dtype, tolerance):
    model = create_model(
        "hamiltonian", channels=(4, 6, 8), blocks=3, step_size=0.15, readout=readout, bias=True, image_size=(16, 24)
    ).to(dtype)
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(p)
    x = torch.randn(2, 3, 16, 24, dtype=dtype)
    expected = written_out(model.state_dict(), x, 3, 0.15, readout == "segmentation")
    torch.testing.assert_close(model(x), expected, **tolerance)


def test_segmentation_answers_for_every_pixel_of_any_image():
    model = create_model("hamiltonian", channels=(4, 8), blocks=1, num_classes=5, readout="segmentation")
    assert model(torch.randn(2, 3, 7, 9)).shape == (2, 5, 7, 9)


@pytest.mark.parametrize("channels", [(3,), (4, 7)])
def test_channels_must_be_even_and_positive(channels):
    with pytest.raises(ConfigError, match="channels"):
        create_model("hamiltonian", channels=channels)


def test_images_smaller_than_the_pool_are_refused():
    with pytest.raises(ConfigError, match="smaller than the head's pool"):
        create_model("hamiltonian", image_size=4)
