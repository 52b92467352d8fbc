"""Image classification: one class for each image."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.data import (
    Batches,
    EpisodeBatch,
    ImageBatch,
    ImageData,
    ImageSet,
    Material,
    Source,
    add_noise,
    random_crop,
    random_flip,
    split,
)
from evolvent.tasks.accuracy import class_figures, class_sums, confusion_counts
from evolvent.tasks.class_ranges import ClassRange, PrototypeValidation, pooled, prototype_sums
from evolvent.tasks.findings import Curve, Figure, Findings, Gallery, Matrix, Table
from evolvent.tasks.images import ImageDataSettings, ImageTask, ImageTaskSettings, images_of
from evolvent.tasks.task import LabelledImages, Sums, add_sums, evaluating, register_task, to_device

_MISTAKES_SHOWN = 36
_IMAGES_AT_ONCE = 500  # of episodes, which have many
_DRAW_SEED = 0  # of images that analyses look at
_TIMED_ATTEMPTS = 3  # the first warms up


class ClassificationData(ImageDataSettings):
    """Labelled images, perhaps of some classes alone."""

    classes: ClassRange | None = Field(default=None, description="train on these classes alone; all if null")
    prototypes: PrototypeValidation | None = Field(
        default=None, description="choose the model by nearest-prototype accuracy in episodes of other classes"
    )

    @model_validator(mode="after")
    def _one_validation(self) -> Self:
        if self.prototypes and self.validation:
            raise ValueError("give either validation or prototypes, by which the model is chosen")
        return self


class ClassificationSettings(ImageTaskSettings):
    """One class for each image."""

    name: str = "classification"
    test_noise: list[Annotated[float, Field(ge=0, le=1)]] = Field(
        default=[],
        description="also test the kept model on noisy images: standard deviations as shares of the pixel range 255",
    )
    timed_images: int | None = Field(
        default=None, ge=1, description="also measure the time to classify this many test images in one batch"
    )


@register_task("classification")
class Classification(ImageTask):
    r"""Trains a network to tell classes apart: :math:`\ell` is the cross entropy, with optional label smoothing."""

    Settings, Data = ClassificationSettings, ClassificationData
    has_masks = False
    figures = (
        Figure("accuracy", "accuracy", "share", "higher"),
        Figure("top5", "top-5 accuracy", "share", "higher"),
        Figure("loss", "loss"),
        Figure("error", "error", "share", "lower", shown=False),
        Figure("inference", "inference time", "seconds", "lower"),
    )

    @classmethod
    def material(cls, found: ImageData, data: Any, seed: int) -> Material:
        material = super().material(data.classes.of(found) if data.classes else found, data, seed)
        return replace(material, watched=data.prototypes.source(found)) if data.prototypes else material

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=self.setup.settings.label_smoothing)

    def augment(self, images: Tensor, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        seed, augment = self.setup.seed, self.setup.data.augment
        images = random_crop(images, augment.pad, batch.rows, seed, batch.epoch)
        return random_flip(images, batch.rows, seed, batch.epoch) if augment.flip else images, batch.labels

    def counts(self, labels: Tensor) -> Tensor:
        return torch.tensor(len(labels), device=labels.device)

    def sums(self, logits: Tensor, labels: Tensor) -> Sums:
        found = class_sums(logits, labels)
        if logits.shape[1] > 5:
            found["top5"] = (logits.topk(5, dim=1).indices == labels[:, None]).any(1).sum()
        return found

    def measure(self, batch: ImageBatch | EpisodeBatch) -> Sums:
        if isinstance(batch, ImageBatch):
            return super().measure(batch)
        parts = batch.points.flatten(0, 1).split(_IMAGES_AT_ONCE)
        features = torch.cat([pooled(self.model.forward_features(self.preprocess(part))) for part in parts])  # pyright: ignore[reportCallIssue]
        return prototype_sums(features.unflatten(0, batch.labels.shape), batch)

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        found = class_figures(sums)
        top5 = {"top5": (sums["top5"] / sums["count"].clamp_min(1)).item()} if "top5" in sums else {}
        return found | {"error": 1 - found["accuracy"]} | top5

    def conclude(self, test: Batches) -> Findings:
        images, total = images_of(test.source), {}
        predicted, confidence = [], []
        with evaluating(self):
            for batch in test.once():
                batch = to_device(batch, self.preprocess.mean.device)
                logits = self.model(self.preprocess(batch.images))
                add_sums(total, self.sums(logits, batch.labels))
                sureness, said = logits.float().softmax(1).max(1)
                predicted.append(said.cpu())
                confidence.append(sureness.cpu())
            features = self.features(images.images[0])
            curves = self._under_noise(test)
            timed = self._inference_seconds(test)
        confusion = confusion_counts(torch.cat(predicted), images.labels.cpu(), len(self.classes))
        return Findings(
            figures=self.figures_of(total) | timed,
            tables=[self._per_class(confusion)],
            curves=curves,
            matrices=[Matrix("Confusion", self.classes, confusion.numpy())],
            galleries=[self._mistakes(images, torch.cat(predicted), torch.cat(confidence))],
            features=features,
        )

    def labelled_images(self, test: Source, count: int) -> LabelledImages:
        """A stratified draw, the same for all seeds."""
        images = images_of(test)
        some, _ = split(images, min(1.0, count / len(images)), _DRAW_SEED)
        classifier = nn.Sequential(self.preprocess, self.model)
        background = 255 * self.preprocess.mean
        return LabelledImages(classifier, some.images[:], some.labels, background, self.classes)

    def _inference_seconds(self, test: Batches) -> dict[str, float]:
        """Wall-clock seconds for ``task.timed_images`` images at once, the shortest of some attempts."""
        count = self.setup.settings.timed_images
        if count is None:
            return {}
        rows = torch.arange(min(count, len(test.source)))
        images = self.preprocess(self.placed(test.source.take(rows, test.seed, 0)).images)
        seconds = []
        for _ in range(_TIMED_ATTEMPTS):
            begin = time.perf_counter()
            self.model(images).argmax(1).tolist()  # which waits for the device
            seconds.append(time.perf_counter() - begin)
        return {"inference": min(seconds) * count / len(rows)}

    def _per_class(self, confusion: Tensor) -> Table:
        counts = confusion.sum(1)
        shares = confusion.diagonal() / counts.clamp_min(1)
        rows = [list(row) for row in zip(self.classes, shares.tolist(), counts.tolist(), strict=True)]
        return Table("Accuracy of each class", ["class", "accuracy", "test images"], rows, ["number", "share", "count"])

    def _mistakes(self, images: ImageSet, predicted: Tensor, confidence: Tensor) -> Gallery:
        """The misclassified images of which the network was surest."""
        labels = images.labels.cpu()
        wrong = (predicted != labels).nonzero()[:, 0]
        worst = wrong[confidence[wrong].argsort(descending=True, stable=True)][:_MISTAKES_SHOWN]
        captions = [
            f"{self.classes[labels[k]]} → {self.classes[predicted[k]]} ({100 * confidence[k]:.1f} %)" for k in worst
        ]
        lead = "Test images that were misclassified with the highest confidence: true → predicted (confidence)."
        shown = images.images[worst].cpu().numpy()
        return Gallery("Misclassified images", shown, captions, confidence[worst].numpy(), lead)

    def _under_noise(self, test: Batches) -> list[Curve]:
        levels = sorted(self.setup.settings.test_noise)
        if not levels:
            return []
        line = {"accuracy": (levels, [self._noise_accuracy(test, level) for level in levels])}
        return [
            Curve(
                "Accuracy under input noise",
                "standard deviation of the noise, as a share of the pixel range",
                "test accuracy",
                line,
                x_unit="share",
                y_unit="share",
            )
        ]

    def _noise_accuracy(self, test: Batches, level: float) -> float:
        hits = 0
        for batch in test.once():
            batch = to_device(batch, self.preprocess.mean.device)
            noisy = add_noise(batch.images, level, batch.rows, self.setup.seed)
            hits += int((self.model(self.preprocess(noisy)).argmax(1) == batch.labels).sum())
        return hits / len(test.source)
