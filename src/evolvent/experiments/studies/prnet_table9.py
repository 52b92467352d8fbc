"""Training overhead of PR-Net and its rivals for photographs (Kim et al. 2022, Table 9)."""

from __future__ import annotations

import torch
from pydantic import Field

from evolvent._core.config import Config
from evolvent.experiments.studies.training_overhead import Rival, compare_overheads, joined
from evolvent.tasks.findings import Findings, Tell

MODELS = {"M.Net V3": "mobilenetv3_isometric", "ODE-Net": "odenet_mobile", "PR-Net": "prnet_mobile"}
PRINTED = {  # megabytes and seconds of a step, at widths 1 and 2
    "M.Net V3": ((4989, 0.038), (9139, 0.057)),
    "ODE-Net": ((5797, 0.069), (9977, 0.211)),
    "PR-Net": ((7583, 0.077), (10685, 0.190)),
}
CLASSES = 200


class Settings(Config):
    """Which widths, how large the images are, how many at a time, and how often."""

    widths: list[int] = Field(default=[1, 2], min_length=1, description="width multipliers, 1 and 2")
    size: int = Field(default=64, ge=8, description="pixels along each side")
    batch: int = Field(default=8, ge=2)
    repeats: int = Field(default=1, ge=1, description="timed steps, of which the shortest counts")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    torch.manual_seed(seed)
    tables, answers = [], []
    images = torch.randn(settings.batch, 3, settings.size, settings.size)
    labels = torch.randint(0, CLASSES, (settings.batch,))
    for k, width in enumerate(settings.widths):
        rivals = [_rival(title, width, settings.size) for title in MODELS]
        share = lambda done, text, k=k: tell((k + done) / len(settings.widths), text)  # noqa: E731
        table, found = compare_overheads(f"Width {width}", rivals, images, labels, settings.repeats, share)
        tables.append(table)
        ratio = found["PR-Net"].seconds / found["ODE-Net"].seconds
        answers.append(f"At width {width} a step of PR-Net takes {ratio:.2f} times as long as one of ODE-Net.")
    return joined(tables, answers)


def _rival(title: str, width: int, size: int) -> Rival:
    options = {"num_classes": CLASSES, "multiplier": width} | ({"image_size": size} if title == "PR-Net" else {})
    printed = PRINTED[title][min(width, 2) - 1]
    return Rival(title, MODELS[title], options, "adjoint" if title == "ODE-Net" else "backprop", *printed)
