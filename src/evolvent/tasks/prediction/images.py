"""A trained classifier of images, or of their pixels, asked about files and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, DataError, ShapeError
from evolvent.data import PictureReader, Preprocess
from evolvent.data.own.arrays import as_array, pixels
from evolvent.data.picture_readers import SUFFIXES, picture_form
from evolvent.data.preprocess import mean_of_squares
from evolvent.tasks.prediction.answers import MaskPredictions, Predictions, is_mask
from evolvent.tasks.prediction.predictor import Predictor, Tell, store_form
from evolvent.tasks.task import evaluating

_AT_ONCE = 64


@dataclass(frozen=True)
class ImageForm:
    """What is stored beside a trained classifier of images: how files are read, and what classes are called."""

    reader: PictureReader
    classes: tuple[str, ...]
    readout: Literal["class", "mask"]
    reduce: int = 1

    def save(self, folder: Path) -> None:
        values = {"reader": self.reader.describe(), "classes": list(self.classes), "readout": self.readout}
        store_form(folder, "images", reduce=self.reduce, **values)


class ImagePredictor(Predictor):
    """A trained network with everything that is needed to ask it about image files.

    Args:
        model: the network.
        preprocess: as it was trained.
        form: how images are read.
    """

    suffixes = SUFFIXES

    def __init__(self, model: nn.Module, preprocess: Preprocess, form: ImageForm) -> None:
        self.network = nn.Sequential(preprocess, model).eval()
        self.form = form

    @property
    def classes(self) -> tuple[str, ...]:
        return self.form.classes

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the images that the network takes."""
        channels, height, width = self.form.reader.shape
        return channels, height // self.form.reduce, width // self.form.reduce

    def __call__(self, inputs: Any, tell: Tell = lambda share: None) -> Predictions | MaskPredictions:
        """The classes of images.

        Args:
            inputs: paths of files or folders, one or several, or images as arrays or tensors of bytes, (N, C, H, W),
                (N, H, W, C) or (N, H, W).
            tell: is told the share that is done.
        """
        files = self._files_of(inputs)
        if not hasattr(inputs, "__len__") and files is None:
            raise ConfigError(f"a predictor takes paths of files, or images as an array, got {described(inputs)}.")
        if files == [] or (files is None and len(inputs) == 0):
            raise ConfigError("there are no images to predict. Give at least one.")
        names = files or [str(row) for row in range(len(inputs))]
        images = None if files else self._checked(as_array(inputs))
        answers = self._answers(names, images, tell)
        if self.form.readout == "class":
            return Predictions(names, self.classes, torch.cat(list(answers)))
        found = [_masks_of(probabilities) for probabilities in answers]  # far smaller than the probabilities
        masks = [mask for some, _ in found for mask in some]
        if files:  # as large as the file's image, so that both can be laid over each other
            masks = [_stretched(mask, picture_form(_file(name))[1:]) for name, mask in zip(names, masks, strict=True)]
        sure = [share for _, some in found for share in some]
        return MaskPredictions(names, self.classes, [mask.numpy() for mask in masks], sure)

    def for_export(self) -> tuple[nn.Module, Tensor]:
        """A network from bytes (B, C, H, W) to the probabilities of classes, and an example of two inputs."""
        draw = torch.Generator().manual_seed(0)
        example = torch.randint(0, 256, (2, *self.input_shape), dtype=torch.uint8, generator=draw)
        return nn.Sequential(*self.network, nn.Softmax(dim=1)).eval(), example

    def _is_answer(self, file: Path) -> bool:
        return is_mask(file)

    def _answers(self, names: Sequence[str], images: Tensor | None, tell: Tell) -> Iterator[Tensor]:
        """The probabilities of classes, some inputs at a time."""
        for first in range(0, len(names), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            yield self._probabilities(self._read(names[some]) if images is None else images[some])
            tell(min(1.0, (first + _AT_ONCE) / len(names)))

    def _probabilities(self, images: Tensor) -> Tensor:
        like = next(self.network.parameters())
        with evaluating(self.network):
            return self.network(images.to(like.device)).float().softmax(1).cpu()

    def _read(self, names: Sequence[str]) -> Tensor:
        images = torch.from_numpy(np.stack([self.form.reader.decode(_file(name)) for name in names]))
        return mean_of_squares(images, self.form.reduce) if self.form.reduce > 1 else images

    def _checked(self, array: np.ndarray) -> Tensor:
        images = pixels(array, "images")
        if images.shape[1:] != self.input_shape:
            raise ShapeError(
                f"this network was trained on images of shape {self.input_shape}, got an array of shape {array.shape}, "
                f"read as {len(images)} images. Give paths of files, which are resized, or images of that shape; a "
                "single one as image[None]."
            )
        return images


def _masks_of(probabilities: Tensor) -> tuple[Tensor, list[float]]:
    """The most probable class of each pixel, and for each image the mean of its probability."""
    sure, classes = probabilities.max(1)
    return classes.byte(), sure.mean((1, 2)).tolist()


def _stretched(mask: Tensor, size: tuple[int, int]) -> Tensor:
    return nn.functional.interpolate(mask[None, None], size, mode="nearest-exact")[0, 0]


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no image {path}. Give paths of PNG or JPEG files.")
    return path
