"""Images that stay in their files and are decoded when they are asked for: sets that do not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.data.formats.arrays import parsing

_SUFFIXES = (".jpg", ".jpeg", ".png")
_MARGIN = 1 / 16  # left out on each side of the largest centred square


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """JPEG and PNG files as one array of RGB images, uint8 (N, 3, side, side), of which rows are decoded on demand.

    An image is cut to its largest centred square, loses a sixteenth of that on each side, and is resized with
    antialiasing: for 224 pixels the usual reduction to 256 and central crop. Decoding runs in as many threads as
    PyTorch may use.

    Args:
        folder: that contains the files.
        names: of the files in it.
        side: pixels along a side of the images that are made of them.
    """

    folder: Path
    names: Sequence[str]
    side: int

    dtype = torch.uint8
    device = torch.device("cpu")
    ndim = 4

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), 3, self.side, self.side

    def __getitem__(self, rows: int | slice | Tensor) -> Tensor:
        """The decoded images of these rows; one image for a number."""
        if isinstance(rows, int):
            return self._decoded([self.names[rows]])[0]
        numbers = range(len(self))[rows] if isinstance(rows, slice) else rows.tolist()
        return self._decoded([self.names[row] for row in numbers])

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The decoded images of these rows; ``dim`` must be 0."""
        if dim != 0:
            raise ConfigError(f"files of images are selected along axis 0, got {dim}.")
        return self[index]

    def split(self, count: int) -> Iterator[Tensor]:
        """All images, ``count`` at a time; each part is decoded when it is asked for."""
        return (self[start : start + count] for start in range(0, len(self), count))

    def subset(self, index: Tensor) -> ImageFiles:
        """The files of some rows, in that order; nothing is decoded."""
        return replace(self, names=[self.names[row] for row in index.tolist()])

    def reduced(self, factor: int) -> ImageFiles:
        """The same files, decoded to images whose sides are so many times shorter."""
        return replace(self, side=self.side // factor)

    def _decoded(self, names: Sequence[str]) -> Tensor:
        if not names:
            return torch.empty(0, 3, self.side, self.side, dtype=torch.uint8)
        with ThreadPoolExecutor(min(len(names), torch.get_num_threads())) as pool:
            pixels = list(pool.map(self._decode, names))
        return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()

    def _decode(self, name: str) -> np.ndarray:
        from PIL import Image, ImageOps

        path, needed = self.folder / name, round(self.side / (1 - 2 * _MARGIN))
        with parsing(path), Image.open(path, formats=("JPEG", "PNG")) as image:
            image.draft("RGB", (needed, needed))  # lets a JPEG be decoded at a lower resolution that is enough
            square = (self.side, self.side)
            return np.asarray(ImageOps.fit(image.convert("RGB"), square, Image.Resampling.BILINEAR, bleed=_MARGIN))


def class_folders(folder: Path, classes: Sequence[str], side: int) -> tuple[ImageFiles, np.ndarray]:
    """The images in the folders of the given classes, in the order of classes and names, and their labels."""
    names, labels = [], []
    for label, name in enumerate(classes):
        with parsing(folder / name):
            found = sorted(path.name for path in (folder / name).iterdir() if path.suffix.lower() in _SUFFIXES)
        names += [f"{name}/{file}" for file in found]
        labels += [label] * len(found)
    return ImageFiles(folder, names, side), np.array(labels, dtype=np.int64)
