"""Gaussian noise on images, as a function of its place."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.randomness import Stream, key


def add_noise(
    images: Tensor,  # uint8 (B, C, H, W)
    level: float,
    index: Tensor,  # (B,)
    seed: int,
) -> Tensor:
    r"""Images :math:`x + 255\,\sigma\,\xi` with :math:`\xi` standard normal, rounded and cut to 0 ... 255.

    :math:`\xi` depends on (seed, index) alone: neither on what else is in the batch nor on the level, so that levels
    differ in strength only.

    Args:
        images: bytes.
        level: the standard deviation :math:`\sigma`, as a share of the pixel range 255.
        index: rows of the images in their set.
        seed: of the noise.

    Shape: uint8 (B, C, H, W) -> uint8 (B, C, H, W).

    >>> grey = torch.full((1, 1, 2, 2), 128, dtype=torch.uint8)
    >>> torch.equal(add_noise(grey, 0.0, torch.tensor([5]), seed=0), grey)
    True
    """
    pixels = images[0].numel() if len(images) else 0
    place = index.to(images.device)[:, None] * pixels + torch.arange(pixels, device=images.device)
    noise = randomness.normal(place, *key(Stream.TEST_NOISE, seed)).view(images.shape)
    return (images + 255 * level * noise).round_().clamp_(0, 255).to(torch.uint8)
