"""Semantic segmentation: one class for each pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.data import Batches, ImageBatch, ImageSet, Material, random_crop, random_flip, random_rotation
from evolvent.networks import ImageNetwork, list_models, model_entry
from evolvent.networks.building import PixelClassifier
from evolvent.tasks.accuracy import PixelFigures, class_figures, confusion_counts, mean_loss
from evolvent.tasks.findings import Figure, Findings, LabelMaps, Matrix, Table
from evolvent.tasks.images import ImageDataSettings, ImageTask, ImageTaskSettings, images_of
from evolvent.tasks.task import Setup, Sums, add_sums, evaluating, mean_over_processes, register_task, to_device

ClassWeights: TypeAlias = Literal["median", "root", "log"]

_IMAGES_SHOWN = 6


class SegmentationSettings(ImageTaskSettings):
    """One class for each pixel."""

    name: str = "segmentation"
    class_weights: ClassWeights | None = Field(default=None, description="how rare classes count for more in the loss")


class SegmentationDataSettings(ImageDataSettings):
    """A set of images with a label for each pixel."""

    @property
    def rows_evaluated(self) -> int | None:
        return self.eval_batch_size or self.batch_size


@register_task("segmentation")
class Segmentation(ImageTask):
    r"""Trains a network to tell the class of every pixel.

    .. math:: \ell = \Bigl(\sum_p w_{y_p}\Bigr)^{-1} \sum_p w_{y_p} \, \mathrm{CE}(f_\theta(x)_p, y_p)

    over the pixels :math:`p` of a batch that have a class, those of all processes together. The best model is the
    one of highest mIoU. The network maps (B, C, H, W) to (B, classes, H, W).
    """

    Settings = SegmentationSettings
    Data = SegmentationDataSettings
    has_masks = True
    figures = (
        Figure("miou", "mIoU", "share", "higher"),
        Figure("accuracy", "pixel accuracy", "share", "higher"),
        Figure("loss", "loss"),
    )
    weights: Tensor

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        images = images_of(material.train)
        assert images.ignore is not None  # read() refuses sets without masks
        self.ignore = images.ignore
        _check_size(model, *images.shape[1:])
        kind = setup.settings.class_weights
        weights = class_weights(images, kind) if kind else torch.ones(len(self.classes))
        self.register_buffer("weights", weights, persistent=False)

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "readout" not in options:
            able = [other for other in list_models() if "readout" in model_entry(other).known_options()]
            raise ConfigError(f"{name} does not give a class per pixel; networks that do are {', '.join(able)}.")

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        weights = self.weights.to(logits.dtype)
        smoothing = self.setup.settings.label_smoothing
        total = F.cross_entropy(
            logits, labels, weights, ignore_index=self.ignore, label_smoothing=smoothing, reduction="sum"
        )
        # with the mean over processes, averaged gradients are those of one process with all the images
        whole = mean_over_processes(weights[labels[labels != self.ignore]].sum())
        return total / whole.clamp_min(torch.finfo(whole.dtype).tiny)  # without a single labelled pixel: zero

    def augment(self, images: Tensor, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        place, augment = (batch.rows, self.setup.seed, batch.epoch), self.setup.data.augment
        masks = random_rotation(batch.labels[:, None], augment.rotate, *place, fill=self.ignore, nearest=True)
        masks = random_crop(masks, augment.pad, *place, fill=self.ignore)
        images = random_crop(images, augment.pad, *place)
        if augment.flip:
            images, masks = (random_flip(x, *place) for x in (images, masks))
        return images, masks[:, 0]

    def counts(self, labels: Tensor) -> Tensor:
        return (labels != self.ignore).sum()

    def mean_counts(self, labels: Tensor) -> Tensor:
        return mean_over_processes(self.counts(labels).float())

    def sums(self, logits: Tensor, labels: Tensor) -> Sums:
        known = labels != self.ignore
        return {
            "loss": F.cross_entropy(logits, labels, ignore_index=self.ignore, reduction="sum"),
            "count": self.counts(labels),
            "confusion": confusion_counts(logits.argmax(1)[known], labels[known], len(self.classes)),
        }

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        if "confusion" not in sums:  # training batches are only counted
            return class_figures(sums)
        found = PixelFigures.of(sums["confusion"])
        return {"loss": mean_loss(sums), "accuracy": found.accuracy, "miou": found.miou}

    def conclude(self, test: Batches) -> Findings:
        images, total = images_of(test.source), {}
        shown = torch.linspace(0, len(images) - 1, min(_IMAGES_SHOWN, len(images))).round().long()
        predictions = torch.empty(len(shown), *images.shape[1:], dtype=torch.uint8)
        with evaluating(self):
            for batch in test.once():
                batch = to_device(batch, self.preprocess.mean.device)
                logits = self.model(self.preprocess(batch.images))
                add_sums(total, self.sums(logits, batch.labels))
                place, row = (shown[:, None] == batch.rows.cpu()).nonzero(as_tuple=True)
                predictions[place] = logits[row.to(logits.device)].argmax(1).byte().cpu()
            features = self.features(images.images[0])
        confusion = total["confusion"].cpu()
        maps = LabelMaps(
            "Predictions",
            images.images[shown].numpy(),
            images.labels[shown].numpy(),
            predictions.numpy(),
            self.classes,
        )
        return Findings(
            figures=self.figures_of(total),
            tables=[self._per_class(PixelFigures.of(confusion))],
            matrices=[Matrix("Confusion", self.classes, confusion.numpy(), counted="pixels")],
            label_maps=[maps],
            features=features,
        )

    def _per_class(self, found: PixelFigures) -> Table:
        columns = zip(self.classes, found.iou, found.per_class, strict=True)
        title = "Intersection over union and accuracy of each class"
        rows = [[name, iou, share] for name, iou, share in columns]
        return Table(title, ["class", "IoU", "accuracy"], rows, ["number", "share", "share"])


def _check_size(model: nn.Module, height: int, width: int) -> None:
    """Refuse a network whose answers, on a coarser grid at first, would not be as large as the masks."""
    factor = model.head.refine if isinstance(model, ImageNetwork) and isinstance(model.head, PixelClassifier) else 1
    if height % factor or width % factor:
        raise ConfigError(
            f"coarsen={factor} needs images whose height and width are multiples of {factor}, got {height} x {width}. "
            "Change the option coarsen of the model, or data.reduce."
        )


def class_weights(images: ImageSet, kind: ClassWeights) -> Tensor:
    r"""Weights that let rare classes count for more; a class without any label has the largest of the others.

    With :math:`f_c` the share of class :math:`c` among the labelled pixels of the training images:

    * ``"median"``: :math:`w_c = \mathrm{median}(f) / f_c` (Eigen and Fergus 2015, up to their counting per image);
    * ``"root"``: :math:`w_c = \sqrt{\mathrm{median}(f) / f_c}`, half way to equal weights;
    * ``"log"``: :math:`w_c = 1 / \ln(1.02 + f_c)` (Paszke et al. 2016).

    Shape: float32 (classes,).
    """
    counts = torch.tensor(images.class_counts(), dtype=torch.float64)
    shares = counts[counts > 0] / counts.sum()
    weights = torch.zeros_like(counts)
    weights[counts > 0] = 1 / (1.02 + shares).log() if kind == "log" else shares.median() / shares
    weights[counts == 0] = weights.max()
    return (weights.sqrt() if kind == "root" else weights).float()
