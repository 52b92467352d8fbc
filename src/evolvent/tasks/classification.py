"""Image classification as a Lightning module."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MeanMetric, Metric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

from evolvent.data import Preprocess, random_crop, random_flip
from evolvent.tasks.image_task import ImageTask


class Classification(ImageTask):
    r"""Trains a network to tell classes apart: :math:`\ell` is the cross entropy, with optional label smoothing.

    Args:
        model: the network.
        preprocess: from uint8 images to what the network takes.
        num_classes: number of classes.
        label_smoothing: share of each target spread over all classes.
        options: the rest, see :class:`~evolvent.tasks.image_task.ImageTask`.
    """

    score = "accuracy"

    def __init__(
        self,
        model: nn.Module,
        preprocess: Preprocess,
        num_classes: int,
        *,
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(model, preprocess, classification_metrics(num_classes), **options)
        self.label_smoothing = label_smoothing

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)

    def augment(self, images: Tensor, labels: Tensor, index: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        images = random_crop(images, self.pad, index, self.seed, epoch)
        return random_flip(images, index, self.seed, epoch) if self.flip else images, labels

    def is_labelled(self, labels: Tensor) -> Tensor:
        return torch.ones_like(labels, dtype=torch.bool)

    def update_metrics(self, logits: Tensor, labels: Tensor) -> None:
        update_metrics(self.metrics, logits, labels)

    def figures(self) -> dict[str, float]:
        return {name: self.metrics[name].compute().item() for name in ("loss", "accuracy")}


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
