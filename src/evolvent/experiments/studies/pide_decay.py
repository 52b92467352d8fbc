"""Nonlocal diffusion of digits with the kernel held: which kernels let energy and variance decay?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from evolvent import data
from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.analysis import DiffusionDecay, diffusion_decay
from evolvent.operators import FractionalLaplacian, NonlocalDiffusion, NonlocalOperator
from evolvent.tasks.findings import Curve, Findings, Table, Tell


class Kernel(NamedTuple):
    """A way to make an operator for so many channels, and whether its kernel is symmetric and not negative."""

    make: Callable[[int], NonlocalOperator]
    proven: bool


def _gaussian(channels: int, **options) -> NonlocalOperator:
    return NonlocalDiffusion(channels, "gaussian", scale=channels**-0.5, **options)


KERNELS: dict[str, Kernel] = {
    "Gaussian": Kernel(lambda c: _gaussian(c, embedding="none"), True),
    "Gaussian, one embedding": Kernel(lambda c: _gaussian(c, embedding="shared"), True),
    "fractional": Kernel(lambda c: FractionalLaplacian(c, 0.5, embedding="none"), True),
    "dot product of pixels ≥ 0": Kernel(lambda c: NonlocalDiffusion(c, "dot", embedding="none"), True),
    "Gaussian, two embeddings": Kernel(_gaussian, False),
    "Gaussian, row sums": Kernel(lambda c: _gaussian(c, embedding="none", normaliser="row_sum"), False),
    "dot product, one embedding": Kernel(lambda c: NonlocalDiffusion(c, "dot", embedding="shared"), False),
    "dot product, two embeddings": Kernel(lambda c: NonlocalDiffusion(c, "dot"), False),
}
CUT = 2.0  # curves end where energy or variance reach so many times what they were


class Settings(Config):
    """Images from scikit-learn's digits; the features of a pixel are those of the square around it."""

    images: int = Field(default=8, ge=1)
    patch: int = Field(default=4, ge=2, multiple_of=2, description="pixels along each side of a square")
    steps: int = Field(default=40, ge=2, description="times at which energy and variance are measured")
    end_time: float = Field(default=4.0, gt=0, description="in units of variance over its first rate of change")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    features = _patches(settings)
    found: dict[str, DiffusionDecay] = {}
    with torch.random.fork_rng(devices=[]):
        for k, (name, kernel) in enumerate(KERNELS.items()):
            tell(k / len(KERNELS), name)
            torch.manual_seed(derive_seed(seed, k))
            found[name] = _decay(kernel.make(features.shape[1]), features, settings)
    return Findings(
        answer=_answer(found),
        tables=[_table(found)],
        curves=[
            _curve("Energy", {name: (d.times, d.energy) for name, d in found.items()}),
            _curve("Variance over the pixels", {name: (d.times, d.variance) for name, d in found.items()}),
        ],
    )


def _patches(settings: Settings) -> Tensor:
    """(images, patch², 8, 8), not negative."""
    images = data.load("digits").test.tensor[: settings.images].double() / 255
    size, before = settings.patch, (settings.patch - 1) // 2
    padded = F.pad(images, (before, size - 1 - before) * 2, mode="replicate")
    return F.unfold(padded, size).unflatten(2, tuple(images.shape[2:]))


def _decay(operator: NonlocalOperator, features: Tensor, settings: Settings) -> DiffusionDecay:
    """Over a time in units of the kernel's own speed, so that kernels can be compared."""
    unit = diffusion_decay(operator, features, steps=1).times[-1] / 4
    return diffusion_decay(operator, features, steps=settings.steps, end_time=settings.end_time * unit)


def _curve(title: str, found: dict[str, tuple[tuple[float, ...], tuple[float, ...]]]) -> Curve:
    lines = {
        name: ([t / times[-1] for t in times], [_below_cut(value / values[0]) for value in values])
        for name, (times, values) in found.items()
    }
    return Curve(f"{title}, cut at {CUT:g}", "time t / T", "relative to the start", lines, log_y=True)


def _below_cut(value: float) -> float:
    """A kernel under which energy explodes would flatten the lines of all others."""
    return value if value <= CUT else float("nan")


def _table(found: dict[str, DiffusionDecay]) -> Table:
    columns = ["kernel", "proof applies", "energy at T", "variance at T", "largest rise of energy",
               "gain / dissipation", "dissipation", "decays"]  # fmt: skip
    rows = [
        [name, _yes(KERNELS[name].proven), d.energy[-1] / d.energy[0], d.variance[-1] / d.variance[0], _rise(d),
         _gain(d), "≥ 0" if min(d.dissipation) >= 0 else "< 0", _yes(d.decays)]
        for name, d in found.items()
    ]  # fmt: skip
    return Table("Energy and variance relative to the start", columns, rows)


def _rise(found: DiffusionDecay) -> float:
    return max(0.0, max(after - before for before, after in pairwise(found.energy)) / found.energy[0])


def _gain(found: DiffusionDecay) -> float:
    """What a kernel that is not symmetric adds; of the dissipation, at worst."""
    pairs = zip(found.gain, found.dissipation, strict=True)
    return max(abs(gain / lost) if lost else 0.0 for gain, lost in pairs)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _answer(found: dict[str, DiffusionDecay]) -> str:
    proven = {name: d for name, d in found.items() if KERNELS[name].proven}
    falling = sum(d.decays for d in proven.values())
    rising = [name for name, d in found.items() if not KERNELS[name].proven and not d.decays]
    beyond = f"not so for {' and '.join(rising)}" if rising else "they decay for the other kernels too"
    return (
        f"For {falling} of {len(proven)} symmetric, non-negative kernels energy and variance decay at all times, with "
        f"a gain of {max(map(_gain, proven.values())):.0e} of the dissipation, which is rounding; {beyond}."
    )
