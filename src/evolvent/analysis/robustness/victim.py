"""The classifier under attack: a function of pixels in [0, 1], in evaluation mode, with images and labels that fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_labelled_images, described
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode


class AttackWarning(UserWarning):
    """Something about an attack that the user probably did not mean."""


class OfBytes(nn.Module):
    r"""A classifier of images in [0, 1] made of one that takes the numbers 0 to 255, :math:`x \mapsto f(255\, x)`.

    With :class:`~evolvent.data.Preprocess` in front of the network, gradients pass through the whole of it.
    """

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(255 * images)


@dataclass(frozen=True)
class Batch:
    """Some images, as the classifier takes them."""

    rows: Tensor  # numbers of the images, (B,), on the CPU
    images: Tensor  # in [0, 1]
    labels: Tensor


@dataclass(frozen=True)
class Victim:
    """A classifier with labelled images, checked.

    Attributes:
        model: from images in [0, 1] to scores.
        images: uint8, or floating point in [0, 1], (N, C, H, W).
        labels: int64 (N,).
        classes: number of classes that the model knows.
    """

    model: nn.Module
    images: Tensor
    labels: Tensor
    classes: int

    def batches(self, size: int) -> Iterator[Batch]:
        """All images, in order."""
        like = _like(self.model, self.images)
        for rows in torch.arange(len(self.images)).split(size):
            yield Batch(rows, *(_placed(part[rows[0] : rows[-1] + 1], like) for part in (self.images, self.labels)))


@contextmanager
def victim(model: nn.Module, images: Tensor, labels: Tensor) -> Iterator[Victim]:
    """A classifier to attack: in evaluation mode, and without gradients of its parameters, as long as the block lasts.

    Warns with :class:`AttackWarning` if it was in training mode, where batches change statistics and layers are random.

    Raises:
        ConfigError: if images are not in [0, 1], labels are not classes of the model, or it is not a classifier.
    """
    check_labelled_images(images, labels, "an attack")
    _check_pixels(images)
    if model.training:
        warnings.warn(
            f"{type(model).__name__} is in training mode. It is attacked in evaluation mode, and put back afterwards; "
            "call .eval() to say so yourself.",
            AttackWarning,
            stacklevel=4,
        )
    wanted = [p for p in model.parameters() if p.requires_grad]
    try:
        for parameter in wanted:
            parameter.requires_grad_(False)
        with evaluation_mode(model):
            yield Victim(model, images, _whole_numbers(labels), _count_classes(model, images, labels))
    finally:
        for parameter in wanted:
            parameter.requires_grad_()


def _check_pixels(images: Tensor) -> None:
    if images.dtype == torch.uint8:
        return
    if not images.is_floating_point():
        raise ConfigError(f"images must be bytes or floating-point numbers in [0, 1], got {images.dtype}.")
    low, high = (images.min().item(), images.max().item()) if images.numel() else (0.0, 1.0)
    if not (low >= 0 and high <= 1):
        raise ConfigError(
            f"attacks change pixels between 0 and 1, but the images have values from {low:g} to {high:g}. Give images "
            "before preprocessing, and put it in front of the model: nn.Sequential(preprocess, model)."
        )


def _whole_numbers(labels: Tensor) -> Tensor:
    if labels.is_floating_point() or labels.is_complex():
        raise ConfigError(f"labels must be classes by number, got {described(labels)}. Use labels.long().")
    return labels.long()


def _count_classes(model: nn.Module, images: Tensor, labels: Tensor) -> int:
    with torch.no_grad():
        answer = model(_placed(images[:1], _like(model, images)))
    if not isinstance(answer, Tensor) or answer.ndim != 2 or answer.shape[1] < 2:
        given = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ConfigError(f"an attack needs a classifier, which gives each image scores (N, classes), got {given}.")
    classes, low, high = answer.shape[1], int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ConfigError(f"labels must lie in 0 ... {classes - 1}, the classes of the model, got {low} ... {high}.")
    return classes


def _like(model: nn.Module, images: Tensor) -> Tensor:
    """A tensor whose device and precision images take."""
    held = [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]
    return held[0] if held else torch.empty(0, device=images.device, dtype=_precision(images))


def _precision(images: Tensor) -> torch.dtype:
    return images.dtype if images.is_floating_point() else torch.float32


def _placed(part: Tensor, like: Tensor) -> Tensor:
    if part.dtype == torch.uint8:
        return part.to(like) / 255
    return part.to(like) if part.is_floating_point() else part.to(like.device)
