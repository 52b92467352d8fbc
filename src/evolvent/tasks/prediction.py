"""What a trained classifier is asked with and answers: files and arrays in, classes and confidences out."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.checks import check_path, described
from evolvent._core.errors import ConfigError, DataError, ModelFileError, ShapeError, shortened
from evolvent._core.files import write_json
from evolvent._core.notebook import html_table
from evolvent.data import PictureReader, Preprocess, picture_reader
from evolvent.data.own.arrays import as_array, pixels
from evolvent.data.own.table import Table, read_table
from evolvent.data.picture_readers import SUFFIXES, picture_form
from evolvent.data.preprocess import mean_of_squares
from evolvent.networks import load
from evolvent.networks._files import model_folder
from evolvent.tasks.task import evaluating

FILE = "predictor.json"
_FORMAT = 1
_AT_ONCE = 64
_COUPLED = 128  # points that a file takes of a network which looks at all points together
_LEAST_DEVIATION = 1e-12  # below which a feature counts as constant

Tell = Callable[[float], None]


@dataclass(frozen=True)
class Predictions:
    """A class for each input.

    Attributes:
        inputs: what they are called: paths, or numbers of rows.
        classes: names of all classes.
        probabilities: what the network gives each class, (N, classes).

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
        return ["input", "class", "confidence"], [list(row) for row in rows]

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
        """Write the masks as PNGs with a palette, whose pixels are the numbers of the classes."""
        from PIL import Image

        paths = []
        for name, mask in zip(self.inputs, self.masks, strict=True):
            path = Path(folder) / f"{Path(name).stem}.png"
            if path in paths:
                raise ConfigError(f"two inputs would be written as {path}. Predict them one after the other.")
            path.parent.mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(mask, "P")
            image.putpalette(_palette())
            image.save(path)
            paths.append(path)
        return paths


def _palette() -> list[int]:
    """Colours that differ much from class to class; the first is black."""
    from colorsys import hsv_to_rgb

    colours = [hsv_to_rgb(0.618034 * k % 1, 0.75, 1 - 0.12 * (k % 4)) for k in range(1, 256)]
    return [0, 0, 0, *(round(255 * part) for colour in colours for part in colour)]


@dataclass(frozen=True)
class ImageForm:
    """What is stored beside a trained classifier of images: how files are read, and what classes are called."""

    reader: PictureReader
    classes: tuple[str, ...]
    readout: Literal["class", "mask"]
    reduce: int = 1

    def save(self, folder: Path) -> None:
        values = {"reader": self.reader.describe(), "classes": list(self.classes), "readout": self.readout}
        write_json(folder / FILE, {"format": _FORMAT, "inputs": "images", "reduce": self.reduce, **values})


@dataclass(frozen=True)
class PointForm:
    """What is stored beside a trained classifier of points: names, and how features are scaled."""

    columns: tuple[str, ...]
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, x: Tensor, columns: tuple[str, ...], classes: tuple[str, ...]) -> Self:
        """The scaling that gives these points mean 0 and deviation 1; constant features are only shifted."""
        deviation, mean = torch.std_mean(x.double(), dim=0, correction=0)
        deviation = torch.where(deviation > _LEAST_DEVIATION, deviation, 1.0)
        return cls(columns, classes, tuple(mean.tolist()), tuple(deviation.tolist()))

    @classmethod
    def drawn(cls, classes: int) -> Self:
        """Of points of the plane that are taken as they are."""
        return cls(("x0", "x1"), tuple(map(str, range(classes))), (0.0, 0.0), (1.0, 1.0))

    def scaled(self, x: Tensor) -> Tensor:
        """Points as the network takes them, in their dtype."""
        mean, deviation = (torch.tensor(part, dtype=torch.float64) for part in (self.mean, self.deviation))
        return ((x.double() - mean) / deviation).to(x.dtype)

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, {"format": _FORMAT, "inputs": "points", **asdict(self)})


