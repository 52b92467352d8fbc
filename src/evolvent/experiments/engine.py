"""Trains and evaluates one cell of a grid, in its run folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from evolvent import analysis
from evolvent._core.errors import ConfigError
from evolvent._core.files import write_json
from evolvent._core.randomness import reseed
from evolvent.data import Batch, BatchLoader, ImageData, ImageSet, Preprocess, load, per_pixel_mean, reduced, split
from evolvent.evolution import set_gradient
from evolvent.experiments.checkpoints import LAST, AtomicCheckpointIO, LastCheckpoint
from evolvent.experiments.environment import environment
from evolvent.experiments.evaluation import evaluate, noise_accuracy
from evolvent.experiments.history import History, Stopwatch
from evolvent.experiments.observer import Observer
from evolvent.experiments.quiet import quiet_lightning
from evolvent.experiments.recipe import Cell, DataConfig
from evolvent.experiments.record import Cost, Result, read_record, write_config, write_evaluation, write_result
from evolvent.experiments.spectrum_record import SpectrumRecord
from evolvent.networks import create_model, list_models, model_entry, refine
from evolvent.networks import load as load_model
from evolvent.tasks.class_weights import class_weights
from evolvent.tasks.classification import Classification
from evolvent.tasks.image_task import ImageTask
from evolvent.tasks.multilevel import MultilevelSchedule, MultilevelTraining
from evolvent.tasks.segmentation import Segmentation

_MEMORY_FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
_SPLIT_SEED = 0  # splits stay the same over seeds, so that seeds differ in training alone


@dataclass(frozen=True)
class Resources:
    """Processes that share a training: devices (or CPU processes) per node, and nodes."""

    devices: int = 1
    nodes: int = 1

    @property
    def world_size(self) -> int:
        return self.devices * self.nodes


@dataclass(frozen=True)
class Splits:
    """The images of a cell: trained on, watched after each epoch, tested at the end."""

    train: ImageSet
    watched: ImageSet
    test: ImageSet
    held_out: bool  # whether watched are validation images, not the test images


def load_data(config: DataConfig, folder: Path | None = None) -> ImageData:
    """The images that a cell asks for, in the size it asks for."""
    return reduced(load(config.name, folder), config.reduce)


def make_splits(data: ImageData, config: DataConfig) -> Splits:
    """Cut off the held-out images, unless the set is published with some; keep the wanted fraction of the rest."""
    train, watched = data.train, data.val or data.test
    if config.validation and data.val:
        raise ConfigError(f"{data.name} has validation images of its own; leave data.validation at 0.")
    if config.validation:
        watched, train = split(train, config.validation, _SPLIT_SEED)
    if config.fraction < 1:
        train, _ = split(train, config.fraction, _SPLIT_SEED)
    return Splits(train, watched, data.test, held_out=watched is not data.test)


def build_model(cell: Cell, data: ImageData) -> nn.Module:
    """The cell's network for this data, initialised from the cell's seed."""
    channels, height, width = data.train.shape
    known = model_entry(cell.model.name).known_options()
    fitting = {"num_classes": len(data.classes), "in_channels": channels, "image_size": (height, width)}
    fitting["readout"] = cell.task.name
    if cell.task.name == "segmentation" and "readout" not in known:
        able = [name for name in list_models() if "readout" in model_entry(name).known_options()]
        raise ConfigError(f"{cell.model.name} gives no class per pixel; networks that do are {', '.join(able)}.")
    fitting = {key: value for key, value in fitting.items() if key in known}
    reseed(cell.seed)
    model = create_model(cell.model.name, **{**fitting, **cell.model.options})
    set_gradient(model, cell.training.gradient)
    return model.to(memory_format=_MEMORY_FORMATS[cell.training.memory_format])  # pyright: ignore[reportCallIssue]


def measure_cost(cell: Cell, data: ImageData) -> Cost:
    """Parameters, multiply-adds and activation memory of the cell's network, when refined, at its batch size."""
    model = build_model(cell, data)
    for _ in cell.training.refine_at:
        model = refine(model)
    probe = torch.zeros(2, *data.train.shape)
    return Cost(
        parameters=analysis.count_parameters(model),
        multiply_adds=analysis.count_multiply_adds(model, probe[0]),
        activation_bytes=analysis.activation_bytes(model, probe) * cell.data.batch_size // len(probe),
        batch_size=cell.data.batch_size,
        gradient=cell.training.gradient,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    )


def advise_on_steps(cell: Cell, data: ImageData, images: int = 8) -> str:
    """One line if steps of the cell's network are too large for its methods at the initial weights; else empty."""
    model, some = build_model(cell, data), data.train.images[:images]
    batch = Preprocess(per_pixel_mean(some))(some)
    update_bn([batch], model)  # initial statistics are none of the images'
    return analysis.step_advice(model, batch)


def check_cell(cell: Cell, data: ImageData, resources: Resources) -> None:
    """Find out now what would fail later: labels of another kind, batches that cannot be filled or shared."""
    train = make_splits(data, cell.data).train
    if train.has_masks != (cell.task.name == "segmentation"):
        wanted = "segmentation" if train.has_masks else "classification"
        raise ConfigError(f"{data.name} is a set for {wanted}, got task.name {cell.task.name}; change either.")
    if cell.task.class_weights and not train.has_masks:
        raise ConfigError("task.class_weights is for segmentation; leave it out.")
    if cell.training.refine_at and resources.world_size > 1:
        raise ConfigError(f"training.refine_at needs one process, got {resources.world_size}; leave either out.")
    BatchLoader(train, cell.data.batch_size, world_size=resources.world_size)


