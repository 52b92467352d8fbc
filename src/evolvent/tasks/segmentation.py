"""Semantic segmentation, one class for each pixel, as a Lightning module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassConfusionMatrix

from evolvent.data import Preprocess, random_crop, random_flip
from evolvent.tasks.image_task import ImageTask


class Segmentation(ImageTask):
    r"""Trains a network to tell the class of every pixel.

    .. math:: \ell = \Bigl(\sum_p w_{y_p}\Bigr)^{-1} \sum_p w_{y_p} \, \mathrm{CE}(f_\theta(x)_p, y_p)

    over the pixels :math:`p` of a batch that have a class, those of all processes together. The best model is the
    one of highest mIoU.

    Args:
        model: the network, (B, C, H, W) to (B, num_classes, H, W).
        preprocess: from uint8 images to what the network takes.
        num_classes: number of classes.
        ignore: label of pixels without a class.
        weights: :math:`w`, one number per class; by default all 1. See :mod:`evolvent.tasks.class_weights`.
        label_smoothing: share of each target spread over all classes.
        options: the rest, see :class:`~evolvent.tasks.image_task.ImageTask`.
    """

    score = "miou"
    weights: Tensor

    def __init__(
        self,
        model: nn.Module,
        preprocess: Preprocess,
        num_classes: int,
        *,
        ignore: int,
        weights: Tensor | None = None,
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(model, preprocess, segmentation_metrics(num_classes, ignore), **options)
        self.ignore = ignore
        self.label_smoothing = label_smoothing
        self.register_buffer("weights", torch.ones(num_classes) if weights is None else weights, persistent=False)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        weights = self.weights.to(logits.dtype)
        total = F.cross_entropy(
            logits, labels, weights, ignore_index=self.ignore, label_smoothing=self.label_smoothing, reduction="sum"
        )
        whole = self._mean_over_processes(weights[labels[self.is_labelled(labels)]].sum())
        return total / whole.clamp_min(torch.finfo(whole.dtype).tiny)  # without a single labelled pixel: zero

    def augment(self, images: Tensor, labels: Tensor, index: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        masks = random_crop(labels[:, None], self.pad, index, self.seed, epoch, fill=self.ignore)
        images = random_crop(images, self.pad, index, self.seed, epoch)
        if self.flip:
            images, masks = (random_flip(x, index, self.seed, epoch) for x in (images, masks))
        return images, masks[:, 0]

    def is_labelled(self, labels: Tensor) -> Tensor:
        return labels != self.ignore

    def update_metrics(self, logits: Tensor, labels: Tensor) -> None:
        update_metrics(self.metrics, logits, labels, self.ignore)

    def figures(self) -> dict[str, float]:
        found = PixelFigures.of(self.metrics["confusion"].compute())  # pyright: ignore[reportArgumentType]
        return {"loss": self.metrics["loss"].compute().item(), "accuracy": found.accuracy, "miou": found.miou}

    def _mean_over_processes(self, value: Tensor) -> Tensor:
        """So that gradients averaged over processes are those of one process with all the images."""
        alone = self._trainer is None or self.trainer.world_size == 1
        return value if alone else self.trainer.strategy.reduce(value.detach().clone(), reduce_op="mean")


@dataclass(frozen=True)
class PixelFigures:
    r"""What a confusion matrix :math:`N_{ij}` of pixels says: rows true, columns predicted.

    .. math:: \mathrm{IoU}_c = \frac{N_{cc}}{\sum_j N_{cj} + \sum_i N_{ic} - N_{cc}}

    mIoU is the mean over the classes that occur among the labels; IoU of others is None, and their accuracy 0.

    >>> found = PixelFigures.of(torch.tensor([[3, 1, 0], [0, 4, 0], [0, 0, 0]]))
    >>> found.accuracy, found.iou, found.miou
    (0.875, [0.75, 0.8, None], 0.775)
    """

    accuracy: float
    miou: float
    iou: list[float | None]
    per_class: list[float]

    @classmethod
    def of(cls, confusion: Tensor) -> PixelFigures:
        counts = confusion.double()
        hits, true, predicted = counts.diagonal(), counts.sum(1), counts.sum(0)
        occurs = true > 0
        iou = hits / (true + predicted - hits).clamp_min(1)
        return cls(
            accuracy=(hits.sum() / true.sum().clamp_min(1)).item(),
            miou=iou[occurs].mean().item() if occurs.any() else 0.0,
            iou=[share if there else None for share, there in zip(iou.tolist(), occurs.tolist(), strict=True)],
            per_class=(hits / true.clamp_min(1)).tolist(),
        )


def segmentation_metrics(num_classes: int, ignore: int) -> MetricCollection:
    """Loss and confusion matrix over the pixels that have a class."""
    confusion = MulticlassConfusionMatrix(num_classes, ignore_index=ignore, validate_args=False)
    return MetricCollection({"loss": MeanMetric(), "confusion": confusion}, compute_groups=False)


def update_metrics(metrics: MetricCollection, logits: Tensor, labels: Tensor, ignore: int) -> None:
    """Take a batch into account."""
    count = (labels != ignore).sum()
    total = F.cross_entropy(logits, labels, ignore_index=ignore, reduction="sum")
    metrics["loss"].update(total / count.clamp_min(1), weight=count)
    metrics["confusion"].update(logits.argmax(1), labels)
