"""Figures against plain counting, the objective against its formula, augmentation of image and mask together."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import jaccard_score
from torch import nn
from torch.nn import functional as F

from evolvent.data import ImageBatch, ImageSet, ImageSource, Material, random_exposure, random_rotation
from evolvent.tasks import OptimizerConfig, ScheduleConfig, Setup, add_sums
from evolvent.tasks.accuracy import PixelFigures
from evolvent.tasks.images import AugmentConfig
from evolvent.tasks.segmentation import (
    Segmentation,
    SegmentationDataSettings,
    SegmentationSettings,
    class_weights,
)

CLASSES, IGNORE = 4, 9


def batch(count: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels, of which some have no class and none is the last class."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count, 5, 7), generator=draw)
    labels[labels == CLASSES - 1] = IGNORE
    return torch.randn(count, CLASSES, 5, 7, generator=draw), labels


def make_task(weights: torch.Tensor | None = None, label_smoothing: float = 0.0, **augment) -> Segmentation:
    black = ImageSet(torch.zeros(2, 1, 5, 7, dtype=torch.uint8), batch(2)[1].byte(), tuple("abcd"), ignore=IGNORE)
    source = ImageSource(black)
    settings = SegmentationSettings(label_smoothing=label_smoothing)
    data = SegmentationDataSettings(name="random", augment=AugmentConfig(**augment))
    setup = Setup(settings, data, OptimizerConfig(), ScheduleConfig(), seed=3)
    task = Segmentation(nn.Conv2d(1, CLASSES, 1), Material("random", source, source, source), setup)
    if weights is not None:
        task.weights = weights
    return task


@given(st.integers(0, 50))
def test_figures_equal_those_of_scikit_learn(seed):
    logits, labels = batch(seed=seed)
    task, total = make_task(), {}
    for rows in torch.arange(6).split(4):  # unequal batches
        add_sums(total, task.sums(logits[rows], labels[rows]))
    known = labels != IGNORE
    true, predicted = labels[known].numpy(), logits.argmax(1)[known].numpy()
    found = PixelFigures.of(total["confusion"])
    iou = jaccard_score(true, predicted, labels=range(CLASSES - 1), average=None, zero_division=0)
    assert found.iou == [*(pytest.approx(share) for share in iou), None]
    assert found.per_class[:3] == [pytest.approx((predicted[true == c] == c).mean()) for c in range(3)]
    figures = task.figures_of(total)
    assert figures["miou"] == pytest.approx(iou.mean())
    assert figures["accuracy"] == pytest.approx((true == predicted).mean())
    plain = F.cross_entropy(logits, labels, ignore_index=IGNORE)
    assert figures["loss"] == pytest.approx(plain.item(), abs=1e-6)


def test_nothing_labelled_is_nothing_measured():
    sums = make_task().sums(torch.randn(2, CLASSES, 3, 3), torch.full((2, 3, 3), IGNORE))
    found = PixelFigures.of(sums["confusion"])
    assert (found.accuracy, found.miou, found.iou) == (0.0, 0.0, [None] * CLASSES)


@pytest.mark.parametrize("weights", [None, torch.tensor([1.0, 2.0, 0.5, 3.0])])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_weighted_mean_over_labelled_pixels(weights, smoothing):
    logits, labels = batch()
    loss = make_task(weights=weights, label_smoothing=smoothing).loss(logits, labels)
    plain = F.cross_entropy(logits, labels, weights, ignore_index=IGNORE, label_smoothing=smoothing)
    torch.testing.assert_close(loss, plain)


def test_a_batch_without_a_class_has_loss_and_gradient_zero():
    logits = torch.randn(2, CLASSES, 3, 3, requires_grad=True)
    loss = make_task().loss(logits, torch.full((2, 3, 3), IGNORE))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_pixels_without_a_class_have_no_gradient():
    logits, labels = batch()
    logits.requires_grad_()
    make_task().loss(logits, labels).backward()
    assert logits.grad is not None
    outside = (labels == IGNORE)[:, None].expand_as(logits)
    assert not logits.grad[outside].any()
    assert logits.grad[~outside].all()


def test_image_and_mask_are_moved_together():
    labels, rows = torch.randint(1, CLASSES, (20, 5, 7)), torch.arange(20)
    task, images = make_task(pad=2, flip=True), labels[:, None].float()
    moved_images, moved = task.augment(images, ImageBatch(images, labels, rows, 5))
    known = moved != IGNORE
    assert torch.equal(moved_images[:, 0][known], moved[known].float())
    assert not moved_images[:, 0][~known].any()
    assert not known.all()
    again, _ = task.augment(images[7:8], ImageBatch(images[7:8], labels[7:8], rows[7:8], 5))
    assert torch.equal(again, moved_images[7:8])


def test_image_and_mask_are_turned_together(monkeypatch):
    labels, rows = torch.full((20, 5, 7), 2), torch.arange(20)
    images, task, seen = (100 * labels[:, None]).byte(), make_task(rotate=180), []
    task.model.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach()[:, 0]))
    monkeypatch.setattr(task, "loss", lambda logits, turned: seen.append(turned) or logits.sum())
    task.objective(ImageBatch(images, labels, rows, 5), "network")
    bright, turned = seen
    torch.testing.assert_close(bright, random_rotation(images, 180, rows, 3, 5)[:, 0] / 255)
    assert set(turned.unique().tolist()) == {2, IGNORE}
    assert bright[turned == 2].min() > bright[turned == IGNORE].min()
    assert bright[turned == IGNORE].mean() < 0.2 < 0.7 < bright[turned == 2].mean()


def test_light_changes_in_training_alone():
    task, seen = make_task(exposure=1.0), []
    task.model.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach()))
    images, labels = torch.randint(256, (20, 1, 5, 7), dtype=torch.uint8), torch.randint(0, CLASSES, (20, 5, 7))
    rows = torch.arange(20)
    task.objective(ImageBatch(images, labels, rows, 5), "network")
    task.measure(ImageBatch(images, labels, rows, 5))
    torch.testing.assert_close(seen[0], random_exposure(images, 1.0, rows, 3, 5) / 255)
    torch.testing.assert_close(seen[1], images / 255)
    assert not torch.equal(seen[0], seen[1])


def test_training_counts_labelled_pixels_alone():
    task, labels = make_task(), batch(3)[1]
    images = torch.randint(256, (3, 1, 5, 7), dtype=torch.uint8)
    loss, sums = task.objective(ImageBatch(images, labels, torch.arange(3), 0), "network")
    known = labels != IGNORE
    hits = (task.model(images / 255).argmax(1) == labels)[known].sum()
    assert sums["count"] == known.sum()
    assert sums["hits"] == hits
    assert sums["loss"].item() == pytest.approx(loss.item() * int(known.sum()))
    assert task.figures_of(sums).keys() == {"loss", "accuracy"}


def streets(counts: list[int]) -> ImageSet:
    labels = torch.from_numpy(np.repeat(np.arange(len(counts)), counts).astype(np.uint8)).view(1, 1, -1)
    names = tuple(map(str, range(len(counts) - 1)))
    return ImageSet(torch.zeros(1, 1, *labels.shape[1:], dtype=torch.uint8), labels, names, ignore=len(counts) - 1)


def test_class_weights_are_their_formulas():
    images = streets([10, 20, 70, 50])  # the last have no class
    median = torch.tensor([2.0, 1.0, 2 / 7])
    torch.testing.assert_close(class_weights(images, "median"), median)
    torch.testing.assert_close(class_weights(images, "root"), median.sqrt())
    torch.testing.assert_close(class_weights(images, "log"), 1 / torch.tensor([1.12, 1.22, 1.72]).log())


@pytest.mark.parametrize("kind", ["median", "root", "log"])
def test_a_class_that_does_not_occur_has_a_finite_weight(kind):
    weights = class_weights(streets([10, 0, 90, 3]), kind)
    assert weights.isfinite().all()
    assert weights[1] == weights.max()
