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
from evolvent.data.picture_readers import SUFFIXES, CentredSquare, PictureReader


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """JPEG and PNG files as one array of images, uint8 (N, C, H, W), of which rows are decoded on demand.

    Decoding runs in as many threads as PyTorch may use.

    Args:
        folder: that contains the files.
        names: of the files in it.
        reader: makes an image of one size of each file.
    """

    folder: Path
    names: Sequence[str]
    reader: PictureReader

    dtype = torch.uint8
    device = torch.device("cpu")
    ndim = 4

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self), *self.reader.shape

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
        return replace(self, reader=self.reader.reduced(factor))

    def _decoded(self, names: Sequence[str]) -> Tensor:
        if not names:
            return torch.empty(0, *self.reader.shape, dtype=torch.uint8)
        with ThreadPoolExecutor(min(len(names), torch.get_num_threads())) as pool:
            pixels = list(pool.map(lambda name: self.reader.decode(self.folder / name), names))
        return torch.from_numpy(np.stack(pixels))


def class_folders(folder: Path, classes: Sequence[str], side: int) -> tuple[ImageFiles, np.ndarray]:
    """The images in the folders of the given classes, in the order of classes and names, and their labels."""
    names, labels = [], []
    for label, name in enumerate(classes):
        with parsing(folder / name):
            found = sorted(path.name for path in (folder / name).iterdir() if path.suffix.lower() in SUFFIXES)
        names += [f"{name}/{file}" for file in found]
        labels += [label] * len(found)
    return ImageFiles(folder, names, CentredSquare(side)), np.array(labels, dtype=np.int64)
