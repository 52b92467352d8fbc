"""Trainings that start from a trained network: which network that is, and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError
from evolvent.experiments.recipe import ModelConfig
from evolvent.experiments.record import cell_folders
from evolvent.networks._files import CONFIG, WEIGHTS, read_config
from evolvent.networks.transfer_learning import take_weights

_DICTATED = ("num_classes", "readout")  # options that the new data decides


def with_start(values: dict[str, Any]) -> dict[str, Any]:
    """A recipe's values whose model is that of the folder it starts from, where it names one.

    Options that the recipe gives itself have the last word, and the data decides the number of classes.
    """
    model = values.get("model")
    if not isinstance(model, dict) or not model.get("start"):
        return values
    folder = saved_model(check_path(str(model["start"]), "model.start"))
    name, options = read_config(folder)
    kept = {key: value for key, value in options.items() if key not in _DICTATED}
    filled = {"name": name, "options": {**kept, **(model.get("options") or {})}, "start": str(folder)}
    return {**values, "model": filled}


def saved_model(folder: Path) -> Path:
    """The folder of the saved model of a run with one training, or of a training, or the folder itself."""
    if (folder / WEIGHTS).is_file() and (folder / CONFIG).is_file():
        return folder.resolve()
    found = [cell for cell in cell_folders(folder) if (cell / "model" / WEIGHTS).is_file()]
    if len(found) == 1:
        return (found[0] / "model").resolve()
    if found:
        names = ", ".join(str(cell.relative_to(folder)) for cell in found[:8])
        raise ConfigError(f"{folder} has {len(found)} trained networks. Start from one of them: {names}.")
    raise ConfigError(f"{folder} has no trained network to start from. Train one first with `evolvent run`.")


def start_from(model: nn.Module, config: ModelConfig) -> None:
    """Give a new network the weights that its recipe names, but for the last layer."""
    if config.start:
        take_weights(model, Path(config.start))
