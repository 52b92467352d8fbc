"""Runs a recipe cell by cell: resumable, skipping what is finished, one after the other or side by side."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from evolvent._core.errors import ConfigError, EvolventError
from evolvent._core.files import remove_drafts
from evolvent._core.launchers import is_main_process
from evolvent._core.slugs import slug
from evolvent.experiments.branches import branch_off
from evolvent.experiments.cluster import ray_cluster
from evolvent.experiments.engine import DataShelf, Prepared, Resources, prepare
from evolvent.experiments.jobs import Bench, Event, Failed, Job, Measured, Runner, Started, Warned
from evolvent.experiments.kept_archive import Archive
from evolvent.experiments.lock import locked, named_differences, refuse_other_run
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell, Recipe, StudyRecipe
from evolvent.experiments.record import Result, read_cell, read_recipe, read_result, write_config
from evolvent.experiments.workers import Workers
from evolvent.tasks.own_data import section_in

_CHECKED_FIRST = 24  # variants that are built before anything is written; further ones when they begin


class CellsFailedError(EvolventError):
    """Some cells that ran side by side failed; the others are finished."""


def run_folder(recipe: Recipe | StudyRecipe, out: Path | None = None) -> Path:
    """Where a recipe's run lies: ``runs/<recipe>/<id>``, where the id changes with what the recipe says."""
    return out or Path("runs") / slug(recipe.name) / recipe.identity


def cell_folders_of(cells: list[Cell], folder: Path) -> dict[str, Path]:
    """The folder of each cell by its label: the run folder itself for a single cell, else one below ``cells/``.

    A run of one cell to which more are added keeps that cell where it is.
    """
    first = read_cell(folder)
    alone = first.label if first else cells[0].label if len(cells) == 1 and not (folder / "cells").is_dir() else None
    return {cell.label: folder if cell.label == alone else folder / "cells" / cell.folder_name for cell in cells}


def run_grid(
    recipe: Recipe,
    folder: Path | str,
    *,
    resume: bool = False,
    data_folder: Path | None = None,
    resources: Resources | None = None,
    observer: Observer | None = None,
    workers: int = 1,
    ray: str | None = None,
    parent: Path | None = None,
    archive: Archive | None = None,
) -> dict[str, Result]:
    """Run all cells that are not finished; results by cell label.

    Cells run one after the other in this process, side by side in ``workers`` processes, or as tasks of a Ray cluster.
    With the same number of CPU threads per cell the results are bitwise the same. One after the other, the first error
    ends the run; otherwise a cell that fails does not stop the others, and a cell whose process dies continues
    from its last checkpoint in another one.

    Args:
        recipe: what to run.
        folder: the run folder; with Ray all nodes must see it under the same path.
        resume: continue the run that the folder holds; seeds may have been added to it.
        data_folder: where to look for data sets.
        resources: processes that share each training. With ``ray``, ``devices`` counts the CPU cores of each cell or,
            on a cluster with GPUs, its GPUs (one); with ``workers`` it must be left out.
        observer: is told of the progress; its methods are called in the calling thread.
        workers: cells that run at the same time on this machine. CPU threads and GPUs are divided between them.
            With ``ray``, the largest number of cells at a time; else as many as the cluster has room for.
        ray: ``"local"`` for a Ray on this machine that ends with the run, or the address of a cluster: ``"auto"``,
            ``"host:port"`` or ``"ray://host:port"``.
        parent: a run with another learning rate, from whose last good checkpoints cells without one go on; see
            :func:`~evolvent.experiments.branches.find_branch`.
        archive: to be written of data that lie in no file.

    Raises:
        ConfigError: if the folder holds a run already and ``resume`` is not set, the archive would replace another
            file, or the cluster cannot be reached; before anything is written.
        CellsFailedError: at the end, if cells that ran side by side failed.
    """
    resources, observer = resources or Resources(), observer or Observer()
    folder = Path(folder)
    _check_places(workers, ray, resources)
    in_turn = workers == 1 and ray is None
    cells = recipe.cells()
    folders, results, jobs = _standing(recipe, cells, folder, resume, archive, observer.interval)
    shelf = DataShelf(data_folder)
    ready = _prepare_variants(jobs, shelf, resources if in_turn else Resources())
    origin = "; ".join(dict.fromkeys(one.material.origin for one in ready.values()))
    if in_turn or not jobs:
        place = nullcontext(Bench(shelf, resources, ready))
    else:
        place = _side_by_side(resources.devices, data_folder, workers, ray)
    del shelf, ready  # side by side, only the workers hold data
    with place as runner, locked(folder):
        folders, results, jobs = _standing(recipe, cells, folder, resume, archive, observer.interval)  # as it is now
        if is_main_process():
            if archive:
                archive.write()
            write_config(folder / "recipe.yaml", _with_earlier_seeds(recipe, folder))
        observer.grid_starts(cells, origin)
        if parent is not None and is_main_process():
            for job in jobs:
                if said := branch_off(job.cell, job.folder, parent):
                    observer.cell_branches(job.cell, said)
        for cell in cells:
            if result := results[cell.label]:
                observer.cell_skipped(cell, folders[cell.label], result)
        try:
            failures = _run(jobs, runner, results, observer)
        finally:
            if not in_turn:
                remove_drafts(folder)  # of workers that were ended in the middle of a file
    if failures:
        raise _some_failed(failures, len(cells))
    return {label: result for label, result in results.items() if result}


