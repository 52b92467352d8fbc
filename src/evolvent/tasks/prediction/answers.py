"""What a trained classifier answers: classes, confidences and masks."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.files import atomic_path
from evolvent._core.notebook import html_table

_COLUMNS = ("input", "class", "confidence")
_LONGEST_LINE = 80
_ORIGIN = ("Software", "evolvent predict")  # in the PNGs of masks


@dataclass(frozen=True)
class Predictions:
    """A class for each input.

    Attributes:
        inputs: what they are called: paths, or numbers of rows.
        classes: names of all classes.
        probabilities: what the network gives each class, (N, classes).

    >>> import torch
    >>> found = Predictions(["a.png"], ("cat", "dog"), torch.tensor([[0.25, 0.75]]))
    >>> found.labels, found.confidence
    (['dog'], [0.75])
    """

    inputs: Sequence[str]
    classes: tuple[str, ...]
    probabilities: Tensor

    @property
    def labels(self) -> list[str]:
        """The most probable class of each input."""
        return [self.classes[k] for k in self.probabilities.argmax(1).tolist()]

    @property
    def confidence(self) -> list[float]:
        """The probability of that class."""
        return self.probabilities.amax(1).tolist()

    def table(self) -> tuple[list[str], list[list[str | float]]]:
        """Columns and rows: input, class, confidence."""
        rows = zip(self.inputs, self.labels, self.confidence, strict=True)
        return list(_COLUMNS), [list(row) for row in rows]

    def _repr_html_(self) -> str:
        return html_table(*self.table())


@dataclass(frozen=True)
class MaskPredictions:
    """A class for each pixel of each input.

    Attributes:
        inputs: what they are called: paths, or numbers of rows.
        classes: names of all classes.
        masks: the classes of an image's pixels, uint8 (H, W), as large as the image.
        confidence: the mean probability of the class that was chosen.
    """

    inputs: Sequence[str]
    classes: tuple[str, ...]
    masks: list[np.ndarray]
    confidence: list[float]

    def table(self) -> tuple[list[str], list[list[str | float]]]:
        """Columns and rows: input, the share of each class, confidence."""
        counts = [np.bincount(mask.ravel(), minlength=len(self.classes)) / mask.size for mask in self.masks]
        rows = zip(self.inputs, counts, self.confidence, strict=True)
        return ["input", *self.classes, "confidence"], [[name, *shares.tolist(), sure] for name, shares, sure in rows]

    def _repr_html_(self) -> str:
        return html_table(*self.table())

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the masks as PNGs with a palette, whose pixels are the numbers of the classes.

        Earlier predictions are replaced. Any other file of the same name is not, be it an image or a mask to train on.

        Raises:
            ConfigError: if a mask would replace a file, or two masks have one name; before anything is written.
        """
        from PIL import Image
        from PIL.PngImagePlugin import PngInfo

        paths = [Path(folder) / f"{Path(name).stem}.png" for name in self.inputs]
        self._check_places(paths)
        origin = PngInfo()
        origin.add_text(*_ORIGIN)
        for path, mask in zip(paths, self.masks, strict=True):
            image = Image.fromarray(mask, "P")
            image.putpalette(_palette())
            with atomic_path(path) as draft:
                image.save(draft, format="PNG", pnginfo=origin)
        return paths

    def _check_places(self, paths: Sequence[Path]) -> None:
        if twice := [path for path, count in Counter(paths).items() if count > 1]:
            raise ConfigError(f"two inputs would be written as {twice[0]}. Predict them one after the other.")
        taken = [path for path in paths if path.exists()]
        inputs = {_file(Path(name)) for name in self.inputs if Path(name).exists()} if taken else set()
        for path in taken:
            if _file(path) in inputs:
                raise ConfigError(f"the mask {path} would replace the image of that name. Choose another folder.")
            if not is_mask(path):
                raise ConfigError(f"the mask {path} would replace a file that is no prediction. Choose another folder.")


def _file(path: Path) -> tuple[int, int]:
    """What two paths of one file have in common, as :func:`os.path.samefile` compares them."""
    found = path.stat()
    return found.st_dev, found.st_ino


def is_mask(path: Path) -> bool:
    """Whether an image says that a prediction wrote it."""
    from PIL import Image

    key, value = _ORIGIN
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's opinion of large images
            with Image.open(path, formats=("PNG",)) as image:
                return image.info.get(key) == value
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # Pillow's ways to say that it is no PNG
        return False


def is_table(path: Path) -> bool:
    """Whether a table begins as one of answers does."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(_LONGEST_LINE).strip() == ",".join(_COLUMNS)
    except (OSError, UnicodeDecodeError):
        return False


def _palette() -> list[int]:
    """Colours that differ much from class to class; the first is black."""
    from colorsys import hsv_to_rgb

    colours = [hsv_to_rgb(0.618034 * k % 1, 0.75, 1 - 0.12 * (k % 4)) for k in range(1, 256)]
    return [0, 0, 0, *(round(255 * part) for colour in colours for part in colour)]
