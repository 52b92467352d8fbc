"""What all trainings on images share, as a Lightning module: augmentation, schedule, smoothness, counting."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torchmetrics import MetricCollection

from evolvent._core.randomness import reseed
from evolvent.data import Batch, Preprocess, random_exposure
from evolvent.networks.roughness import weight_roughness
from evolvent.tasks.nonfinite import check_finite
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer
from evolvent.tasks.schedules import ScheduleConfig, learning_rate_factor


class ImageTask(pl.LightningModule):
    r"""Trains a network on labelled images.

    .. math:: \min_\theta \; \mathbb E\, \ell(f_\theta(x), y)
              + \tfrac{\alpha_1}{2} \|K\|_F^2
              + \alpha_2 h \sum_j \bigl\| \tfrac{K_{j+1} - K_j}{h} \bigr\|_F^2

    Decay and smoothness are eq. 4.7 and 4.8 of Bohn, Griebel, Kannan 2021; subclasses say what :math:`\ell` is, how
    images and labels are moved about in training, and what is measured.
    Learning rate, dropout masks and augmentation are functions of the seed and the step alone, so a run that is stopped
    and resumed repeats an uninterrupted one bit by bit.

    Args:
        model: the network.
        preprocess: from uint8 images to what the network takes.
        metrics: what is measured on the watched split; see :meth:`figures`.
        watched: the split that is evaluated after each epoch.
        seed: the run's seed.
        smoothness: :math:`\alpha_2`.
        pad, flip: augmentation: random crop after zero padding, random horizontal flip.
        exposure: augmentation: light is changed by up to so many stops.
        optimizer, schedule: their configuration.
    """

    score: str
    """The figure by which the best model is chosen; larger is better."""

    def __init__(
        self,
        model: nn.Module,
        preprocess: Preprocess,
        metrics: MetricCollection,
        *,
        watched: Literal["val", "test"] = "test",
        seed: int = 0,
        smoothness: float = 0.0,
        pad: int = 0,
        flip: bool = False,
        exposure: float = 0.0,
        optimizer: OptimizerConfig | None = None,
        schedule: ScheduleConfig | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.preprocess = preprocess
        self.metrics = metrics
        self.watched = watched
        self.seed = seed
        self.smoothness = smoothness
        self.pad = pad
        self.flip = flip
        self.exposure = exposure
        self.optimizer_config = optimizer or OptimizerConfig()
        self.schedule_config = schedule or ScheduleConfig()
        self.training_sums = torch.zeros(3)  # loss, hits, labels of this epoch so far

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        r"""The mean of :math:`\ell` over a batch."""

    @abstractmethod
    def augment(self, images: Tensor, labels: Tensor, index: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Images and labels as training sees them in ``epoch``."""

    @abstractmethod
    def is_labelled(self, labels: Tensor) -> Tensor:
        """Which labels count."""

    @abstractmethod
    def update_metrics(self, logits: Tensor, labels: Tensor) -> None:
        """Take a batch of the watched split into account."""

    @abstractmethod
    def figures(self) -> dict[str, float]:
        """What was measured on the watched split: ``loss``, ``accuracy`` and perhaps more; :attr:`score` among them."""

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self.model, self.optimizer_config)

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> tuple[Tensor, Tensor]:
        if not self.trainer.training:
            return self.preprocess(batch.images), batch.labels
        epoch = self.trainer.current_epoch
        lit = random_exposure(batch.images, self.exposure, batch.index, self.seed, epoch)
        return self.augment(self.preprocess(lit), batch.labels, batch.index, epoch)

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
        loss = self.loss(logits, labels)
        self._count(loss.detach(), logits.detach(), labels)
        if self.smoothness:
            loss = loss + self.smoothness * weight_roughness(self.model)
        self._loss = loss
        return loss

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.trainer.precision != "16-mixed":  # there the gradient scaler looks for overflow and skips the step
            check_finite(self.model, self._loss, self.trainer.global_step)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        images, labels = batch
        self.update_metrics(self.model(images), labels)

    def on_validation_epoch_end(self) -> None:
        self.watched_figures = self.figures()
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
        count = self.is_labelled(labels).sum()
        hits = (logits.argmax(1) == labels).sum()
        self.training_sums = self.training_sums.to(loss.device)
        self.training_sums += torch.stack([loss * count, hits, count]).float()
