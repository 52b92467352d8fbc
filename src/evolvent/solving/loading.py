"""What a folder holds: a saved network, or a run, which is a solution if it solved a problem."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from evolvent import networks
from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError, ModelFileError

if TYPE_CHECKING:
    from evolvent.equations import problems
    from evolvent.solving.solution import Solution


def load(folder: str | os.PathLike[str], problem: problems.Problem | None = None) -> nn.Module | Solution | Any:
    """Read a saved network, in evaluation mode, or what a run trained.

    The run of a problem is a :class:`~evolvent.solving.Solution`, which can be called on points; of any other run it is
    the network. Nothing here reads a pickle.

    Args:
        folder: written by :func:`evolvent.save`, by :meth:`Solution.save`, or a run folder of one training.
        problem: the problem of a solution, if it has no name that is registered.

    Raises:
        ModelFileError: if there is no such thing, its files are foreign or truncated, or the network in the folder is a
            solution only together with the initial value of its problem.
    """
    if not isinstance(folder, (str, os.PathLike)):
        raise ModelFileError(f"a saved network is named by its folder, got {type(folder).__name__}.")
    folder = check_path(folder, "ev.load")
    if (folder / "recipe.yaml").is_file() or (folder / "model" / "config.yaml").is_file():
        return _of_run(folder, problem)
    if (folder / "solution.json").is_file():
        _refuse_half_a_solution(folder)
    return networks.load(folder)


def _of_run(folder: Path, problem: problems.Problem | None) -> Any:
    from evolvent.experiments.record import read_record
    from evolvent.solving.folders import main_cell
    from evolvent.solving.solution import Solution

    cell = main_cell(folder)
    if not (cell / "model" / "config.yaml").is_file():
        raise ModelFileError(f"{folder} has no model yet: its training has just begun, or it keeps none.")
    if read_record(cell).cell.task.name == "pde":
        return Solution.load(folder, problem)
    if problem is not None:
        raise ConfigError(f"{folder} is not the solution of a problem. Leave out problem.")
    return networks.load(folder)


def _refuse_half_a_solution(folder: Path) -> None:
    from evolvent.solving.folders import read_kept

    if not read_kept(folder)["ansatz"].is_bare:
        raise ModelFileError(
            f"the network in {folder} is not the solution by itself: a part that its problem knows is built in. "
            "Load the run folder around it, which is."
        )
