"""The training loop: any task, resumable at any step to bitwise the same result, on one or several processes.

Everything random is a function of the seed and the step, so a checkpoint needs no generator's state: it holds the task,
the optimisers, the step, and what was measured so far.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from evolvent._core.errors import ConfigError, shortened
from evolvent._core.randomness import Stream, key, reseed
from evolvent._core.stopping import Stopped, asked_to_stop, is_listening, putting_off
from evolvent.data import Batches, Material
from evolvent.experiments.branches import last_good
from evolvent.experiments.checkpoints import read_checkpoint, write_checkpoint
from evolvent.experiments.health import Health
from evolvent.experiments.kept import KeptState
from evolvent.experiments.length import Pace, training_length
from evolvent.experiments.observer import Observer, TrainingProgress
from evolvent.experiments.recipe import Cell
from evolvent.experiments.record import check_still_there, write_metrics
from evolvent.experiments.spectra import SpectrumRecord
from evolvent.networks import refine
from evolvent.tasks import (
    Sums,
    Task,
    Turn,
    add_sums,
    check_turns,
    evaluating,
    learning_rate_factor,
    make_optimizer,
    mean_over_processes,
    needs_closure,
    to_device,
)
from evolvent.tasks.gauss_newton import ResidualBlock
from evolvent.tasks.multilevel import carry_state
from evolvent.tasks.nonfinite import check_finite
from evolvent.tasks.optimizers import LARGEST_RATE

_WRITE_SECONDS = 1.0  # least time between two checkpoints at the end of epochs
_WRITE_SHARE = 0.05  # of the time, at most, for checkpoints that take longer than a moment
_WRITTEN_PARTS = 50  # checkpoints on the way through the rows of a task without turns


class Training:
    """A task in training.

    Args:
        cell: what is trained, and how.
        task: with its network as it is initialised.
        material: what it is trained on.
        fabric: devices, processes and precision.
        folder: of the cell; metrics, the kept model and checkpoints are written there by the first process.
        tell: called with the progress at the end of each epoch, and inside epochs every ``tell_seconds`` at most.
        warn: called with a line that the user should see.
    """

    def __init__(
        self,
        cell: Cell,
        task: Task,
        material: Material,
        fabric: Fabric,
        folder: Path,
        tell: Callable[[TrainingProgress], None] = lambda progress: None,
        tell_seconds: float = Observer.interval,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        share = {"rank": fabric.global_rank, "world_size": fabric.world_size}
        self.cell, self.task, self.material = cell, task, material
        self.fabric, self.folder, self.tell = fabric, folder, tell
        self.batches = Batches(material.train, material.batch_size(cell.data.batch_size), cell.seed, **share)
        self.watched = watched_batches(cell, material, **share)
        self.length = training_length(cell, task, self.batches)
        self.step = 0
        self.sums: Sums = {}  # measures of this epoch's training batches so far
        self.rows: list[dict[str, float]] = []  # one per epoch
        self.kept = KeptState(task.figures[0], material.held_out and not task.chooses_best)
        self._watched_figures: dict[str, float] = {}  # after the last epoch
        self.ended = False
        self.stopped: dict[str, str] = {}  # turn -> why its optimiser could do no more
        self._nothing_left = False
        self.pace = Pace()
        self.spectra = SpectrumRecord(folder) if fabric.is_global_zero else None
        self._level = 0  # refinements of multilevel training so far
        self._tell_seconds, self._told, self._written = tell_seconds, -math.inf, -math.inf
        self._write_pause = _WRITE_SECONDS
        self._health = Health()
        self._resume(read_checkpoint(folder, warn))

    def run(self) -> None:
        """Train to the end; what was trained before is not trained again."""
        with putting_off():
            while not self.ended:
                if not self._evaluation_is_due():
                    self._refine_if_due()
                    self.task.train()
                    self._train_epoch()
                self._end_epoch()
                self._stop_if_asked()
        self.fabric.barrier()

    def _evaluation_is_due(self) -> bool:
        """Whether a training that was stopped at the last step of an epoch goes on with the end of that epoch."""
        if not self.step or len(self.rows) >= self.length.epoch(self.step):
            return False
        return self.step == self.length.epoch_end(self.step - 1)

    def _stop_if_asked(self) -> None:
        """Write a checkpoint and stop if one of the processes was asked to; all of them agree."""
        if self.ended or not is_listening():
            return
        asked = asked_to_stop()
        if self.fabric.world_size > 1:
            everywhere = torch.tensor(asked, device=self.fabric.device)
            asked = int(cast(Tensor, self.fabric.all_reduce(everywhere, reduce_op="max")))
        if asked:
            self._write()
            self.fabric.barrier()
            raise Stopped(asked, checkpoint=True)

    def _train_epoch(self) -> None:
        end, every = self.length.epoch_end(self.step), self.cell.training.checkpoint_steps
        if not self.turns:
            every = every or -(-end // _WRITTEN_PARTS)
        self.pace.start_lap()
        while self.step < end:
            if self.turns:
                self._train_step()
            else:
                self._measure_step()
            self.step += 1
            now = self.pace.end_step()
            if now - self._told >= self._tell_seconds:
                self._tell(self._training_figures(self.sums))  # this process's own
            if self._nothing_left or self._out_of_time():
                break
            self._stop_if_asked()
            if every and self.step % every == 0 and self.step < end:
                self._write()
                self.pace.start_lap()

    def _train_step(self) -> None:
        batch = to_device(self.batches.at(self.step), self.fabric.device)
        self._counted: set[str] = set()  # measures of this step that were added up
        for turn, optimizer in zip(self.turns, self.optimizers, strict=True):
            if turn.acts(self.step):
                self._take_turn(turn, optimizer, batch)

    def _measure_step(self) -> None:
        """A step of a task without turns: every row is measured once."""
        batch = self.batches.piece(self.step)
        if batch is not None:
            reseed(*key(Stream.STEP, self.cell.seed, self.step, self.fabric.global_rank))
            with evaluating(self.task), self.fabric.strategy.precision.forward_context():
                add_sums(self.sums, self.task.measure(self.task.placed(batch)))

    def _take_turn(self, turn: Turn, optimizer: Any, batch: Any) -> None:
        rate = min(turn.optimizer.lr * self._rate_factor(turn), LARGEST_RATE)
        for group in optimizer.param_groups:
            group["lr"] = rate
        for name in turn.objectives or (turn.name,):
            self._descend(name, optimizer, batch)
        if reason := getattr(optimizer.optimizer, "stopped", ""):
            self.stopped[turn.name] = reason
            self._nothing_left |= self.task.optimizer_stops(turn.name, reason)

    def _descend(self, name: str, optimizer: Any, batch: Any) -> None:
        """One step of an optimiser on the objective of that name."""

        def gradient() -> Tensor:
            """The objective with its gradient; of each measure the first one of a step is counted."""
            reseed(*key(Stream.STEP, self.cell.seed, self.step, self.fabric.global_rank))
            with self.fabric.strategy.precision.forward_context():  # else float64 objectives are rounded to float32
                objective, sums = self.module(batch, name)
            for parameter in self._parameters:
                parameter.grad = None
            self.fabric.backward(objective)
            self._check_gradient(objective, optimizer)
            add_sums(self.sums, {label: value for label, value in sums.items() if label not in self._counted})
            self._counted |= sums.keys()
            return objective

        if getattr(optimizer.optimizer, "needs_residuals", False):
            optimizer.optimizer.step(gradient, lambda: self._residuals(batch, name))  # Fabric's step takes no more
        elif needs_closure(optimizer.optimizer):
            optimizer.step(lambda: mean_over_processes(gradient()))  # line searches must agree
        else:
            gradient()
            optimizer.step()

    def _residuals(self, batch: Any, name: str) -> Sequence[ResidualBlock]:
        """Of the objective of that name."""
        if self.fabric.world_size > 1:
            raise ConfigError("gauss-newton runs in one process: all residuals are needed in one place.")
        reseed(*key(Stream.STEP, self.cell.seed, self.step, self.fabric.global_rank))
        with self.fabric.strategy.precision.forward_context():
            return self.task.residuals(batch, name)

    def _check_gradient(self, objective: Tensor, optimizer: Any) -> None:
        limit = self.cell.training.clip_norm
        if limit is not None:
            norm = self.fabric.clip_gradients(self.module, optimizer, max_norm=limit, error_if_nonfinite=False)
        else:
            norm = get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        if self.cell.training.precision != "16-mixed":  # there the gradient scaler looks for overflow and skips a step
            check_finite(self.task, objective, self.step, norm, self._step_to_go_on_from)
        self._health.add(objective.detach())

    def _step_to_go_on_from(self) -> int | None:
        """Of the checkpoint that a run with another learning rate takes; None if there is none."""
        found = last_good(self.folder)
        return found[1] if found else None

    def _rate_factor(self, turn: Turn) -> float:
        """Factor of the learning rate, over the turn's own time in epochs."""
        end = turn.until if turn.until is not None else self.length.expected_steps(self.step, self.pace.used)
        epochs = ((step - turn.since) / self.length.epoch_steps for step in (self.step, end))
        return learning_rate_factor(turn.schedule, *epochs)

    def _end_epoch(self) -> None:
        began = time.perf_counter()
        added = self._added_up()
        measured = self._measured(self.watched) if self.turns else added
        self.pace.evaluation = time.perf_counter() - began
        trained, watched = self._training_figures(added), self.task.figures_of(measured)
        self.sums = {} if self.turns else self.sums
        self.rows.append(self._row(trained, watched))
        self._watched_figures = self._shown(watched)
        self.ended = self.task.epoch_ends(measured) or self._is_over()
        self.kept.consider(len(self.rows), watched[self.kept.score.name], last=self.ended)
        self.ended |= self.kept.out_of_patience(len(self.rows), self.cell.training.patience)
        self._tell(trained, epoch_ends=True)
        if self.spectra:
            self.spectra.record(self.task, len(self.rows))
        if self.ended or time.perf_counter() - self._written > self._write_pause:
            self._write()
        else:
            self.kept.copy(self.task)

    def _row(self, trained: dict[str, float], watched: dict[str, float]) -> dict[str, float]:
        part = "val" if self.material.held_out else "test"
        row: dict[str, float] = {"epoch": len(self.rows) + 1, "step": self.step}
        for turn, optimizer in zip(self.turns, self.optimizers, strict=True):
            row["lr" if turn is self.turns[0] else f"lr_{turn.name}"] = optimizer.param_groups[0]["lr"]
        row |= {f"train_{name}": value for name, value in trained.items() if self.turns}
        row |= {f"{part}_{name}": value for name, value in self._shown(watched).items()}
        return row | {"rows_per_second": self.rows_per_second, "seconds": self.pace.trained}

    def _measured(self, batches: Batches) -> Sums:
        """Measures of all rows of a source, each process measuring its share."""
        with self.fabric.strategy.precision.forward_context():
            sums = self.task.add_up(batches)
        return self._over_processes(sums) if batches.sharers > 1 else sums

    def _shown(self, values: dict[str, float]) -> dict[str, float]:
        """Those of the task's figures that are there and shown, in the task's order."""
        return {f.name: values[f.name] for f in self.task.figures if f.shown and f.name in values}

    def _training_figures(self, sums: Sums) -> dict[str, float]:
        return self._shown(self.task.figures_of(sums)) if sums else {}

    def _added_up(self) -> Sums:
        """Measures of this epoch's training batches over all processes."""
        return self._over_processes(self.sums) if self.batches.sharers > 1 else self.sums

    def _over_processes(self, sums: Sums) -> Sums:
        copies = {name: value.clone() for name, value in sums.items()}  # sums are made in place
        return cast(Sums, self.fabric.all_reduce(copies, reduce_op="sum"))

    def _of_processes(self) -> list[Sums]:
        """Measures of this epoch's training batches, process by process; none if there is one process."""
        if self.fabric.world_size == 1:
            return []
        gathered: list[Any] = [None] * self.fabric.world_size
        torch.distributed.all_gather_object(gathered, to_device(self.sums, torch.device("cpu")))
        return gathered

    def _is_over(self) -> bool:
        if self._nothing_left:
            return True
        if self.length.steps is not None:
            return self.step >= self.length.steps
        return bool(self.rows) and self._out_of_time()

    def _out_of_time(self) -> bool:
        """Whether the rest of a budget is needed for the evaluations at the end; all processes agree."""
        budget = self.length.budget
        if budget is None:
            return False
        over = torch.tensor(self.pace.used + self._cost_of_end() >= budget)
        return bool(self.fabric.broadcast(over)) if self.fabric.world_size > 1 else bool(over)

    def _cost_of_end(self) -> float:
        """Seconds for the last evaluation after an epoch and for the test, estimated from what was measured."""
        ends = len(self.material.watched) + len(self.material.test)
        if self.pace.evaluation:
            return self.pace.evaluation * ends / len(self.material.watched)
        return ends / self.batches.size * self.pace.step_seconds / 2

    @property
    def rows_per_second(self) -> float:
        """Over the steps of this process."""
        return self.batches.size / self.pace.step_seconds

    def _tell(self, figures: dict[str, float], epoch_ends: bool = False) -> None:
        self._told = time.perf_counter()
        if self.length.steps is not None:
            left = (self.length.steps - self.step) * self.pace.step_seconds
        else:
            left = max(0.0, (self.length.budget or 0.0) - self.pace.used)
        progress = TrainingProgress(
            step=self.step,
            steps=self.length.steps,
            epoch=self.length.epoch(self.step),
            epochs=self.length.epochs,
            figures=figures,
            rows=self.material.rows,
            rows_per_second=self.rows_per_second,
            seconds_left=left,
            share_done=self.length.share_done(self.step, self.pace.used),
            epoch_ends=epoch_ends,
            watched=self._watched_figures,
        )
        self.tell(progress)

    def _set_up(self) -> None:
        """Make the optimisers of all turns and place everything on its device, for the network as it is now."""
        self.turns = self.task.turns(self.length.plan)
        check_turns(self.turns)
        if not self.turns:
            self.module, self.optimizers = self.task.to(self.fabric.device), []
            return
        if self.fabric.device.type == "cuda" and self.fabric.world_size > 1:
            self.task.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.task.model)
        made = [make_optimizer(turn.parameters, turn.optimizer) for turn in self.turns]
        self.module, *self.optimizers = self.fabric.setup(self.task, *made)
        self._parameters = list(self.task.parameters())  # found once: looking for them takes longer than a small step

    def _refine_if_due(self) -> None:
        """Multilevel training: refine the network at the beginning of an epoch, and carry the momenta over."""
        due = sum(mark * self.length.epoch_steps <= self.step for mark in self.cell.training.refine_at)
        while self._level < due:
            if self.fabric.world_size > 1:
                raise ConfigError("training.refine_at needs one process, since it adds parameters. Leave either out.")
            self._write()
            old, [old_optimizer] = self.task.model, self.optimizers
            self.task.model = refine(old)
            self._set_up()
            carry_state(old, old_optimizer.optimizer, self.task.model, self.optimizers[0].optimizer)
            self._level += 1

    def _resume(self, state: dict[str, Any] | None) -> None:
        for _ in range(state["level"] if state else 0):
            self.task.model = refine(self.task.model)
            self._level += 1
        self._set_up()
        if state is None:
            if self.spectra:
                self.spectra.start(self.task)
            return
        try:
            self.task.load_state_dict(state["task"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        except (RuntimeError, ValueError, KeyError) as error:
            raise ConfigError(
                f"the checkpoint in {self.folder} is of another network or optimiser: {shortened(str(error), 120)} "
                "Choose another --out to start again."
            ) from None
        if state["precision"]:
            self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.sums = to_device(self._own_sums(state), self.fabric.device)
        self.step, self.rows, self.ended = state["step"], state["rows"], state["ended"]
        self.stopped = dict(state.get("stopped", {}))
        self._health = Health(state.get("first_objective"), bool(state.get("exploding")))
        self.kept.load(state)
        self.pace = Pace(state["used"], state["trained"])
        if self.spectra:
            self.spectra.resume(len(self.rows))

    def _own_sums(self, state: dict[str, Any]) -> Sums:
        """This process's measures, so that they are added up in the same order as without an interruption."""
        each = state.get("sums_of_processes") or []
        if len(each) == self.fabric.world_size:
            return dict(each[self.fabric.global_rank])
        alone = self.fabric.is_global_zero or self.batches.sharers == 1
        return dict(state["sums"]) if alone else {}  # all measures, which one process brings into the sum

    def _write(self) -> None:
        """Write metrics, the kept model if it changed, and a checkpoint, in this order."""
        began = time.perf_counter()
        sums, each = self._added_up(), self._of_processes()
        if self.fabric.is_global_zero:
            check_still_there(self.folder)
            if self.rows:
                write_metrics(self.folder / "metrics.csv", self.rows)
            self.kept.write(self.task, self.folder / "model")
            exploded = self._health.exploding
            state = self._state(sums) | self._health.state() | {"sums_of_processes": each}
            write_checkpoint(self.folder, state, overwrite=exploded)
        self.kept.written()
        self._written = time.perf_counter()
        self._write_pause = max(_WRITE_SECONDS, (self._written - began) / _WRITE_SHARE)

    def _state(self, sums: Sums) -> dict[str, Any]:
        return {
            "step": self.step,
            "task": self.task.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "precision": self.fabric.strategy.precision.state_dict(),
            "sums": sums,
            "ended": self.ended,
            "stopped": self.stopped,
            "rows": self.rows,
            **self.kept.state(),
            "used": self.pace.used,
            "trained": self.pace.trained,
            "level": self._level,
        }


def watched_batches(cell: Cell, material: Material, rank: int = 0, world_size: int = 1) -> Batches:
    """The watched rows in batches that can be shared by the processes."""
    size = cell.data.rows_evaluated
    if material.watched.shareable and world_size > len(material.watched):
        raise ConfigError(f"{len(material.watched)} watched rows cannot be shared by {world_size} processes.")
    whole = len(material.watched) if size is None else size
    return Batches(material.watched, -(-whole // world_size) * world_size, cell.seed, rank, world_size)