class _Predictor:
    """What both kinds of predictor do with paths."""

    suffixes: tuple[str, ...]

    def files(self, paths: Iterable[str | os.PathLike[str]]) -> list[str]:
        """The files themselves, and those below folders by name."""
        return [str(file) for path in paths for file in self._below(check_path(path, "a predictor", "a file"))]

    def _files_of(self, inputs: Any) -> list[str] | None:
        """The files that are meant, or None if the inputs are no paths."""
        if isinstance(inputs, (str, os.PathLike)):
            inputs = [inputs]
        are_paths = isinstance(inputs, (list, tuple)) and all(isinstance(one, (str, os.PathLike)) for one in inputs)
        return self.files(inputs) if are_paths else None

    def _below(self, path: Path) -> Iterable[Path]:
        if not path.is_dir():
            return [path]
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in self.suffixes)
        if not found:
            raise DataError(f"{path} has no {' or '.join(self.suffixes)} files. Give another folder, or files.")
        return found


class ImagePredictor(_Predictor):
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
        answers = []
        for first in range(0, len(names), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            answers.append(self._probabilities(self._read(names[some]) if images is None else images[some]))
            tell(min(1.0, (first + _AT_ONCE) / len(names)))
        found = torch.cat(answers)
        if self.form.readout == "class":
            return Predictions(names, self.classes, found)
        return self._masks(names, found, bool(files))

    def for_export(self) -> tuple[nn.Module, Tensor]:
        """A network from bytes (B, C, H, W) to the probabilities of classes, and an example of two inputs."""
        draw = torch.Generator().manual_seed(0)
        example = torch.randint(0, 256, (2, *self.input_shape), dtype=torch.uint8, generator=draw)
        return nn.Sequential(*self.network, nn.Softmax(dim=1)).eval(), example

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

    def _masks(self, names: Sequence[str], found: Tensor, files: bool) -> MaskPredictions:
        sure, classes = found.max(1)
        masks = [mask.byte() for mask in classes]
        if files:  # as large as the file's image, so that both can be laid over each other
            sizes = [picture_form(_file(name))[1:] for name in names]
            masks = [
                nn.functional.interpolate(mask[None, None], size, mode="nearest-exact")[0, 0]
                for mask, size in zip(masks, sizes, strict=True)
            ]
        return MaskPredictions(names, self.classes, [mask.numpy() for mask in masks], sure.mean((1, 2)).tolist())


class _Scaling(nn.Module):
    """Features as they are in tables to features as the network takes them."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


class PointPredictor(_Predictor):
    """A trained network with everything that is needed to ask it about the points of a table."""

    suffixes = (".csv",)

    def __init__(self, model: nn.Module, form: PointForm) -> None:
        self.network, self.form = model.eval(), form

    @property
    def classes(self) -> tuple[str, ...]:
        return self.form.classes

    def __call__(self, inputs: Any, tell: Tell = lambda share: None) -> Predictions:
        """The classes of points: paths of ``.csv`` files with the columns of the training or of folders of them, or
        numbers (N, d).

        Columns are found by their names, in any order; a table that names none of them so must have as many.
        """
        files = self._files_of(inputs)
        if files == []:
            raise ConfigError("there are no points to predict. Give at least one.")
        if files:
            tables = [read_table(path) for path in files]
            parts = [torch.from_numpy(table.numbers(self._columns(table))) for table in tables]
            self._warn_of_names(tables)
            names = [f"{path}:{row}" for path, x in zip(files, parts, strict=True) for row in range(1, len(x) + 1)]
            x = torch.cat(parts)
        else:
            x = torch.as_tensor(as_array(inputs)).float()
            names = [str(row) for row in range(len(x))]
        if x.ndim != 2 or x.shape[1] != len(self.form.columns) or len(x) == 0:
            wanted = f"{len(self.form.columns)} features ({', '.join(self.form.columns[:6])})"
            raise ShapeError(f"this network takes points of {wanted}, got {tuple(x.shape)}.")
        if not x.isfinite().all():
            row = int((~x.isfinite()).any(1).nonzero()[0, 0])
            raise DataError(f"row {row} of {len(x):,} has numbers that are not finite. Mend or leave out such rows.")
        with evaluating(self.network):
            answers = self.network(self.form.scaled(x).to(next(self.network.parameters())))
        tell(1.0)
        return Predictions(names, self.classes, answers.float().softmax(1).cpu())

    def for_export(self) -> tuple[nn.Module, Tensor]:
        """A network from features (B, d) as they are in tables to the probabilities of classes, and an example."""
        draw = torch.Generator().manual_seed(0)
        mean, deviation = (torch.tensor(part) for part in (self.form.mean, self.form.deviation))
        count = _COUPLED if getattr(self.network, "couples_batch", False) else 2
        example = mean + deviation * torch.randn(count, len(mean), generator=draw)
        return nn.Sequential(_Scaling(mean, deviation), self.network, nn.Softmax(dim=1)).eval(), example

    def _columns(self, table: Table) -> list[str]:
        """Those of the training; of a table that has not all of these names, all columns in their order."""
        if self._names_fit(table):
            return list(self.form.columns)
        if len(table.columns) != len(self.form.columns):
            raise DataError(
                f"{table.path.name} must have the columns {_listed(self.form.columns)}, in any order, or just so many "
                f"without names; it has {len(table.columns)}: {_listed(table.columns)}. Rename them, or leave out "
                "those that are not needed."
            )
        return table.columns

    def _names_fit(self, table: Table) -> bool:
        return set(self.form.columns) <= set(table.columns)

    def _warn_of_names(self, tables: Sequence[Table]) -> None:
        """Once for all files, of the first whose columns are named otherwise."""
        other = next((table for table in tables if table.named and not self._names_fit(table)), None)
        if other is not None:
            warnings.warn(
                f"{other.path.name} has the columns {_listed(other.columns)}, which are taken in this order as "
                f"{_listed(self.form.columns)}, as in the training.",
                stacklevel=3,
            )


def load_predictor(run: str | os.PathLike[str]) -> ImagePredictor | PointPredictor:
    """The trained network of a run, ready to be asked about files and arrays.

    Args:
        run: folder of a run with one training, of one training, or of a saved model in one.

    Raises:
        ModelFileError: if there is no trained network, or none that gives classes.
    """
    folder = model_folder(check_path(run, "ev.load_predictor"))
    values = _stored(folder / FILE)
    model = load(folder)
    match values:
        case {"inputs": "images", "reader": reader, "classes": list(classes), "readout": "class" | "mask" as readout}:
            form = ImageForm(picture_reader(reader), tuple(map(str, classes)), readout, int(values.get("reduce", 1)))
            return ImagePredictor(model, Preprocess.load(folder), form)
        case {"inputs": "points", "columns": list(columns), "classes": list(classes), "mean": mean, "deviation": scale}:
            form = PointForm(tuple(map(str, columns)), tuple(map(str, classes)), tuple(mean), tuple(scale))
            return PointPredictor(model, form)
    raise ModelFileError(f"{folder / FILE} does not say what the network takes. Train it again.")


def _stored(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ModelFileError(
            f"{path.parent} has no {FILE}: its network gives no classes of images or points, or an earlier version "
            "trained it. Train a classifier with `evolvent run`."
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFileError(f"{path} is not valid JSON: {error}. Train the network again.") from None
    if not isinstance(values, dict) or values.get("format") != _FORMAT:
        raise ModelFileError(f"{path} was written by another version; this one reads format {_FORMAT}.")
    return values


def _listed(columns: Sequence[str]) -> str:
    return shortened(", ".join(columns), 60)


def _file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise DataError(f"there is no image {path}. Give paths of PNG or JPEG files.")
    return path
