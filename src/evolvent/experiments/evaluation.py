"""Looks at a trained network: figures on the test images, its worst mistakes, one image's way through time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchmetrics import MetricCollection

from evolvent.data import BatchLoader, ImageSet, Preprocess, add_noise
from evolvent.experiments.record import Evaluation
from evolvent.networks import ImageNetwork
from evolvent.tasks import classification, segmentation
from evolvent.tasks.segmentation import PixelFigures

_WRONG_SHOWN, _CHANNELS_SHOWN, _MASKS_SHOWN = 36, 6, 6


@torch.no_grad()
def evaluate(
    model: nn.Module, preprocess: Preprocess, images: ImageSet, batch_size: int = 500
) -> tuple[dict[str, Any], Evaluation]:
    """Figures (accuracy, top5, loss, per_class; for masks also miou and iou) and arrays for pictures."""
    device = next(model.parameters()).device
    preprocess = preprocess.to(device)
    answers = _answers(model, preprocess, images, batch_size)
    if images.ignore is None:
        figures, pictures = _classes(answers, images)
    else:
        figures, pictures = _pixel_classes(answers, images, images.ignore)
    features, norms = _way_through_time(model, preprocess(images.images[:1].to(device)))
    return figures, Evaluation(image=images.images[0].numpy(), features=features, feature_norms=norms, **pictures)


@torch.no_grad()
def noise_accuracy(
    model: nn.Module,
    preprocess: Preprocess,
    images: ImageSet,
    levels: Sequence[float],
    seed: int = 0,
    batch_size: int = 500,
) -> dict[float, float]:
    """Accuracy on images with noise, by its standard deviation as a share of the pixel range; see :func:`add_noise`."""
    device = next(model.parameters()).device
    preprocess = preprocess.to(device)

    def right(level: float) -> Iterator[int]:
        for batch in BatchLoader(images, batch_size, shuffle=False, drop_last=False):
            said = model(preprocess(add_noise(batch.images.to(device), level, batch.index, seed))).argmax(1)
            yield int((said.cpu() == batch.labels).sum())

    return {level: sum(right(level)) / len(images) for level in levels}


def _answers(
    model: nn.Module, preprocess: Preprocess, images: ImageSet, batch_size: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Logits, labels and rows, batch by batch."""
    device = preprocess.mean.device
    for batch in BatchLoader(images, batch_size, shuffle=False, drop_last=False):
        yield model(preprocess(batch.images.to(device))), batch.labels.to(device), batch.index


def _classes(
    answers: Iterator[tuple[Tensor, Tensor, Tensor]], images: ImageSet
) -> tuple[dict[str, Any], dict[str, Any]]:
    metrics = classification.classification_metrics(len(images.classes))
    logits = []
    for batch, labels, _ in answers:
        logits.append(batch)
        classification.update_metrics(metrics.to(batch.device), batch, labels)
    found = _computed(metrics)
    figures: dict[str, Any] = {
        name: found[name].item() if name in found else None for name in ("accuracy", "top5", "loss")
    }
    figures["per_class"] = found["per_class"].tolist()
    wrong = _worst_mistakes(torch.cat(logits).float().softmax(1).cpu(), images)
    return figures, {"confusion": found["confusion"].numpy(), "image_label": int(images.labels[0]), **wrong}


def _pixel_classes(
    answers: Iterator[tuple[Tensor, Tensor, Tensor]], images: ImageSet, ignore: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    metrics = segmentation.segmentation_metrics(len(images.classes), ignore)
    shown = torch.linspace(0, len(images) - 1, min(_MASKS_SHOWN, len(images))).round().long()
    predictions = torch.empty(len(shown), *images.shape[1:], dtype=torch.uint8)
    for logits, labels, index in answers:
        segmentation.update_metrics(metrics.to(logits.device), logits, labels, ignore)
        place, row = (shown[:, None] == index).nonzero(as_tuple=True)
        predictions[place] = logits[row.to(logits.device)].argmax(1).byte().cpu()
    found = _computed(metrics)
    pixels = PixelFigures.of(found["confusion"])
    figures = {"accuracy": pixels.accuracy, "top5": None, "loss": found["loss"].item(), "per_class": pixels.per_class}
    figures |= {"miou": pixels.miou, "iou": pixels.iou}
    pictures = {
        "confusion": found["confusion"].numpy(),
        "image_label": -1,
        "shown_images": images.images[shown].numpy(),
        "shown_labels": images.labels[shown].numpy(),
        "shown_predictions": predictions.numpy(),
    }
    return figures, pictures


def _computed(metrics: MetricCollection) -> dict[str, Tensor]:
    return {name: metric.compute().cpu() for name, metric in metrics.items()}


def _worst_mistakes(probabilities: Tensor, images: ImageSet) -> dict[str, np.ndarray]:
    """The misclassified images of which the network was surest."""
    confidence, predicted = probabilities.max(1)
    wrong = (predicted != images.labels).nonzero()[:, 0]
    worst = wrong[confidence[wrong].argsort(descending=True, stable=True)][:_WRONG_SHOWN]
    return {
        "wrong_images": images.images[worst].numpy(),
        "wrong_labels": images.labels[worst].numpy(),
        "wrong_predictions": predicted[worst].numpy(),
        "wrong_confidences": confidence[worst].numpy(),
    }


def _way_through_time(model: nn.Module, image: Tensor) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Some channels of each evolution's features through time, and the features' norms."""
    if not isinstance(model, ImageNetwork):
        return [], []
    features, norms = [], []
    for trajectory in model.trajectories(image):
        in_time = torch.cat(trajectory).float().cpu()  # (times, C, H, W)
        shown = torch.linspace(0, in_time.shape[1] - 1, min(_CHANNELS_SHOWN, in_time.shape[1])).long()
        features.append(in_time[:, shown].numpy())
        norms.append(in_time.flatten(1).norm(dim=1).numpy())
    return features, norms
