"""Multiply-adds of nonlocal Hamiltonian networks: as printed, as the paper's formulas count, as evaluated."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from pydantic import Field

from evolvent._core.config import Config
from evolvent.analysis import count_all_pairs, count_multiply_adds, count_parameters
from evolvent.networks import create_model
from evolvent.tasks.findings import Curve, Findings, Table, Tell

DataName = Literal["cifar10", "cifar100", "stl10"]


class Setting(NamedTuple):
    """What a data set asks of a network."""

    title: str
    classes: int
    size: int
    subsample: int
    head_pool: int


class Row(NamedTuple):
    """A line of the paper's Table 4, in millions; None where it has none."""

    title: str
    printed: dict[DataName, float | None]


class Counts(NamedTuple):
    """What one network costs."""

    parameters: int
    all_pairs: float  # millions of multiply-adds
    evaluated: float


SETTINGS: dict[DataName, Setting] = {
    "cifar10": Setting("CIFAR-10", 10, 32, 2, 2),
    "cifar100": Setting("CIFAR-100", 100, 32, 2, 2),
    "stl10": Setting("STL-10", 10, 96, 4, 8),
}


def _row(title: str, cifar10: float | None, cifar100: float | None, stl10: float | None) -> Row:
    return Row(title, {"cifar10": cifar10, "cifar100": cifar100, "stl10": stl10})


TABLE: dict[str, Row] = {
    "resnet44": _row("ResNet-44", 98.3, 98.3, 879.5),
    "preresnet20": _row("PreResNet-20", None, None, None),
    "hamiltonian74": _row("Hamiltonian-74", 159.6, 159.9, 1432.5),
    "nonlocal_hamiltonian74": _row("Nonlocal diffusion", 192.9, 193.2, 2003.7),
    "fractional_hamiltonian74": _row("(-Δ)^1/2", 193.4, 193.7, 2012.5),
    "riesz_hamiltonian74": _row("(-Δ)^-1/2", 193.2, 193.5, 2011.0),
    "log_hamiltonian74": _row("(-Δ)^-1", 193.6, 193.9, 2019.5),
}


class Settings(Config):
    """Which data sets' image sizes to count for, and the sizes of the curve."""

    data: list[DataName] = Field(default=["cifar10", "cifar100", "stl10"], min_length=1)
    curve_sizes: list[int] = Field(default=[16, 32, 64], min_length=2, description="image sizes, multiples of eight")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    found: dict[DataName, dict[str, Counts]] = {}
    for k, data in enumerate(settings.data):
        tell(0.8 * k / len(settings.data), SETTINGS[data].title)
        found[data] = {name: _count(name, SETTINGS[data]) for name in TABLE}
    tell(0.8, "image sizes")
    return Findings(
        answer=_answer(found),
        tables=[_table(data, counts) for data, counts in found.items()],
        curves=[_curve(settings.curve_sizes)],
    )


def _count(name: str, setting: Setting) -> Counts:
    options: dict[str, Any] = {"num_classes": setting.classes}
    if "hamiltonian" in name:
        options |= {"image_size": setting.size, "head_pool": setting.head_pool}
    if name not in ("resnet44", "preresnet20", "hamiltonian74"):
        options |= {"subsample": setting.subsample}
    model, image = create_model(name, **options), torch.zeros(3, setting.size, setting.size)
    return Counts(count_parameters(model), count_all_pairs(model, image) / 1e6, count_multiply_adds(model, image) / 1e6)


def _table(data: DataName, counts: dict[str, Counts]) -> Table:
    columns = ["network", "parameters", "printed (M)", "all pairs (M)", "printed / all pairs", "as evaluated (M)"]
    rows = []
    for name, found in counts.items():
        printed = TABLE[name].printed[data]
        beside = None if printed is None else f"{printed / found.all_pairs:.4f}"
        written = None if printed is None else f"{printed:.1f}"
        rows.append([TABLE[name].title, found.parameters, written, f"{found.all_pairs:.2f}", beside,
                     f"{found.evaluated:.2f}"])  # fmt: skip
    return Table(f"{SETTINGS[data].title}, forward pass of one image", columns, rows)


def _curve(sizes: list[int]) -> Curve:
    """How the three evaluations grow with the image, without subsampling."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for size in sizes:
        setting = Setting("", 10, size, 1, 2)
        base = _count("hamiltonian74", setting).evaluated
        dot, power = (_count(name, setting) for name in ("nonlocal_hamiltonian74", "fractional_hamiltonian74"))
        values = {"all pairs": dot.all_pairs, "distances, as evaluated": power.evaluated,
                  "dot product, as evaluated": dot.evaluated}  # fmt: skip
        for name, value in values.items():
            x, y = lines.setdefault(name, ([], []))
            x.append(float(size))
            y.append(value / base)
    title = "Multiply-adds over those of Hamiltonian-74, without subsampling"
    return Curve(title, "pixels along each side", "ratio", lines, log_x=True, log_y=True)


def _answer(found: dict[DataName, dict[str, Counts]]) -> str:
    ratios = [
        f"{c['nonlocal_hamiltonian74'].all_pairs / c['hamiltonian74'].all_pairs:.2f} and "
        f"{c['nonlocal_hamiltonian74'].evaluated / c['hamiltonian74'].evaluated:.2f} on {SETTINGS[data].title}"
        for data, c in found.items()
    ]
    above = [
        100 * (printed / counts.all_pairs - 1)
        for data, rows in found.items()
        for name, counts in rows.items()
        if (printed := TABLE[name].printed[data])
    ]
    return (
        "Multiply-adds of nonlocal diffusion over those of Hamiltonian-74, with all pairs written down and as "
        f"evaluated here: {', '.join(ratios)}; the printed counts lie {min(above):.1f} to {max(above):.1f} % above "
        "those of all pairs."
    )
