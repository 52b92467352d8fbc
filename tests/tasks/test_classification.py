"""Figures against plain counting, and the objective against its formula."""

import itertools
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from evolvent import create_model, evolutions
from evolvent.data import (
    Batches,
    ImageBatch,
    ImageSet,
    ImageSource,
    Material,
    Preprocess,
    add_noise,
    random_crop,
    random_flip,
    random_rotation,
)
from evolvent.tasks import OptimizerConfig, ScheduleConfig, Setup, add_sums
from evolvent.tasks.classification import Classification, ClassificationSettings
from evolvent.tasks.images import AugmentConfig, ImageDataSettings


def make_task(classes: int = 10, count: int = 30, blocks: int = 1, augment: dict[str, Any] | None = None, **settings):
    """A task on random images, with its source."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 1, 8, 8), dtype=torch.uint8, generator=draw)
    names = tuple(map(str, range(classes)))
    source = ImageSource(ImageSet(images, torch.arange(count) % classes, names))
    model = create_model("hamiltonian", channels=(4,), blocks=blocks, image_size=8, in_channels=1, num_classes=classes)
    data = ImageDataSettings(name="random", augment=AugmentConfig(**(augment or {})))
    setup = Setup(ClassificationSettings(**settings), data, OptimizerConfig(), ScheduleConfig(), seed=3)
    return Classification(model, Material("random", source, source, source), setup), source


@pytest.mark.parametrize("classes", [3, 10])
def test_figures_equal_plain_counting(classes):
    logits, labels = torch.randn(200, classes), torch.randint(classes, (200,))
    task, total = make_task(classes)[0], {}
    for part in torch.arange(200).split(60):  # unequal batches
        add_sums(total, task.sums(logits[part], labels[part]))
    found, predicted = task.figures_of(total), logits.argmax(1)
    assert found["loss"] == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-6)
    assert found["accuracy"] == pytest.approx((predicted == labels).float().mean().item())
    assert found["error"] == pytest.approx(1 - found["accuracy"])
    if classes > 5:
        hits = (logits.topk(5).indices == labels[:, None]).any(1).float().mean().item()
        assert found["top5"] == pytest.approx(hits)
    else:
        assert "top5" not in found


def test_the_objective_is_cross_entropy_with_smoothed_labels_plus_smoothness():
    task, source = make_task(blocks=3, label_smoothing=0.2, smoothness=0.3)
    batch = source.take(torch.arange(6), 0, 0)
    loss, sums = task.objective(batch, "network")
    logits = task.model(task.preprocess(batch.images))
    target = 0.8 * F.one_hot(batch.labels, 10) + 0.02
    entropy = -(target * logits.log_softmax(1)).sum(1).mean()
    [(_, evolution)] = evolutions(task.model)
    h, blocks = evolution.step_size, list(evolution.dynamics)
    rough = sum(
        ((p - q) / h).square().sum() * h
        for f, g in itertools.pairwise(blocks)
        for p, q in zip(f.parameters(), g.parameters(), strict=True)
    )
    torch.testing.assert_close(loss, entropy + 0.3 * rough)
    torch.testing.assert_close(sums["loss"] / sums["count"], entropy.detach())  # without the smoothness


def test_what_is_found_is_what_the_network_says():
    task, source = make_task(4, test_noise=[0.0, 0.2])
    found = task.conclude(Batches(source, 7, seed=3))
    images = source.images
    with torch.no_grad():
        logits = task.model.eval()(task.preprocess(images.images))
        noisy = add_noise(images.images, 0.2, torch.arange(30), 3)
        under_noise = task.model(task.preprocess(noisy)).argmax(1)
    predicted, labels = logits.argmax(1), images.labels
    [matrix], [table], [gallery], [curve] = found.matrices, found.tables, found.galleries, found.curves
    for c in range(4):
        counts = torch.bincount(predicted[labels == c], minlength=4)
        assert matrix.counts[c].tolist() == counts.tolist()
        assert table.rows[c] == [str(c), pytest.approx((counts[c] / counts.sum()).item()), int(counts.sum())]
    assert len(gallery.captions) == int((predicted != labels).sum())
    assert sorted(gallery.weights.tolist(), reverse=True) == gallery.weights.tolist()
    accuracy = [(said == labels).double().mean().item() for said in (predicted, under_noise)]
    assert curve.series["accuracy"] == ([0.0, 0.2], pytest.approx(accuracy))
    assert found.figures["accuracy"] == pytest.approx(accuracy[0])


def test_training_sees_moved_images_and_evaluation_does_not():
    task, source = make_task(augment={"pad": 2, "flip": True, "exposure": 1.0, "rotate": 30.0})
    seen = []
    task.model.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach()))
    batch = source.take(torch.arange(5), 3, 4)
    task.objective(batch, "network")
    task.objective(source.take(torch.arange(5), 3, 5), "network")
    task.objective(ImageBatch(*(part[2:3] for part in batch[:3]), epoch=4), "network")
    task.measure(batch)
    moved, later, alone, plain = seen
    assert not torch.equal(moved, later)
    assert torch.equal(alone, moved[2:3])
    torch.testing.assert_close(plain, task.preprocess(batch.images))


def seen_in_training(task, batch: ImageBatch) -> torch.Tensor:
    seen = []
    with task.model.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].detach())):
        task.objective(batch, "network")
    return seen[0]


def test_images_are_turned_in_front_of_the_mean_image():
    task, source = make_task(augment={"rotate": 180.0})
    batch = source.take(torch.arange(30), 0, 2)
    turned = random_rotation(batch.images / 255, 180.0, batch.rows, 3, 2, fill=task.preprocess.mean)
    torch.testing.assert_close(seen_in_training(task, batch), turned - task.preprocess.mean)


def test_without_rotation_training_sees_the_same_bits():
    task, source = make_task(augment={"pad": 1, "flip": True})
    batch = source.take(torch.arange(30), 0, 2)
    place = (batch.rows, 3, 2)
    plain = random_flip(random_crop(task.preprocess(batch.images), 1, *place), *place)
    assert torch.equal(seen_in_training(task, batch), plain)


@pytest.mark.parametrize("degrees", [-1, 181, float("nan"), "all"])
def test_angles_outside_0_to_180_are_refused(degrees):
    with pytest.raises(ValueError, match="rotate"):
        AugmentConfig(rotate=degrees)


def test_labelled_images_are_classified_as_in_evaluation():
    task, source = make_task(count=40)
    some = task.labelled_images(source, 20)
    assert some.labels.bincount().tolist() == [2] * 10  # stratified
    assert len(task.labelled_images(source, 1000).images) == 40
    with torch.no_grad():
        task.model.eval()
        assert torch.equal(some.classifier(some.images), task.model(task.preprocess(some.images)))
        assert task.preprocess(some.background[None]).abs().max() < 1e-6


def test_a_network_without_evolutions_has_no_features_in_time():
    task, _ = make_task()
    task.preprocess = Preprocess(torch.zeros(1, 1, 1))
    task.model = create_model("cnn", channels=(2,) * 6, in_channels=1).eval()
    assert task.features(torch.zeros(1, 22, 22, dtype=torch.uint8)) == []


def test_inference_is_timed_if_asked_for():
    task, source = make_task(timed_images=1000)
    with torch.no_grad():
        found = task.conclude(Batches(source, 30, 0)).figures
    assert found["inference"] > 0
    assert "inference" not in make_task()[0].conclude(Batches(source, 30, 0)).figures
