"""Training on some classes of a set and validation on others, as backbones of few-shot tasks need it."""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent.data import EpisodeBatch, Episodes, ImageData, ImageSet
from evolvent.tasks.task import Sums


class ClassRange(Config):
    """Consecutive classes of a set, in the order of its class names."""

    first: int = Field(default=0, ge=0)
    count: int = Field(ge=1)

    def of(self, data: ImageData) -> ImageData:
        """The set with the images of these classes alone."""
        self._check(data)
        parts = {name: getattr(data, name).of_classes(self.first, self.count) for name in ("train", "test")}
        val = data.val and data.val.of_classes(self.first, self.count)
        return replace(data, **parts, val=val, source=f"{data.source}, {self}")

    def all_images(self, data: ImageData) -> ImageSet:
        """All images of these classes, whatever they are published for."""
        found = self.of(data)
        parts = [part for part in (found.train, found.val, found.test) if part is not None]
        images, labels = (torch.cat([getattr(part, name) for part in parts]) for name in ("tensor", "labels"))
        return replace(found.train, images=images, labels=labels)

    def _check(self, data: ImageData) -> None:
        if self.first + self.count > len(data.classes):
            raise ConfigError(f"{data.name} has {len(data.classes)} classes, which do not include {self}.")

    def __str__(self) -> str:
        return f"classes {self.first} to {self.first + self.count - 1}"


class PrototypeValidation(Config):
    """Episodes of classes that are not trained on; their nearest-prototype accuracy chooses the model."""

    classes: ClassRange
    episodes: int = Field(default=40, ge=1)
    way: int = Field(default=5, ge=2)
    shot: int = Field(default=5, ge=1)
    query: int = Field(default=15, ge=1)

    def source(self, data: ImageData) -> Episodes:
        images = self.classes.all_images(data)
        return Episodes(images.tensor, images.labels, self.episodes, way=self.way, shot=self.shot, query=self.query)


def pooled(features: Tensor) -> Tensor:
    """Feature vectors: maps are averaged over their pixels.

    Shape: (B, d, ...) to (B, d).
    """
    return features.flatten(2).mean(2) if features.ndim > 2 else features


def prototype_sums(features: Tensor, episodes: EpisodeBatch) -> Sums:
    """Loss, right answers and number of the query, classified by the nearest mean of the support's features.

    Shape: features (T, N, d).
    """
    x, support = features, episodes.support
    means = x[:, :support].unflatten(1, (episodes.way, episodes.shot)).mean(2)
    answers, labels = -torch.cdist(x[:, support:], means), episodes.labels[:, support:]
    return {
        "loss": F.cross_entropy(answers.flatten(0, 1), labels.flatten(), reduction="sum"),
        "hits": (answers.argmax(-1) == labels).sum(),
        "count": torch.tensor(labels.numel(), device=labels.device),
    }
