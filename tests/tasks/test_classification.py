"""Metrics against plain counting, and the objective against its formula."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from evolvent import create_model, evolutions
from evolvent.data import Preprocess
from evolvent.tasks.classification import Classification, classification_metrics, update_metrics


@pytest.mark.parametrize("classes", [3, 10])
def test_metrics_equal_plain_counting(classes):
    logits, labels = torch.randn(200, classes), torch.randint(classes, (200,))
    metrics = classification_metrics(classes)
    for part in torch.arange(200).split(60):  # unequal batches
        update_metrics(metrics, logits[part], labels[part])
    found = {name: metric.compute() for name, metric in metrics.items()}
    predicted = logits.argmax(1)
    assert found["loss"].item() == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-6)
    assert found["accuracy"].item() == pytest.approx((predicted == labels).float().mean().item())
    for c in range(classes):
        assert found["per_class"][c].item() == pytest.approx((predicted[labels == c] == c).float().mean().item())
        assert found["confusion"][c].tolist() == torch.bincount(predicted[labels == c], minlength=classes).tolist()
    if classes > 5:
        hits = (logits.topk(5).indices == labels[:, None]).any(1).float().mean().item()
        assert found["top5"].item() == pytest.approx(hits)
    else:
        assert "top5" not in found


def test_the_objective_is_cross_entropy_with_smoothed_labels_plus_smoothness():
    model = create_model("hamiltonian", channels=(4,), blocks=3, image_size=8, in_channels=1)
    task = Classification(model, Preprocess(torch.zeros(1, 8, 8)), 10, label_smoothing=0.2, smoothness=0.3)
    images, labels = torch.randn(6, 1, 8, 8), torch.arange(6)
    loss = task.training_step((images, labels), 0)
    target = 0.8 * F.one_hot(labels, 10) + 0.02
    entropy = -(target * model(images).log_softmax(1)).sum(1).mean()
    [(_, evolution)] = evolutions(model)
    h, blocks = evolution.step_size, list(evolution.dynamics)
    rough = sum(
        ((p - q) / h).square().sum() * h
        for f, g in itertools.pairwise(blocks)
        for p, q in zip(f.parameters(), g.parameters(), strict=True)
    )
    torch.testing.assert_close(loss, entropy + 0.3 * rough)
