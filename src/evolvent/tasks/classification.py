"""Image classification as a Lightning module."""

from __future__ import annotations

from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MeanMetric, Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

from evolvent._core.randomness import reseed
from evolvent.data import Batch, Preprocess, random_crop, random_flip
from evolvent.evolution import evolutions
from evolvent.tasks.nonfinite import check_finite
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer
from evolvent.tasks.schedules import ScheduleConfig, learning_rate_factor


class Classification(pl.LightningModule):
    r"""Trains a network to tell classes apart.

    .. math:: \min_\theta \; \mathbb E\, \mathrm{CE}(f_\theta(x), y)
              + \tfrac{\alpha_1}{2} \|K\|_F^2
              + \alpha_2 h \sum_j \bigl\| \tfrac{K_{j+1} - K_j}{h} \bigr\|_F^2

    with optional label smoothing; decay and smoothness are eq. 4.7 and 4.8 of Bohn, Griebel, Kannan 2021.
    Learning rate, dropout masks and augmentation are functions of the seed and the step alone, so a run that is stopped
    and resumed repeats an uninterrupted one bit by bit.

    Args:
        model: the network.
        preprocess: from uint8 images to what the network takes.
        num_classes: number of classes.
        watched: the split that is evaluated after each epoch.
        seed: the run's seed.
        label_smoothing: share of each target spread over all classes.
        smoothness: :math:`\alpha_2`.
        pad, flip: augmentation: random crop after zero padding, random horizontal flip.
        optimizer, schedule: their configuration.
    """

    def __init__(
        self,
        model: nn.Module,
        preprocess: Preprocess,
        num_classes: int,
        *,
        watched: Literal["val", "test"] = "test",
        seed: int = 0,
        label_smoothing: float = 0.0,
        smoothness: float = 0.0,
        pad: int = 0,
        flip: bool = False,
        optimizer: OptimizerConfig | None = None,
        schedule: ScheduleConfig | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.preprocess = preprocess
        self.watched = watched
        self.seed = seed
        self.label_smoothing = label_smoothing
        self.smoothness = smoothness
        self.pad = pad
        self.flip = flip
        self.optimizer_config = optimizer or OptimizerConfig()
        self.schedule_config = schedule or ScheduleConfig()
        self.metrics = classification_metrics(num_classes)
        self.training_sums = torch.zeros(3)  # loss, hits, images of this epoch so far

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self.model, self.optimizer_config)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> tuple[Tensor, Tensor]:
        images = self.preprocess(batch.images)
        if self.trainer.training:
            epoch = self.trainer.current_epoch
            images = random_crop(images, self.pad, batch.index, self.seed, epoch)
            images = random_flip(images, batch.index, self.seed, epoch) if self.flip else images
        return images, batch.labels

    def on_train_epoch_start(self) -> None:
        self.training_sums.zero_()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        step = self.trainer.global_step
        reseed(self.seed, step, self.global_rank)
        time = step / self.trainer.num_training_batches
        total = self.trainer.max_epochs or 1
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = self.optimizer_config.lr * learning_rate_factor(self.schedule_config, time, total)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        images, labels = batch
        logits = self.model(images)
        loss = F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        self._count(loss.detach(), logits.detach(), labels)
        if self.smoothness:
            loss = loss + self.smoothness * sum(evolution.roughness() for _, evolution in evolutions(self.model))
        self._loss = loss
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.trainer.precision != "16-mixed":  # there the gradient scaler looks for overflow and skips the step
            check_finite(self.model, self._loss, self.trainer.global_step)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        update_metrics(self.metrics, self.model(images), labels)

    def on_validation_epoch_end(self) -> None:
        self.watched_figures = {name: self.metrics[name].compute().item() for name in ("loss", "accuracy")}
        self.metrics.reset()

    def training_figures(self) -> dict[str, float]:
        """Mean loss and accuracy over this epoch's training batches so far, over all processes."""
        loss, hits, count = self.trainer.strategy.reduce(self.training_sums.clone(), reduce_op="sum").tolist()
        return {"loss": loss / max(count, 1), "accuracy": hits / max(count, 1)}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["training_sums"] = self.training_sums

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.training_sums = checkpoint["training_sums"]

    def _count(self, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        hits = (logits.argmax(1) == labels).sum()
        self.training_sums = self.training_sums.to(loss.device)
        self.training_sums += torch.stack([loss * len(labels), hits, torch.full_like(loss, len(labels))]).float()


def classification_metrics(num_classes: int) -> MetricCollection:
    """Loss, top-1, top-5 (with six classes or more), accuracy of each class, confusion matrix."""
    metrics: dict[str, Metric | MetricCollection] = {
        "loss": MeanMetric(),
        "accuracy": MulticlassAccuracy(num_classes, average="micro"),
        "per_class": MulticlassAccuracy(num_classes, average="none"),
        "confusion": MulticlassConfusionMatrix(num_classes),
    }
    if num_classes > 5:
        metrics["top5"] = MulticlassAccuracy(num_classes, top_k=5, average="micro")
    return MetricCollection(metrics, compute_groups=False)


def update_metrics(metrics: MetricCollection, logits: Tensor, labels: Tensor) -> None:
    """Take a batch into account."""
    for name, metric in metrics.items():
        if name == "loss":
            metric.update(F.cross_entropy(logits, labels), weight=len(labels))
        else:
            metric.update(logits, labels)
