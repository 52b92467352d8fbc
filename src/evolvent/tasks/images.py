"""What all tasks on labelled images share: the data section, splits, augmentation and smoothness."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent.data import (
    ImageBatch,
    ImageData,
    ImageFiles,
    ImageSet,
    ImageSource,
    Material,
    Mean,
    Preprocess,
    Stretched,
    from_folder,
    load,
    mean_image,
    random_exposure,
    random_rotation,
    reduced,
    split,
)
from evolvent.data.own.parts import unseen_warning
from evolvent.networks import ImageNetwork
from evolvent.networks.roughness import weight_roughness
from evolvent.tasks.findings import Features
from evolvent.tasks.own_data import OwnPath, TestShare, check_origin, existing, read_archive
from evolvent.tasks.prediction import ImageForm
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings

_SPLIT_SEED = 0  # splits stay the same over seeds, so that seeds differ in training alone
_EXAMPLES, _CHANNELS_SHOWN = 8, 6


class AugmentConfig(Config):
    """Zero padding with random crop, random flip, light and rotation; a mask is moved as its image is."""

    pad: int = Field(default=0, ge=0)
    flip: bool = False
    exposure: float = Field(default=0.0, ge=0, le=8, description="change the light by up to this many stops")
    rotate: float = Field(
        default=0.0, ge=0, le=180, description="turn images about their centre by up to this many degrees"
    )


class ImageDataSettings(DataSettings):
    """Labelled images, a known set or your own; how they are divided and how they are served."""

    name: str | None = Field(default=None, description="a known data set; else one of folder and npz is given")
    folder: OwnPath | None = Field(
        default=None, description="your own images: one folder for each class, or images and masks"
    )
    npz: OwnPath | None = Field(default=None, description="your own arrays: an archive with x and y")
    test: TestShare | None = Field(
        default=None, description="share of your own images for testing, if none are set apart; 0.2 if null"
    )
    resize: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(
        default=None, description="height and width that the images of a folder are resized to"
    )
    batch_size: int | None = Field(default=100, ge=1, description="images of a step; all if null")
    validation: float = Field(
        default=0.0, ge=0, lt=1, description="share of the training images held out to choose the model"
    )
    fraction: float = Field(default=1.0, gt=0, le=1, description="share of the training images that is used")
    reduce: int = Field(
        default=1, ge=1, description="make images smaller by this factor: means over squares, majorities in masks"
    )
    centre: Mean = Field(
        default="image", description="what is subtracted: the mean image, or the mean colour, which no rotation changes"
    )
    augment: AugmentConfig = AugmentConfig()

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        check_origin(dict(self), ("name", "folder", "npz"), ("test", "resize"))
        if self.npz and self.resize:
            raise ValueError("resize is for images in a folder; give arrays of the wanted size")
        return self

    @property
    def title(self) -> str | None:
        return self.name or Path(self.folder or self.npz or "").name

    @property
    def rows_evaluated(self) -> int | None:
        return self.eval_batch_size or 500


class ImageTaskSettings(TaskSettings):
    """What tasks on images have in common."""

    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    smoothness: float = Field(
        default=0.0, ge=0, description="weight smoothness decay, alpha_2 of Bohn et al. 2021, eq. 4.8"
    )


class ImageTask(Task):
    r"""Trains a network on labelled images.

    .. math:: \min_\theta \; \mathbb E\, \ell(f_\theta(x), y)
              + \tfrac{\alpha_1}{2} \|K\|_F^2
              + \alpha_2 h \sum_j \bigl\| \tfrac{K_{j+1} - K_j}{h} \bigr\|_F^2

    Decay and smoothness are eq. 4.7 and 4.8 of Bohn, Griebel, Kannan 2021; subclasses say what :math:`\ell` is, how
    images and labels are augmented in training, and what is measured.
    """

    Settings = ImageTaskSettings
    Data = ImageDataSettings
    has_masks: ClassVar[bool]
    """Whether every pixel has a label, or every image."""

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        images = images_of(material.train)
        self.preprocess = Preprocess(mean_image(images.images, setup.data.centre))
        self.classes = list(images.classes)
        self.form = self._form(images)

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "in_features" in options and "in_channels" not in options:
            raise ConfigError(
                f"{name!r} is not a classifier of images: it takes in_features, not in_channels. Choose a network of "
                "images such as resnet44; `evolvent models` lists all."
            )

    @classmethod
    def read(cls, data: ImageDataSettings, folder: Path | None) -> ImageData:
        found = reduced(_read(data, folder), data.reduce)
        if found.train.has_masks != cls.has_masks:
            wanted = "segmentation" if found.train.has_masks else "classification"
            raise ConfigError(f"{data.title} is a set for task.name {wanted}. Change task.name, or use another set.")
        return found

    @classmethod
    def material(cls, found: ImageData, data: ImageDataSettings, seed: int) -> Material:
        """Hold out images unless the set is published with some; keep the wanted fraction of the rest."""
        train, watched = found.train, found.val
        if data.validation and watched:
            raise ConfigError(f"{found.name} has validation images of its own; leave data.validation at 0.")
        if data.validation:
            watched, train = split(train, data.validation, _SPLIT_SEED)
            _check_parts(data.validation, watched, train)
        if data.fraction < 1:
            train, unused = split(train, data.fraction, _SPLIT_SEED)
            if not len(train):
                raise ConfigError(
                    f"data.fraction of {data.fraction:g} keeps none of {len(unused):,} training images. Choose a "
                    "larger one."
                )
        channels, height, width = train.shape
        if data.augment.pad > min(height, width):
            raise ConfigError(
                f"data.augment.pad is {data.augment.pad}, more than the images of {height}x{width} pixels are wide: "
                "crops would miss them. Choose a smaller one."
            )
        options = {"num_classes": len(train.classes), "in_channels": channels, "image_size": (height, width)}
        test, some = ImageSource(found.test), train.images[:_EXAMPLES]
        return Material(
            found.name,
            ImageSource(train),
            ImageSource(watched) if watched else test,
            test,
            origin=found.source,
            example=Preprocess(mean_image(some, data.centre))(some) if len(some) else None,
            options=options | {"readout": "segmentation" if cls.has_masks else "classification"},
            rows="images",
            fingerprint="" if data.name else found.fingerprint,
            warning="" if data.name else unseen_warning(train.class_counts(), found.test.class_counts(), train.classes),
        )

    @abstractmethod
    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        r"""The mean of :math:`\ell` over a batch."""

    @abstractmethod
    def augment(self, images: Tensor, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        """Preprocessed images, lit and turned already, and their labels as training sees them."""

    @abstractmethod
    def sums(self, logits: Tensor, labels: Tensor) -> Sums:
        """What is measured on a batch of watched or test images."""

    @abstractmethod
    def counts(self, labels: Tensor) -> Tensor:
        """How many labels of a batch count."""

    def mean_counts(self, labels: Tensor) -> Tensor:
        """How many labels of a batch count in each process, on average; here in all of them equally many."""
        return self.counts(labels)

    def objective(self, batch: ImageBatch, turn: str) -> tuple[Tensor, Sums]:
        images, labels = self.as_trained(batch)
        return self.judged(self.model(images), labels)

    def as_trained(self, batch: ImageBatch) -> tuple[Tensor, Tensor]:
        """Images and labels of a batch, preprocessed and augmented."""
        augment, place = self.setup.data.augment, (batch.rows, self.setup.seed, batch.epoch)
        lit = random_exposure(batch.images, augment.exposure, *place)
        turned = random_rotation(lit, augment.rotate, *place, fill=255 * self.preprocess.mean)
        return self.augment(self.preprocess(turned), batch)

    def judged(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Sums]:
        """The objective of a network's answers to training images, and their measures."""
        loss = self.loss(logits, labels)
        stands_for = self.mean_counts(labels)
        hits = (logits.detach().argmax(1) == labels).sum()
        sums = {"loss": loss.detach() * stands_for, "hits": hits, "count": self.counts(labels)}
        if self.setup.settings.smoothness:
            loss = loss + self.setup.settings.smoothness * weight_roughness(self.model)
        return loss, sums

    def measure(self, batch: ImageBatch) -> Sums:
        return self.sums(self.model(self.preprocess(batch.images)), batch.labels)

    def _form(self, images: ImageSet) -> ImageForm:
        """How an image file becomes an input, as the training images did."""
        readout, stored, factor = "mask" if self.has_masks else "class", images.images, self.setup.data.reduce
        if isinstance(stored, ImageFiles):
            return ImageForm(stored.reader, images.classes, readout)
        channels, height, width = images.shape
        return ImageForm(Stretched(channels, factor * height, factor * width), images.classes, readout, factor)

    def save_kept(self, folder: Path) -> None:
        self.preprocess.save(folder)
        self.form.save(folder)
        super().save_kept(folder)

    def load_kept(self, folder: Path) -> None:
        super().load_kept(folder)
        self.preprocess = Preprocess.load(folder).to(self.preprocess.mean.device)

    def features(self, image: Tensor) -> list[Features]:
        """Some channels of one image's features through the time of each evolution, and their norms.

        Shape: image uint8 (C, H, W).
        """
        if not isinstance(self.model, ImageNetwork):
            return []
        maps, norms = [], []
        device = self.preprocess.mean.device
        for trajectory in self.model.trajectories(self.preprocess(image[None].to(device))):
            in_time = torch.cat(trajectory).float().cpu()  # (times, C, H, W)
            shown = torch.linspace(0, in_time.shape[1] - 1, min(_CHANNELS_SHOWN, in_time.shape[1])).long()
            maps.append(in_time[:, shown].numpy())
            norms.append(in_time.flatten(1).norm(dim=1).numpy())
        return [Features("Features through time", image.cpu().numpy(), maps, norms)] if maps else []


def _read(data: ImageDataSettings, folder: Path | None) -> ImageData:
    if data.folder:
        return from_folder(existing("folder", data.folder, folder), test=data.test, resize=data.resize)
    if data.npz:
        found = read_archive(data.npz, folder, data.test)
        if not isinstance(found, ImageData):
            raise ConfigError(f"{data.npz} has points, not images. Set task.name to points.")
        return found
    assert data.name is not None  # the section was checked
    return load(data.name, folder)


def _check_parts(share: float, held_out: ImageSet, rest: ImageSet) -> None:
    if not len(held_out) or not len(rest):
        raise ConfigError(
            f"data.validation of {share:g} holds out {len(held_out):,} of {len(held_out) + len(rest):,} images. "
            "Choose a share that leaves some in both parts, or 0."
        )


def images_of(source: Any) -> ImageSet:
    """The images behind a source."""
    if not isinstance(source, ImageSource):
        raise ConfigError(f"a task on images takes an ImageSource, got {type(source).__name__}.")
    return source.images
