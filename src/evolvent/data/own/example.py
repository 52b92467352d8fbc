"""A small folder of drawn shapes, to try one's own images with, and to see how such a folder looks."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError

CLASSES = ("cross", "disc", "square")
_HEIGHT, _WIDTH = 40, 56
_COUNTS = {"train": 40, "test": 12}


def write_example(folder: str | os.PathLike[str], seed: int = 0) -> Path:
    """Write grey PNGs of 40 x 56 pixels: crosses, discs and squares, in ``train`` and ``test``; the folder."""
    from PIL import Image

    root = check_path(folder, "ev.data.write_example")
    if root.exists() and any(root.iterdir()):
        raise ConfigError(f"{root} is not empty. Choose another folder with --out.")
    draw = np.random.default_rng(seed)
    for part, count in _COUNTS.items():
        for name in CLASSES:
            place = root / part / name
            place.mkdir(parents=True)
            for number in range(count):
                Image.fromarray(_picture(name, draw)).save(place / f"{name}-{number:02}.png")
    return root


def _picture(name: str, draw: np.random.Generator) -> np.ndarray:
    """A bright shape near the middle of a dark ground, with noise; uint8 (height, width)."""
    radius = draw.uniform(9, 14)
    x = np.arange(_WIDTH) - _WIDTH / 2 - draw.uniform(-5, 5)
    y = (np.arange(_HEIGHT) - _HEIGHT / 2 - draw.uniform(-4, 4))[:, None]
    near, far = np.minimum(abs(x), abs(y)), np.maximum(abs(x), abs(y))
    inside = {"cross": (near < radius / 4) & (far < radius), "disc": x**2 + y**2 < radius**2, "square": far < radius}
    clean = 60 + draw.uniform(90, 150) * inside[name]
    return np.clip(clean + draw.normal(0, 12, clean.shape), 0, 255).astype(np.uint8)