def _check_places(workers: int, ray: str | None, resources: Resources) -> None:
    """Refuse options that do not apply to cells that run side by side."""
    if workers < 1:
        raise ConfigError(f"--workers must be at least 1, got {workers}.")
    if workers == 1 and ray is None:
        return
    if resources.nodes > 1 or (ray is None and resources.devices > 1):
        leave = "--nodes" if ray is not None else "--devices and --nodes"
        raise ConfigError(f"side by side, each cell is trained in one process. Leave out {leave}.")
    if not is_main_process():
        raise ConfigError(
            "--workers and --ray start processes of their own. Start evolvent itself in one process only."
        )


def _side_by_side(
    devices: int, data_folder: Path | None, workers: int, ray: str | None
) -> AbstractContextManager[Runner]:
    """What carries out jobs side by side."""
    if ray is None:
        return nullcontext(Workers(workers, data_folder))
    return ray_cluster(ray, devices, workers if workers > 1 else None, data_folder)


def _standing(
    recipe: Recipe, cells: list[Cell], folder: Path, resume: bool, archive: Archive | None, interval: float
) -> tuple[dict[str, Path], dict[str, Result | None], list[Job]]:
    """How things stand in a run folder: where its cells lie, the results that there are, and what is left to do.

    Raises:
        ConfigError: if something else lies there.
    """
    if is_main_process():
        refuse_other_run(read_recipe(folder), recipe, folder, resume)
        if archive:
            archive.refuse_other()
    folders = cell_folders_of(cells, folder)
    results = {cell.label: finished_result(cell, folders[cell.label]) for cell in cells}
    return folders, results, _jobs([cell for cell in cells if not results[cell.label]], folders, interval)


def _jobs(cells: list[Cell], folders: dict[str, Path], interval: float) -> list[Job]:
    firsts = {cell.variant: cell.label for cell in reversed(cells)}
    return [Job(cell, folders[cell.label], firsts[cell.variant] == cell.label, interval) for cell in cells]


def _prepare_variants(jobs: list[Job], shelf: DataShelf, resources: Resources) -> dict[str, Prepared]:
    """The first cell of each variant, ready to be trained; of many variants only the first ones."""
    firsts = [job.cell for job in jobs if job.first][:_CHECKED_FIRST]
    return {cell.label: prepare(cell, shelf.material(cell), resources) for cell in firsts}


def _run(jobs: list[Job], runner: Runner, results: dict[str, Result | None], observer: Observer) -> dict[str, str]:
    """Carry the jobs out and fill in their results; the reasons of those that failed, by cell label."""
    failures: dict[str, str] = {}
    measured: set[str] = set()

    def tell(job: Job, event: Event) -> None:
        match event:
            case Measured(cost, advice) if job.cell.variant not in measured:
                measured.add(job.cell.variant)
                observer.network_measured(job.cell, cost, advice)
            case Started(resumed):
                observer.cell_starts(job.cell, job.folder, resumed)
            case Warned(text):
                observer.cell_warns(job.cell, text)
            case TrainingProgress():
                observer.cell_progresses(job.cell, event)
            case Result():
                results[job.cell.label] = event
                observer.cell_ends(job.cell, job.folder, event)
            case Failed(reason):
                failures[job.cell.label] = reason
                observer.cell_fails(job.cell, job.folder, reason)

    runner.run(jobs, tell)
    return failures


def _some_failed(failures: dict[str, str], cells: int) -> CellsFailedError:
    label, reason = next(iter(failures.items()))
    count = f"{len(failures)} of {cells} cells" if cells > 1 else "the cell"
    which = f"The first was {label}" if len(failures) > 1 else label
    return CellsFailedError(
        f"{count} failed. {which}: {reason.rstrip('.')}. Add --resume to continue what is not finished."
    )


def finished_result(cell: Cell, folder: Path) -> Result | None:
    """The result of a cell that was finished before; None if it is still to be trained.

    Raises:
        ConfigError: if the folder holds a cell with other settings.
    """
    earlier = read_cell(folder)
    if earlier is not None:
        before, now = earlier.model_dump(mode="json"), cell.model_dump(mode="json")
        moved = {**before, "data": section_in(folder, before["data"])}
        if now not in (before, moved):
            raise ConfigError(
                f"{folder} holds a training with other settings: its config.yaml differs in "
                f"{named_differences(moved, now)}. Choose another folder (--out)."
            )
    return read_result(folder)


def _with_earlier_seeds(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with the seeds that the folder has already, so that the report shows them all."""
    earlier = read_recipe(folder)
    seeds = [*(earlier.seeds if earlier else []), *recipe.seeds]
    return recipe.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
