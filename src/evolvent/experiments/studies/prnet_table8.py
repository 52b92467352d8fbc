"""Training overhead of PR-Net and its rivals for digits (Kim et al. 2022, Table 8)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from pydantic import Field

from evolvent._core.config import Config
from evolvent.experiments.studies.training_overhead import Rival, compare_overheads, joined
from evolvent.tasks.findings import Findings, Tell

DataName = Literal["mnist", "svhn"]


class Setting(NamedTuple):
    """A data set's images, and what is printed of each network: megabytes and seconds of a step."""

    title: str
    shape: tuple[int, int, int]
    printed: dict[str, tuple[float, float]]


SETTINGS: dict[DataName, Setting] = {
    "mnist": Setting(
        "Images of MNIST", (1, 28, 28),
        {"ResNet": (2359, 0.155), "RK-Net": (819, 0.229), "ODE-Net": (819, 0.235), "PR-Net": (836, 0.289)},
    ),
    "svhn": Setting(
        "Images of SVHN", (3, 32, 32),
        {"ResNet": (2363, 0.206), "RK-Net": (823, 0.223), "ODE-Net": (823, 0.307), "PR-Net": (841, 0.227)},
    ),
}  # fmt: skip
MODELS = {"ResNet": "resnet_mnist", "RK-Net": "rknet", "ODE-Net": "odenet", "PR-Net": "prnet_mnist"}


class Settings(Config):
    """Which images, how many at a time, and how often."""

    data: list[DataName] = Field(default=["mnist", "svhn"], min_length=1)
    batch: int = Field(default=128, ge=2)
    repeats: int = Field(default=3, ge=1, description="timed steps, of which the shortest counts")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    torch.manual_seed(seed)
    tables, answers = [], []
    for k, data in enumerate(settings.data):
        setting = SETTINGS[data]
        images, labels = torch.randn(settings.batch, *setting.shape), torch.randint(0, 10, (settings.batch,))
        rivals = [_rival(title, setting) for title in MODELS]
        share = lambda done, text, k=k: tell((k + done) / len(settings.data), text)  # noqa: E731
        table, found = compare_overheads(setting.title, rivals, images, labels, settings.repeats, share)
        tables.append(table)
        ratio = found["PR-Net"].seconds / found["ODE-Net"].seconds
        answers.append(f"{setting.title}: a step of PR-Net takes {ratio:.2f} times as long as one of ODE-Net.")
    return joined(tables, answers)


def _rival(title: str, setting: Setting) -> Rival:
    options = {"image_size": setting.shape[1:]} if title == "PR-Net" else {}
    gradient = "adjoint" if title == "ODE-Net" else "backprop"
    return Rival(title, MODELS[title], options, gradient, *setting.printed[title])