def run_cell(cell: Cell, data: ImageData, folder: Path, cost: Cost, resources: Resources, observer: Observer) -> Result:
    """Train, or go on training from the last checkpoint, then evaluate; every file appears whole."""
    splits = make_splits(data, cell.data)
    task = _make_task(cell, build_model(cell, data), splits)
    stopwatch = Stopwatch(cell.data.batch_size, lambda progress: observer.cell_progresses(cell, progress))
    history = History(folder, stopwatch)
    checkpoint = LastCheckpoint(folder, cell.training.checkpoint_steps)
    spectra = SpectrumRecord(folder)
    levels = MultilevelTraining(MultilevelSchedule(cell.training.level_epochs))
    last = folder / LAST
    if last.is_file():
        levels.catch_up(task, AtomicCheckpointIO().load_checkpoint(last))
    with quiet_lightning():
        trainer = _make_trainer(cell, resources, [levels, stopwatch, history, spectra, checkpoint])
        if trainer.is_global_zero:
            write_config(folder / "config.yaml", cell)
            found = environment(cell.seed, resources.devices, resources.nodes)
            write_json(folder / "environment.json", found)
        train, watched = _loaders(cell, splits, trainer)
        trainer.fit(task, train, watched, ckpt_path=last if last.is_file() else None, weights_only=True)
    return _conclude(cell, splits, folder, cost, trainer, history)


def _make_task(cell: Cell, model: nn.Module, splits: Splits) -> ImageTask:
    train = splits.train
    preprocess, classes = Preprocess(per_pixel_mean(train.images)), len(train.classes)
    options: dict[str, Any] = {
        "watched": "val" if splits.held_out else "test",
        "seed": cell.seed,
        "label_smoothing": cell.task.label_smoothing,
        "smoothness": cell.task.smoothness,
        "pad": cell.data.augment.pad,
        "flip": cell.data.augment.flip,
        "exposure": cell.data.augment.exposure,
        "optimizer": cell.optimizer,
        "schedule": cell.schedule,
    }
    if train.ignore is None:
        return Classification(model, preprocess, classes, **options)
    weights = class_weights(train, cell.task.class_weights) if cell.task.class_weights else None
    return Segmentation(model, preprocess, classes, ignore=train.ignore, weights=weights, **options)


def _make_trainer(cell: Cell, resources: Resources, callbacks: list[pl.Callback]) -> pl.Trainer:
    accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    return pl.Trainer(
        accelerator=accelerator,
        devices=resources.devices,
        num_nodes=resources.nodes,
        strategy="ddp" if resources.world_size > 1 else "auto",
        sync_batchnorm=accelerator == "gpu" and resources.world_size > 1,
        precision=cell.training.precision,
        max_epochs=cell.training.epochs,
        gradient_clip_val=cell.training.clip_norm,
        deterministic="warn" if accelerator == "gpu" else None,
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )


def _loaders(cell: Cell, splits: Splits, trainer: pl.Trainer) -> tuple[ResumedEpochs, BatchLoader]:
    rank, world = trainer.global_rank, trainer.world_size
    train = BatchLoader(splits.train, cell.data.batch_size, cell.seed, rank=rank, world_size=world)
    size = -(-cell.eval_batch_size // world) * world
    watched = BatchLoader(splits.watched, size, shuffle=False, drop_last=False, rank=rank, world_size=world)
    return ResumedEpochs(train, trainer), watched


class ResumedEpochs:
    """A training loader as the trainer sees it: each epoch begins at the batch where the trainer's counters stand."""

    def __init__(self, loader: BatchLoader, trainer: pl.Trainer) -> None:
        self.loader = loader
        self.trainer = trainer

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:  # a generator: it looks at the counters when the first batch is asked for
        done = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        self.loader.set_epoch(self.trainer.current_epoch, start_batch=done)
        yield from self.loader

    def state_dict(self) -> dict[str, int]:
        """Empty: the place is in the trainer's counters. It tells Lightning that this can resume inside an epoch."""
        return {}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Nothing to load; see :meth:`state_dict`."""


def _conclude(cell: Cell, splits: Splits, folder: Path, cost: Cost, trainer: pl.Trainer, history: History) -> Result:
    """Evaluate the kept model on the test images and write what the report needs; ``result.json`` last."""
    trainer.strategy.barrier()
    model = load_model(folder / "model").to(trainer.strategy.root_device)
    preprocess, levels = Preprocess.load(folder / "model"), cell.task.test_noise
    figures, evaluation = evaluate(model, preprocess, splits.test, cell.eval_batch_size)
    result = Result(
        classes=list(splits.test.classes),
        cost=cost,
        best_epoch=history.best_epoch,
        epochs=cell.training.epochs,
        steps=trainer.global_step,
        seconds=history.stopwatch.seconds,
        images_per_second=history.rows[-1]["images_per_second"],
        noise_accuracy=noise_accuracy(model, preprocess, splits.test, levels, cell.seed, cell.eval_batch_size),
        **figures,
    )
    if trainer.is_global_zero:
        write_evaluation(folder / "evaluation.npz", evaluation)
        write_result(folder / "result.json", result)
    trainer.strategy.barrier()
    return result


def evaluate_run(folder: Path, data_folder: Path | None = None) -> tuple[Cell, list[str], dict[str, Any]]:
    """Test the saved model of a run folder anew: its cell, the class names and the figures."""
    cell = read_record(folder).cell
    test = load_data(cell.data, data_folder).test
    model, preprocess = load_model(folder / "model"), Preprocess.load(folder / "model")
    figures, _ = evaluate(model, preprocess, test, cell.eval_batch_size)
    return cell, list(test.classes), figures
