"""Counting right answers: sums of losses and hits, confusion of classes, and the figures made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def class_sums(answers: Tensor, classes: Tensor, loss: Tensor | None = None) -> dict[str, Tensor]:
    """Sum of the loss, number of right answers and number of all, without gradients.

    ``loss`` is the mean over the answers, if it is known already; else it is the cross-entropy.

    Shape: answers (B, classes), classes int64 (B,).
    """
    answers = answers.detach()
    return {
        "loss": F.cross_entropy(answers, classes, reduction="sum") if loss is None else loss.detach() * len(classes),
        "hits": (answers.argmax(1) == classes).sum(),
        "count": classes.new_tensor(len(classes)),
    }


def class_figures(sums: Mapping[str, Tensor]) -> dict[str, float]:
    """Mean loss and accuracy behind added-up sums.

    >>> class_figures({"loss": torch.tensor(3.0), "hits": torch.tensor(3), "count": torch.tensor(4)})
    {'loss': 0.75, 'accuracy': 0.75}
    """
    return {"loss": mean_loss(sums), "accuracy": (sums["hits"] / sums["count"].clamp_min(1)).item()}


def accuracy(answers: Tensor, classes: Tensor, where: Tensor | None = None) -> float:
    """Share of right answers, among those where a mask says so.

    Shape: answers (N, classes, ...); classes and where (N, ...).
    """
    right = answers.argmax(dim=1) == classes
    return (right if where is None else right[where]).double().mean().item()


def mean_loss(sums: Mapping[str, Tensor]) -> float:
    """The mean loss behind added-up measures."""
    return (sums["loss"] / sums["count"].clamp_min(1)).item()


def confusion_counts(predicted: Tensor, labels: Tensor, classes: int) -> Tensor:
    """How often each true class (row) was given each class (column).

    Shape: two integer tensors of one shape -> int64 (classes, classes).

    >>> confusion_counts(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    pairs = (labels * classes + predicted).flatten()
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


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
