"""Arrays as pictures: images, thumbnails and strips of feature maps."""

from __future__ import annotations

import base64
import io

import numpy as np

NEGATIVE, POSITIVE = (37, 140, 220), (226, 106, 26)  # visible on light and on dark pages
_GROUND = 0.07  # opacity of zero, so that a map's outline shows
_LEVELS = 24  # fewer shades compress far better than the eye can tell


def png_uri(pixels: np.ndarray) -> str:
    """A PNG as a data URI.

    Shape: pixels (H, W, 3 or 4) uint8.
    """
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, np.ascontiguousarray(pixels), format="png", metadata={"Software": "Evolvent"})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def to_rgb(image: np.ndarray, limit: int = 64) -> np.ndarray:
    """An image of any channel count as RGB, not much larger than ``limit`` pixels.

    Shape: (C, H, W) uint8 -> (H', W', 3) uint8.
    """
    small = shrink(image.astype(np.float32), limit)
    colours = small if len(small) == 3 else np.repeat(small.mean(axis=0, keepdims=True), 3, axis=0)
    return np.clip(np.rint(colours), 0, 255).astype(np.uint8).transpose(1, 2, 0)


def shrink(maps: np.ndarray, limit: int) -> np.ndarray:
    """Means over square blocks, of the least size that leaves at most ``limit`` pixels a side.

    Shape: (..., H, W) -> (..., H', W').

    >>> shrink(np.ones((2, 5, 8)), 4).shape
    (2, 2, 4)
    """
    height, width = maps.shape[-2:]
    block = -(-max(height, width) // limit)
    if block == 1:
        return maps
    rows, columns = max(1, height // block), max(1, width // block)
    cut = maps[..., : rows * block, : columns * block]
    if height < block or width < block:
        return maps[..., ::block, ::block]
    return cut.reshape(*maps.shape[:-2], rows, block, columns, block).mean(axis=(-3, -1))


def signed_strip(maps: np.ndarray, limit: int = 32) -> np.ndarray:
    """Feature maps side by side: a row per channel, a column per time.

    Colour is the sign, opacity the size relative to the channel's largest over all times; zero is a faint grey.

    Shape: (times, channels, H, W) -> (channels * H'', times * W'', 4) uint8, a transparent line after each map.
    """
    maps = shrink(np.nan_to_num(maps.astype(np.float32), posinf=0.0, neginf=0.0), limit)
    largest = np.abs(maps).max(axis=(0, 2, 3), keepdims=True)
    strength = np.rint(_LEVELS * np.abs(maps) / np.where(largest > 0, largest, 1)) / _LEVELS
    colours = np.where(maps[..., None] > 0, np.array(POSITIVE, np.uint8), np.array(NEGATIVE, np.uint8))
    colours = np.where(strength[..., None] < _GROUND, np.uint8(128), colours)
    opacity = np.rint(255 * np.maximum(strength, _GROUND))[..., None].astype(np.uint8)
    gap = 1 + maps.shape[-1] // 16
    tiles = np.pad(np.concatenate([colours, opacity], axis=-1), ((0, 0), (0, 0), (0, gap), (0, gap), (0, 0)))
    times, channels, height, width, _ = tiles.shape
    return tiles.transpose(1, 2, 0, 3, 4).reshape(channels * height, times * width, 4)


def heat(shares: np.ndarray) -> np.ndarray:
    """Shares of one as a blue whose opacity is the square root of the share.

    Shape: (H, W) -> (H, W, 4) uint8.
    """
    pixels = np.zeros((*shares.shape, 4), dtype=np.uint8)
    pixels[..., :3] = NEGATIVE
    pixels[..., 3] = np.rint(255 * np.sqrt(np.clip(shares, 0, 1)))
    return pixels
