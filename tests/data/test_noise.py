"""Noise of test images: normal, of the asked strength, and a function of (seed, index) alone."""

import pytest
import torch
from scipy.stats import kstest

from evolvent._core import randomness
from evolvent.data import add_noise

GREY = torch.full((8, 3, 16, 16), 128, dtype=torch.uint8)


def test_numbers_are_standard_normal():
    numbers = randomness.normal(torch.arange(20_000), 3, 4)
    assert kstest(numbers.numpy(), "norm").pvalue > 0.01
    assert randomness.normal(torch.arange(10**6), 0).isfinite().all()


@pytest.mark.parametrize("level", [0.02, 0.1])
def test_level_is_the_standard_deviation_as_a_share_of_the_pixel_range(level):
    noise = add_noise(GREY, level, torch.arange(8), 0).double() - 128
    assert noise.std().item() == pytest.approx(255 * level, rel=0.03)
    assert noise.mean().item() == pytest.approx(0, abs=6 * level)


def test_images_stay_bytes():
    ends = torch.tensor([0, 255], dtype=torch.uint8).repeat(8, 3, 16, 8)
    noisy = add_noise(ends, 0.5, torch.arange(8), 0)
    assert noisy.dtype == torch.uint8
    assert noisy[..., ::2].double().mean() < 100  # darker half of the noise is cut off, not wrapped around
    assert noisy[..., 1::2].double().mean() > 155
    assert torch.equal(add_noise(ends, 0.0, torch.arange(8), 0), ends)
    assert add_noise(ends[:0], 0.5, torch.arange(0), 0).shape == (0, 3, 16, 16)


def test_noise_depends_on_seed_and_row_alone():
    rows = torch.tensor([6, 2, 5])
    whole = add_noise(GREY, 0.1, torch.arange(8), 1)
    assert torch.equal(add_noise(GREY[rows], 0.1, rows, 1), whole[rows])
    assert not torch.equal(add_noise(GREY, 0.1, torch.arange(8), 2), whole)
    assert not torch.equal(whole[0], whole[1])


def test_levels_share_their_draw():
    weak, strong = (add_noise(GREY, level, torch.arange(8), 0).double() - 128 for level in (0.05, 0.1))
    assert (strong - 2 * weak).abs().max() <= 1.5
