"""Damping by a block: of known filters, of nothing, of degenerate features."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from evolvent.analysis import block_damping, high_frequency_share


@given(factor=st.floats(0.1, 4), height=st.integers(2, 9), width=st.integers(2, 9))
def test_a_factor_scales_the_norm_and_moves_no_frequency(factor, height, width):
    found = block_damping(lambda u: factor * u, torch.randn(2, 3, height, width, dtype=torch.float64))
    assert found.norm == pytest.approx(factor)
    assert found.variance == pytest.approx(factor**2)
    assert found.high_frequency == pytest.approx(1)
    assert found.change == pytest.approx(abs(factor - 1))


def test_smoothing_takes_high_frequencies_away():
    found = block_damping(lambda u: F.avg_pool2d(u, 3, 1, 1), torch.randn(2, 3, 16, 16))
    assert found.variance < 0.3
    assert found.high_frequency < 0.6


@pytest.mark.parametrize(("period", "share"), [(2, 1.0), (3, 1.0), (4, 0.0), (6, 0.0), (12, 0.0)])
def test_a_wave_is_high_if_shorter_than_four_pixels(period, share):
    wave = torch.cos(2 * torch.pi * torch.arange(12).double() / period).expand(12, 12)
    for image in (wave, wave.mT):
        assert high_frequency_share(image[None, None] + 5).item() == pytest.approx(share, abs=1e-12)


def test_white_noise_has_the_share_of_its_frequencies():
    noise = torch.randn(200, 2, 8, 8)
    low = 5 * 5 - 1  # frequencies -2 ... 2, without the mean
    assert high_frequency_share(noise).item() == pytest.approx(1 - low / 63, abs=0.01)


def test_constant_features_have_no_ratios_but_no_error():
    found = block_damping(lambda u: u, torch.ones(1, 2, 4, 4))
    assert found.norm == 1
    assert math.isnan(found.variance)
    assert math.isnan(found.high_frequency)
    assert high_frequency_share(torch.zeros(1, 1, 4, 4)).item() == 0
