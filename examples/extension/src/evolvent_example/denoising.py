"""The task ``denoising``: an image, given the image with noise."""

from pathlib import Path
from typing import Any

import torch
from pydantic import Field as Key
from torch import Tensor

from evolvent import data
from evolvent.tasks import (
    Curve,
    DataSettings,
    Field,
    Figure,
    Findings,
    Sums,
    Table,
    Task,
    TaskSettings,
    evaluating,
    register_task,
)

NOISE_STREAM = 1001  # keeps these random numbers apart from those that others draw from the same seed


class DenoisingSettings(TaskSettings):
    """What the trained network is tested on."""

    name: str = "denoising"
    levels: list[float] = Key(default=[0.05, 0.1, 0.2, 0.3], description="noise of the curve of errors")


class DenoisingData(DataSettings):
    """Images of a named set, with noise added."""

    name: str = Key(default="ripples", description="data set")
    noise: float = Key(default=0.2, ge=0, description="standard deviation of the noise; black is -1/2 and white 1/2")


class NoisyImages(data.Source):
    """Pairs of a noisy and a clean image, with new noise in each epoch.

    Args:
        images: uint8 (N, C, H, W).
        noise: standard deviation.
    """

    def __init__(self, images: Tensor, noise: float) -> None:
        self.images = images
        self.noise = noise

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Tensor, seed: int, epoch: int) -> tuple[Tensor, Tensor]:
        clean = self.images[rows] / 255 - 0.5
        size = clean[0].numel()
        pixels = rows[:, None] * size + torch.arange(size)
        noise = data.normal(pixels, seed, epoch, NOISE_STREAM).view_as(clean)
        return clean + self.noise * noise, clean


@register_task("denoising")
class Denoising(Task):
    r"""Trains a network to remove noise, by the mean of :math:`|f_\theta(u + \varepsilon) - u|^2` over pixels."""

    Settings, Data = DenoisingSettings, DenoisingData
    figures = (
        Figure("rmse", "error (RMS)", better="lower"),
        Figure("remaining", "remaining error", "share", better="lower"),
    )

    @classmethod
    def read(cls, section: DenoisingData, folder: Path | None) -> data.ImageData:
        return data.load(section.name, folder)

    @classmethod
    def material(cls, found: data.ImageData, section: DenoisingData, seed: int) -> data.Material:
        train, test = (NoisyImages(part.images, section.noise) for part in (found.train, found.test))
        example, _ = train.take(torch.arange(4), seed, epoch=0)
        options = {"in_channels": example.shape[1]}
        return data.Material(found.name, train, test, test, found.source, example, options, rows="images")

    def objective(self, batch: tuple[Tensor, Tensor], turn: str) -> tuple[Tensor, Sums]:
        sums = self.measure(batch)
        return sums["after"] / sums["pixels"], {name: value.detach() for name, value in sums.items()}

    def measure(self, batch: tuple[Tensor, Tensor]) -> Sums:
        noisy, clean = batch
        return {
            "before": (noisy - clean).square().sum(),
            "after": (self.model(noisy) - clean).square().sum(),
            "pixels": torch.tensor(clean.numel(), device=clean.device),
        }

    def figures_of(self, sums: Any) -> dict[str, float]:
        mean_square = sums["after"] / sums["pixels"]
        return {"rmse": mean_square.sqrt().item(), "remaining": (sums["after"] / sums["before"]).sqrt().item()}

    def conclude(self, test: data.Batches) -> Findings:
        noisy, clean = self.placed(next(test.once()))
        with evaluating(self):
            denoised = self.model(noisy)
        return Findings(
            figures=self.test_figures(test),
            tables=[errors_by_place(noisy, denoised, clean)],
            curves=[self.error_by_noise(test)],
            fields=[picture(denoised[0], clean[0])],
        )

    def error_by_noise(self, test: data.Batches) -> Curve:
        levels = self.setup.settings.levels
        noisier = [data.Batches(NoisyImages(test.source.images, level), test.batch_size, test.seed) for level in levels]
        errors = [self.test_figures(batches)["rmse"] for batches in noisier]
        return Curve("Error by noise", "standard deviation of the noise", "error (RMS)", {"error": (levels, errors)})


def errors_by_place(noisy: Tensor, denoised: Tensor, clean: Tensor) -> Table:
    """The error at the edge of the images, where the stencil needs to know what is beyond, and inside."""
    inside = torch.zeros(clean.shape[2:], dtype=torch.bool, device=clean.device)
    inside[1:-1, 1:-1] = True
    rows = [
        [place, rms((noisy - clean)[..., pixels]), rms((denoised - clean)[..., pixels])]
        for place, pixels in (("at the edge", ~inside), ("inside", inside))
    ]
    return Table("Error by place", ["pixels", "with noise", "denoised"], rows)


def picture(denoised: Tensor, clean: Tensor) -> Field:
    """The first channel of an image beside the clean one; a field's first row is its lowest."""
    height, width = clean.shape[1:]
    values, reference = (image[0].flip(0).cpu().numpy() for image in (denoised, clean))
    return Field("A test image", values, (0, width, 0, height), "column", "row", reference)


def rms(error: Tensor) -> float:
    return error.square().mean().sqrt().item()
