"""Changes of images that no one makes on purpose: noise, a crop, a rotation, other colours."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.extras import import_extra
from evolvent._core.randomness import Stream, key
from evolvent._core.registry import Registry

_NOISE = 0.1  # standard deviation
_CROP = 7 / 8  # of a side: 56 of 64 pixels
_DEGREES = 30.0
_JITTER = 0.2
_KINDS = {"noise": 0, "rotate": 1, "brightness": 2, "contrast": 3, "saturation": 4, "hue": 5}  # parts of random keys

Corruption = Callable[[Tensor, Tensor, int], Tensor]
"""Takes images (B, C, H, W) in [0, 1], their rows (B,) and a seed, and gives changed images in [0, 1]."""

CORRUPTIONS: Registry[Corruption] = Registry("corruption")


def corrupt(name: str, images: Tensor, rows: Tensor, seed: int = 0) -> Tensor:
    """Images changed in one of the four ways of the PR-Net paper, section 4.3.

    What happens to an image depends on (seed, row) alone, whatever else is in its batch.

    Args:
        name: ``"noise"``, ``"crop"``, ``"rotate"`` or ``"jitter"``.
        images: (B, C, H, W) in [0, 1].
        rows: numbers of the images in their set, (B,).
        seed: of the random changes.

    >>> corrupt("noise", torch.full((1, 1, 2, 2), 0.5), torch.tensor([7])).shape
    torch.Size([1, 1, 2, 2])
    """
    return CORRUPTIONS.get(name)(images, rows, seed)


def add_gaussian_noise(images: Tensor, rows: Tensor, seed: int) -> Tensor:
    """Independent normal noise of mean 0 and standard deviation 0.1 at every pixel and channel, clipped to [0, 1]."""
    pixels = images[0].numel()
    place = rows.cpu()[:, None] * pixels + torch.arange(pixels)
    noise = randomness.normal(place, *_key("noise", seed)).view(images.shape)
    return (images + _NOISE * noise.to(images)).clamp(0, 1)


def crop_centre(images: Tensor, rows: Tensor, seed: int) -> Tensor:
    """The middle 7/8 of both sides, 56 of 64 pixels, enlarged bilinearly to the old size."""
    kornia = _kornia("geometry.transform")
    height, width = images.shape[2:]
    smaller = (max(1, round(_CROP * height)), max(1, round(_CROP * width)))
    return kornia.resize(kornia.center_crop(images, smaller), (height, width), antialias=False).clamp(0, 1)


def rotate_randomly(images: Tensor, rows: Tensor, seed: int) -> Tensor:
    """A turn by up to 30 degrees to either side, uniformly; what comes in from outside is black."""
    degrees = _DEGREES * _signed("rotate", rows, seed, images)
    return _kornia("geometry.transform").rotate(images, degrees).clamp(0, 1)


def jitter_colours(images: Tensor, rows: Tensor, seed: int) -> Tensor:
    """Brightness, contrast and saturation times 0.8 ... 1.2, then hue turned by up to 0.2 of the circle.

    Grey images have neither saturation nor hue: they change in brightness and contrast alone, as do images whose
    channels are not red, green and blue.
    """
    kornia = _kornia("enhance")
    lit = kornia.adjust_brightness_accumulative(images, 1 + _JITTER * _signed("brightness", rows, seed, images))
    found = kornia.adjust_contrast_with_mean_subtraction(lit, 1 + _JITTER * _signed("contrast", rows, seed, images))
    if images.shape[1] == 3:
        strength = 1 + _JITTER * _signed("saturation", rows, seed, images)
        found = kornia.adjust_saturation_with_gray_subtraction(found, strength)
        found = kornia.adjust_hue(found, 2 * math.pi * _JITTER * _signed("hue", rows, seed, images))
    return found.clamp(0, 1)


def _signed(kind: str, rows: Tensor, seed: int, like: Tensor) -> Tensor:
    """Uniform numbers between -1 and 1, one for each image."""
    return (2 * randomness.uniform(rows.cpu(), *_key(kind, seed)) - 1).to(like)


def _key(kind: str, seed: int) -> tuple[int, ...]:
    return key(Stream.CORRUPTION, seed, _KINDS[kind])


def _kornia(module: str) -> Any:
    return import_extra(f"kornia.{module}", "robustness", "corruptions of images")


CORRUPTIONS.add("noise", add_gaussian_noise)
CORRUPTIONS.add("crop", crop_centre)
CORRUPTIONS.add("rotate", rotate_randomly)
CORRUPTIONS.add("jitter", jitter_colours)
