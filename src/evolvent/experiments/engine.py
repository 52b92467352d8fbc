"""Trains and evaluates one cell of a grid in its folder, whatever its task."""

from __future__ import annotations

import atexit
import gc
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

from evolvent import analysis
from evolvent._core.checks import explaining_misfits
from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent._core.randomness import Stream, key, reseed
from evolvent.analysis.cost import on_a_copy
from evolvent.data import Batches, Material
from evolvent.evolution import set_gradient
from evolvent.experiments.branches import note_divergence
from evolvent.experiments.checkpoints import remove_checkpoints
from evolvent.experiments.data_record import data_record, refuse_changed_data
from evolvent.experiments.environment import environment
from evolvent.experiments.length import training_length
from evolvent.experiments.observer import Observer
from evolvent.experiments.peers import end_with_children, noticing_lost_peers
from evolvent.experiments.quiet import quiet_lightning
from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import (
    Cost,
    Result,
    check_still_there,
    metrics_digest,
    write_config,
    write_findings,
    write_result,
    write_run_json,
)
from evolvent.experiments.starting import start_from
from evolvent.experiments.training import Training, watched_batches
from evolvent.networks import create_model, model_entry, refine
from evolvent.tasks import Task, check_turns, make_optimizer

_MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
_LEFT_OUT = 0.1  # share of rows that incomplete batches may leave out without a warning
_LONGEST_TEST = timedelta(hours=6)  # one process tests while the others wait


@dataclass(frozen=True)
class Resources:
    """Processes that share a training: devices (or CPU processes) per node, and nodes."""

    devices: int = 1
    nodes: int = 1

    @property
    def world_size(self) -> int:
        return self.devices * self.nodes


class DataShelf:
    """Data sets that were read, so that cells with the same data section share them."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._found: dict[str, Any] = {}

    def material(self, cell: Cell) -> Material:
        """What a cell is trained on."""
        key = cell.task.name + json.dumps(cell.data.model_dump(mode="json"), sort_keys=True)
        if key not in self._found:
            self._found[key] = cell.kind.read(cell.data, self.folder)
        return cell.kind.material(self._found[key], cell.data, cell.seed)


@dataclass(frozen=True)
class Prepared:
    """A cell that is ready to be trained: its network is built and known to fit."""

    cell: Cell
    material: Material
    task: Task


def prepare(cell: Cell, material: Material, resources: Resources) -> Prepared:
    """Build a cell's network and task, and find out now what would fail later.

    Raises:
        ConfigError: if the network does not suit the task, batches cannot be filled or shared, or turns conflict.
    """
    if cell.training.refine_at and resources.world_size > 1:
        raise ConfigError(f"training.refine_at needs one process, got {resources.world_size}; leave either out.")
    if cell.training.patience and not material.held_out:
        raise ConfigError("training.patience needs rows that are held out to watch; add a validation part to the data.")
    batches = Batches(material.train, material.batch_size(cell.data.batch_size), world_size=resources.world_size)
    watched_batches(cell, material, world_size=resources.world_size)
    task = cell.kind(build_model(cell, material), material, cell.setup)
    start_from(task.model, cell.model)
    check_turns(turns := task.turns(training_length(cell, task, batches).plan))
    for turn in turns:
        make_optimizer(_as_trained(turn.parameters, cell), turn.optimizer)  # its error says what does not go together
    if turns:
        batches.check_training()
    if cell.training.refine_at:
        if len(turns) > 1:
            raise ConfigError(f"training.refine_at needs a task with one optimiser, got {len(turns)}; leave it out.")
        refine(task.model)  # its error says why a network cannot be refined
    return Prepared(cell, material, task)


def _as_trained(parameters: Iterable[nn.Parameter], cell: Cell) -> list[nn.Parameter]:
    """In the precision of the training, on which the size of an optimiser's matrices depends."""
    if cell.training.precision != "64-true":
        return list(parameters)
    return [nn.Parameter(p.detach().double(), p.requires_grad) for p in parameters]


def build_model(cell: Cell, material: Material) -> nn.Module:
    """The cell's network for this data, initialised from the cell's seed."""
    if not cell.model.name:
        raise ConfigError(f"{cell.recipe} starts from a trained network. Say which: --set from=RUN.")
    known = model_entry(cell.model.name).known_options()
    cell.kind.check_model(cell.model.name, known)
    fitting = {key: value for key, value in material.options.items() if key in known}
    _check_classes(cell, material.options.get("num_classes"))
    reseed(*key(Stream.WEIGHTS, cell.seed))
    model = create_model(cell.model.name, **{**fitting, **cell.model.options})
    set_gradient(model, cell.training.gradient)
    return model.to(memory_format=_MEMORY_FORMATS[cell.training.memory_format])  # pyright: ignore[reportCallIssue]


def _check_classes(cell: Cell, needed: int | None) -> None:
    given = cell.model.options.get("num_classes")
    if isinstance(given, int) and needed is not None and given < needed:
        raise ConfigError(
            f"model.options.num_classes is {given}, but the data has {needed} classes. Leave it out; the data decides."
        )


def measure_cost(ready: Prepared) -> Cost:
    """Parameters, multiply-adds and activation memory of the cell's network, when refined, at its batch size."""
    cell, model = ready.cell, ready.task.model
    for _ in cell.training.refine_at:
        model = refine(model)
    batches = Batches(ready.material.train, ready.material.batch_size(cell.data.batch_size), cell.seed)
    batch_size, some = batches.size, _rows_to_measure(ready, batches)
    with explaining_misfits(f"the network {cell.model.name}", some):
        products = None if some is None else analysis.count_multiply_adds(model, some[0])
        activations = None if some is None else analysis.activation_bytes(model, some) * batch_size // len(some)
    return Cost(
        parameters=analysis.count_parameters(model),
        multiply_adds=products,
        activation_bytes=activations,
        batch_size=batch_size,
        gradient=cell.training.gradient,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    )


