"""Predictors from the folders of runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError, ModelFileError
from evolvent._core.seals import read_sealed
from evolvent.data import Preprocess, picture_reader
from evolvent.networks import load
from evolvent.networks._files import model_folder
from evolvent.tasks.prediction.images import ImageForm, ImagePredictor
from evolvent.tasks.prediction.points import PointForm, PointPredictor
from evolvent.tasks.prediction.predictor import FILE, FORMAT


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
        values = read_sealed(path)
    except ConfigError as error:
        raise ModelFileError(f"{error} Or train the network again.") from None
    if values.get("format") != FORMAT:
        raise ModelFileError(f"{path} was written by another version; this one reads format {FORMAT}.")
    return values
