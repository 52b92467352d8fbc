"""Trainings that go on from another run's checkpoint with another learning rate, into a folder of their own.

After a divergence the settings that say how fast a network is trained may be changed: ``optimizer.lr``, the schedule
and ``training.clip_norm``. Whatever else changes makes another experiment. The new folder names its parent.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolvent._core.errors import ConfigError
from evolvent._core.files import draft_path, write_bytes
from evolvent._core.slugs import slug
from evolvent.experiments.checkpoints import LAST, PREVIOUS, read_checkpoint_file
from evolvent.experiments.recipe import Cell, Recipe, differences
from evolvent.experiments.record import (
    cell_folders,
    is_finished,
    read_cell,
    read_json,
    read_recipe,
    write_run_json,
)
from evolvent.experiments.spectra import SPECTRA

PARENT = "parent.json"
DIVERGED = "diverged.json"


@dataclass(frozen=True)
class Branch:
    """Where a run that is to be continued with other settings lies, and what it goes on from."""

    folder: Path
    parent: Path | None


def note_divergence(folder: Path, reason: str) -> None:
    """Mark a cell whose numbers became NaN or infinite, so that a run with another learning rate finds it."""
    write_run_json(folder / DIVERGED, {"reason": reason})


def find_branch(recipe: Recipe, out: Path | None) -> Branch:
    """The folder in which ``--resume`` goes on with these settings.

    That is the recipe's own folder if it holds this run. With ``--out``, a run there that differs in its learning rate
    alone is the parent of a new one beside it; without, one of the recipe's runs that has diverged is.
    """
    own = out or Path("runs") / slug(recipe.name) / recipe.identity
    earlier = read_recipe(own)
    if earlier is not None and earlier.identity != recipe.identity and _differs_in_pace(earlier, recipe):
        return Branch(own.with_name(f"{own.name}-{recipe.identity}"), own)
    if earlier is None and out is None:
        found = [run for run in _siblings(own) if _has_diverged(run) and _differs_in_pace(read_recipe(run), recipe)]
        return Branch(own, max(found, key=lambda run: run.stat().st_mtime, default=None))
    return Branch(own, None)


def _siblings(folder: Path) -> list[Path]:
    found = folder.parent.glob("*/recipe.yaml") if folder.parent.is_dir() else []
    return [path.parent for path in found]


def _has_diverged(run: Path) -> bool:
    return (run / DIVERGED).is_file() or any((run / "cells").glob(f"*/{DIVERGED}"))


def _differs_in_pace(earlier: object, recipe: Recipe) -> bool:
    """Whether two recipes have the same cells but for what may change."""
    if not isinstance(earlier, Recipe):
        return False
    before, now = ({cell.label: _without_pace(cell) for cell in one.cells()} for one in (earlier, recipe))
    shared = before.keys() & now.keys()
    return bool(shared) and all(before[label] == now[label] for label in shared)


def _without_pace(cell: Cell) -> dict[str, Any]:
    values = cell.model_dump(mode="json")
    del values["schedule"], values["optimizer"]["lr"], values["training"]["clip_norm"]
    return values


def branch_off(cell: Cell, folder: Path, parent: Path) -> str:
    """Put the parent's last good checkpoint of a cell into its new folder.

    Returns:
        One line that says where the cell goes on from; empty if the parent does not hold the cell.
    """
    origin = next((one for one in cell_folders(parent) if _label(one) == cell.label), None)
    if origin is None or (folder / LAST).exists():
        return ""
    if is_finished(origin):
        return f"starts from step 0, since it is finished in {parent}"
    found = last_good(origin)
    step = found[1] if found else 0
    changed = _changes(read_cell(origin), cell)
    write_run_json(folder / PARENT, {"parent": str(parent.absolute()), "cell": cell.label, "step": step, **changed})
    if found is None:
        return f"starts from step 0, since {parent} has no checkpoint"
    for name in ("model", SPECTRA):
        _copy(origin / name, folder / name)
    write_bytes(folder / LAST, found[0].read_bytes())
    return f"goes on from step {step} of {parent}"


def read_parent(folder: Path) -> dict[str, Any] | None:
    """What a cell went on from: ``parent``, ``step``, and ``before`` and ``now``, the settings that differ."""
    return read_json(folder / PARENT)


def _label(folder: Path) -> str:
    cell = read_cell(folder)
    return cell.label if cell else ""


def last_good(folder: Path) -> tuple[Path, int] | None:
    """The newest checkpoint from before an explosion, and its step; the newest whole one if both are from after."""
    whole = []
    for path in (folder / LAST, folder / PREVIOUS):
        try:
            state = read_checkpoint_file(path)
        except ConfigError:
            continue
        if not state.get("exploding"):
            return path, state["step"]
        whole.append((path, state["step"]))
    return whole[-1] if whole else None


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, whole or not at all."""
    if source.is_dir():
        draft = draft_path(target.parent)
        shutil.copytree(source, draft)
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    elif source.is_file():
        write_bytes(target, source.read_bytes())


def _changes(before: Cell | None, now: Cell) -> dict[str, Any]:
    """Settings that differ, by their dotted keys."""
    found = differences(before.model_dump(mode="json") if before else {}, now.model_dump(mode="json"))
    before_and_now = [{key: values[place] for key, values in found.items()} for place in (0, 1)]
    return dict(zip(("before", "now"), before_and_now, strict=True))
