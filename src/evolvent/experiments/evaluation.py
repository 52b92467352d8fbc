"""Looks at a trained network: figures on the test images, its worst mistakes, one image's way through time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent.data import BatchLoader, ImageSet, Preprocess
from evolvent.experiments.record import Evaluation
from evolvent.networks import ImageNetwork
from evolvent.tasks.classification import classification_metrics, update_metrics

_WRONG_SHOWN, _CHANNELS_SHOWN = 36, 6


@torch.no_grad()
def evaluate(
    model: nn.Module, preprocess: Preprocess, images: ImageSet, batch_size: int = 500
) -> tuple[dict[str, Any], Evaluation]:
    """Figures (accuracy, top5, loss, per_class) and arrays for pictures."""
    device = next(model.parameters()).device
    preprocess = preprocess.to(device)
    metrics = classification_metrics(len(images.classes)).to(device)
    logits = []
    for batch in BatchLoader(images, batch_size, shuffle=False, drop_last=False):
        logits.append(model(preprocess(batch.images.to(device))))
        update_metrics(metrics, logits[-1], batch.labels.to(device))
    found = {name: metric.compute().cpu() for name, metric in metrics.items()}
    figures = {name: found[name].item() if name in found else None for name in ("accuracy", "top5", "loss")}
    figures["per_class"] = found["per_class"].tolist()
    wrong = _worst_mistakes(torch.cat(logits).float().softmax(1).cpu(), images)
    features, norms = _way_through_time(model, preprocess(images.images[:1].to(device)))
    evaluation = Evaluation(
        confusion=found["confusion"].numpy(),
        image=images.images[0].numpy(),
        image_label=int(images.labels[0]),
        features=features,
        feature_norms=norms,
        **wrong,
    )
    return figures, evaluation


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
