"""Whether a task keeps the contract of all tasks: resumable, shareable, pure sources, complete findings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import EvolventError
from evolvent._core.files import remove_drafts
from evolvent._core.plain import plain
from evolvent.data import Batches, Material, Source
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.checkpoints import read_checkpoint
from evolvent.experiments.engine import DataShelf, Resources, measure_cost, prepare, run_cell
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell, Recipe, StudyRecipe, overlay
from evolvent.experiments.record import Result, read_metrics, read_result
from evolvent.experiments.trained import evaluate_run
from evolvent.report import write_report
from evolvent.tasks import Findings
from evolvent.testing._claims import claim
from evolvent.testing._shared_training import check_not_nested, train_together

_TIMES = ("seconds", "rows_per_second")  # columns of metrics.csv that the clock decides
_SHARED_STEPS, _SHARED_TOLERANCE = 3, 1e-6
_CHANCE = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


def check_task(
    recipe: str | Mapping[str, Any] | Recipe,
    folder: str | Path,
    *,
    data_folder: Path | None = None,
    shared: bool = True,
) -> list[str]:
    """Run the first cell of a small recipe through everything that tasks promise.

    In this order: sources are pure, so that the same rows are served whenever, and together as apart; figures are
    complete and finite, findings survive being written and read, and the kept model being saved and loaded; a training
    that is interrupted three times and resumed ends with bitwise the same model and figures; two processes have the
    weights and figures of one; a report can be written.

    Args:
        recipe: name, file, mapping or recipe, which trains for seconds, at least three steps. Its first variant
            and seed are taken.
        folder: where to train; anything but a run that is kept.
        data_folder: where to look for data sets.
        shared: False for a task that draws random numbers while it trains, which differ between processes.

    Returns:
        what could not be checked, and why.

    Raises:
        AssertionError: names the claim that does not hold, and what was measured.
    """
    check_not_nested()
    given, folder = _as_recipe(recipe), Path(folder)
    [cell] = given.cells()
    claim(cell.training.budget is None, "resume: give the recipe epochs or steps; what a budget gives varies.")
    material = DataShelf(data_folder).material(cell)
    for part in ("train", "watched", "test"):
        _check_source(part, getattr(material, part), cell.seed)
    [whole] = run_grid(given, folder / "whole", data_folder=data_folder).values()
    _check_figures(cell, material, whole)
    _check_findings(folder / "whole", whole, data_folder)
    _check_resumed(cell, material, folder, whole.steps)
    reason = _why_not_shared(cell, material) if shared else "the task draws random numbers while it trains"
    if not reason:
        _check_shared(cell, material, folder, data_folder)
    _check_report(folder)
    return [f"two processes: {reason}"] if reason else []


def _as_recipe(given: str | Mapping[str, Any] | Recipe) -> Recipe:
    """The recipe with its first variant and seed alone, and with checkpoints inside epochs."""
    recipe = load_recipe(given) if isinstance(given, str) else given
    if isinstance(recipe, StudyRecipe):
        raise AssertionError(f"{recipe.name} is the recipe of a study; check_task takes one that trains a task.")
    values = recipe.model_dump(mode="json") if isinstance(recipe, Recipe) else dict(recipe)
    first = dict(list((values.get("variants") or {}).items())[:1])
    values |= {"variants": first, "seeds": (values.get("seeds") or [0])[:1]}
    return Recipe.read(overlay(values, {"training": {"checkpoint_steps": 2}}), "the recipe")


def _check_source(part: str, source: Source, seed: int) -> None:
    rows = torch.linspace(0, len(source) - 1, min(len(source), 4)).round().long()
    with torch.random.fork_rng(devices=[]):
        for epoch in (0, 1):
            torch.manual_seed(1)
            first = source.take(rows, seed, epoch)
            torch.manual_seed(2)
            again = source.take(rows, seed, epoch)
            claim(_same(first, again), f"pure: {part}.take gives something else when called again with the same rows.")
            if source.shareable:
                apart = [source.take(row, seed, epoch) for row in rows.split(1)]
                claim(
                    _same(first, _joined(apart, first, len(rows))),
                    f"pure: {part}.take gives other rows when they are taken one by one. Set shareable = False if "
                    "they belong together.",
                )


def _same(one: Any, other: Any) -> bool:
    """Whether two nested values are bitwise the same."""
    if isinstance(one, Tensor):
        if not isinstance(other, Tensor) or one.shape != other.shape or one.dtype != other.dtype:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other or (one != one and other != other)


def _joined(parts: list[Any], like: Any, rows: int) -> Any:
    """Batches of one row, put together as ``like``; what has no axis of rows must be the same in all of them."""
    if isinstance(like, Tensor):
        per_row = like.ndim > 0 and len(like) == rows
        return torch.cat(parts) if per_row else parts[-1]
    if isinstance(like, Mapping):
        return {key: _joined([part[key] for part in parts], like[key], rows) for key in like}
    if isinstance(like, (list, tuple)):
        return [_joined([part[k] for part in parts], entry, rows) for k, entry in enumerate(like)]
    return parts[-1]


def _check_figures(cell: Cell, material: Material, result: Result) -> None:
    task = prepare(cell, material, Resources()).task  # with the turns checked
    names = [figure.name for figure in task.figures]
    claim(len(set(names)) == len(names), f"figures: two figures have one name among {names}.")
    watched = task.figures_of(task.add_up(Batches(material.watched, cell.data.rows_evaluated, cell.seed)))
    for whose, found in (("figures_of", watched), ("conclude", result.figures)):
        claim(names[0] in found, f"figures: {whose} does not give the score {names[0]!r}, only {sorted(found)}.")
        bad = [name for name, value in found.items() if value is None or not math.isfinite(value)]
        claim(not bad, f"figures: {whose} gives values that are not finite for {bad}.")


def _check_findings(folder: Path, result: Result, data_folder: Path | None) -> None:
    _, _, findings = evaluate_run(folder, data_folder)
    claim(
        findings.figures == result.figures,
        f"kept: after save_kept and load_kept the figures are {findings.figures}, before {result.figures}.",
    )
    tree, arrays = findings.pack()
    again, arrays_again = Findings.unpack(json.loads(json.dumps(plain(tree))), arrays).pack()
    claim(tree == again, "findings: they are not the same after pack and unpack.")
    claim(arrays.keys() == arrays_again.keys(), "findings: arrays are lost by pack and unpack.")


class _PowerCut(Exception):
    """Ends a training as a power cut would."""


class _Cutter(Observer):
    """Interrupts a training after a step."""

    interval = 0.0

    def __init__(self, step: int) -> None:
        self.step = step

    def cell_progresses(self, cell: Cell, progress: TrainingProgress) -> None:
        if progress.step >= self.step:
            raise _PowerCut


def _check_resumed(cell: Cell, material: Material, folder: Path, steps: int) -> None:
    claim(steps >= 3, f"resume: the recipe trains for {steps} steps; give it at least 3 to be interrupted in.")
    cut = folder / "interrupted"
    for step in sorted({1, steps // 2, steps - 1}):
        try:
            _train(cell, material, cut, _Cutter(step))
        except _PowerCut:
            remove_drafts(cut)
    _train(cell, material, cut)
    _compare_bitwise(folder / "whole", cut)


def _train(cell: Cell, material: Material, folder: Path, observer: Observer | None = None) -> Result:
    ready = prepare(cell, material, Resources())
    return run_cell(ready, folder, measure_cost(ready), observer=observer)


def _compare_bitwise(whole: Path, cut: Path) -> None:
    advice = (
        "Keep what changes in training in parameters or buffers, and draw random numbers from torch's generators, "
        "which the engine sets for each step."
    )
    one, other = _metrics(whole), _metrics(cut)
    differing = [name for name in one if not _same(one[name], other.get(name))]
    claim(not differing, f"resume: an interrupted training has other figures, {differing[:3]}. {advice}")
    files = sorted(path.relative_to(whole) for path in (whole / "model").rglob("*") if path.is_file())
    for name in files:
        same = (cut / name).is_file() and (cut / name).read_bytes() == (whole / name).read_bytes()
        claim(same, f"resume: an interrupted training keeps another {name}. {advice}")
    results = [read_result(folder) for folder in (whole, cut)]
    figures = [result.figures if result else None for result in results]
    claim(figures[0] == figures[1], f"resume: an interrupted training is tested to {figures[1]}, not {figures[0]}.")


def _metrics(folder: Path) -> dict[str, list[float]]:
    found = read_metrics(folder / "metrics.csv")
    return {name: values for name, values in found.items() if name not in _TIMES}


def _why_not_shared(cell: Cell, material: Material) -> str:
    if not all(source.shareable for source in (material.train, material.watched)):
        return "a source is not shareable"
    try:
        model = prepare(cell, material, Resources(devices=2)).task.model
    except EvolventError as error:
        return str(error)
    for name, module in model.named_modules():
        if isinstance(module, _CHANCE) and getattr(module, "p", 1):
            return f"the network has {type(module).__name__} ({name}), which sees its own process's rows alone"
    return ""


def _check_shared(cell: Cell, material: Material, folder: Path, data_folder: Path | None) -> None:
    """In float64, so that rounding is not taken for a fault."""
    values = cell.model_dump(mode="json")
    short = {"steps": _SHARED_STEPS, "precision": "64-true", "refine_at": []}
    short_cell = Cell.read(overlay(values, {"training": short}), "the recipe")
    alone, together = folder / "alone", folder / "together"
    _train(short_cell, material, alone)
    train_together(short_cell, together, data_folder)
    expected, found = (_weights(where) for where in (alone, together))
    for name, weight in expected.items():
        off = (weight.double() - found[name].double()).abs().max().item() if weight.numel() else 0.0
        bound = _SHARED_TOLERANCE * max(1.0, weight.double().abs().max().item() if weight.numel() else 0.0)
        claim(
            off <= bound,
            f"shared: after {_SHARED_STEPS} steps {name!r} of two processes differs by {off:.1e} from that of one, "
            f"claimed is at most {bound:.0e}. Is the objective a mean over the rows of a batch?",
        )
    one, two = _metrics(alone), _metrics(together)
    for name, values in one.items():
        off = max((abs(a - b) / max(1.0, abs(a)) for a, b in zip(values, two[name], strict=True)), default=0.0)
        claim(
            not off > _SHARED_TOLERANCE,
            f"shared: {name} is {two[name][-1]:g} with two processes and {values[-1]:g} with one. Measures must add up "
            "over the rows that each process sees.",
        )


def _weights(folder: Path) -> dict[str, Tensor]:
    state = read_checkpoint(folder)
    assert state is not None
    return state["task"]


def _check_report(folder: Path) -> None:
    try:
        write_report([folder / "whole"], folder / "report.html")
    except Exception as error:
        raise AssertionError(f"report: it cannot be written: {type(error).__name__}: {error}") from error
    claim((folder / "report.html").is_file(), "report: no file was written.")