def _rows_to_measure(ready: Prepared, batches: Batches) -> Tensor | None:
    """Two rows; the first batch of the training for networks that make a graph of it, which two rows would not tell."""
    example = ready.material.example
    if example is None or len(example) < 2:
        return None
    rows = batches.at(0)[0] if getattr(ready.task.model, "couples_batch", False) else example[:2]
    return rows.clone()  # a view would count as a whole


def advise_on_steps(ready: Prepared) -> str:
    """One line if steps of the cell's network are too large for its methods at the initial weights; else empty."""
    example = ready.material.example
    if example is None:
        return ""

    def advice(twin: nn.Module) -> str:
        update_bn([example], twin)  # the initial statistics are not those of the data
        return analysis.step_advice(twin, example)

    return on_a_copy(ready.task.model, advice)


def advise_on_data(ready: Prepared) -> list[str]:
    """Lines on the user's own data: classes that cannot be learned, and rows that batches leave out."""
    material, wanted = ready.material, ready.cell.data.batch_size
    if not material.fingerprint:
        return []
    return [line for line in (material.warning, _advise_on_batches(material, wanted)) if line]


def _advise_on_batches(material: Material, wanted: int | None) -> str:
    batches = Batches(material.train, material.batch_size(wanted))
    total, size, rows = len(material.train), batches.size, material.rows
    if wanted is not None and wanted > total:
        return (
            f"{total} {rows} do not fill a batch of {wanted}, so that each step takes all of them; a smaller "
            "data.batch_size makes more steps"
        )
    if total % size <= _LEFT_OUT * total:
        return ""
    better = max(range(max(1, size // 2), size + 1), key=lambda other: (-(total % other), other))
    return (
        f"batches of {size} leave {total % size} of {total} {rows} out of each epoch, others each time; "
        f"data.batch_size={better} leaves out {total % better}"
    )


def run_cell(
    ready: Prepared, folder: Path, cost: Cost, resources: Resources | None = None, observer: Observer | None = None
) -> Result:
    """Train, or go on training from the last checkpoint, then evaluate; every file appears whole."""
    cell, material, task = ready.cell, ready.material, ready.task
    resources, observer = resources or Resources(), observer or Observer()
    with quiet_lightning(), noticing_lost_peers(resources.world_size):
        plan = training_length(cell, task, Batches(material.train, material.batch_size(cell.data.batch_size))).plan
        fabric = _make_fabric(cell, resources, several_turns=len(task.turns(plan)) > 1)
        refuse_changed_data(folder, material)
        if fabric.is_global_zero:
            write_config(folder / "config.yaml", cell)
            found = environment(cell.seed, resources.devices, resources.nodes)
            write_run_json(folder / "environment.json", {**found, "data": data_record(material)})
        training = Training(
            cell,
            task,
            material,
            fabric,
            folder,
            tell=lambda progress: observer.cell_progresses(cell, progress),
            tell_seconds=observer.interval,
            warn=lambda text: observer.cell_warns(cell, text),
        )
        try:
            training.run()
        except NonFiniteError as error:
            if fabric.is_global_zero:
                note_divergence(folder, str(error))
            raise
        return _conclude(training, cost)


def _make_fabric(cell: Cell, resources: Resources, several_turns: bool) -> Fabric:
    shared = DDPStrategy(timeout=_LONGEST_TEST, find_unused_parameters=several_turns)
    fabric = Fabric(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=resources.devices,
        num_nodes=resources.nodes,
        strategy=shared if resources.world_size > 1 else "auto",
        precision=cell.training.precision,
    )
    end_with_children()
    fabric.launch()
    if fabric.device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
    if resources.world_size > 1:
        atexit.unregister(_close_connection)
        atexit.register(_close_connection)
    return fabric


def _close_connection() -> None:
    """Close the connection between processes: its threads would end an interpreter that they outlive with an error."""
    if torch.distributed.is_initialized():
        gc.collect()  # networks in circles of references keep the connection open
        torch.distributed.destroy_process_group()


def _conclude(training: Training, cost: Cost) -> Result:
    """Test the kept model in one process and write what was found; ``result.json`` last."""
    cell, task, material, folder = training.cell, training.task, training.material, training.folder
    found: list[Result] = []
    if training.fabric.is_global_zero:
        task.load_kept(folder / "model")
        task.totals = None if training.turns else training.sums
        findings = task.conclude(Batches(material.test, cell.data.rows_evaluated, cell.seed))
        result = Result(
            figures=dict(findings.figures),
            kinds=list(task.figures),
            cost=cost,
            rows=material.rows,
            best_epoch=training.kept.epoch,
            epochs=len(training.rows),
            steps=training.step,
            seconds=training.pace.trained,
            rows_per_second=training.rows[-1]["rows_per_second"],
            samples={name: list(values) for name, values in findings.samples.items()},
            stopped=training.stopped,
            metrics_sha256=metrics_digest(folder),
        )
        check_still_there(folder)
        write_findings(folder, findings)
        write_result(folder, result)
        if not cell.training.keep_checkpoint:
            remove_checkpoints(folder)
        found.append(result)
    [result] = training.fabric.broadcast(found)
    return result
