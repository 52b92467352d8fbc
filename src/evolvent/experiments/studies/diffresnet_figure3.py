"""Diffusion of four discs on their graph: does it draw them together as fast as the spectral gap says?"""

from __future__ import annotations

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from evolvent._core.config import Config
from evolvent.analysis import (
    Separation,
    measured_rate,
    parallel_hyperplanes,
    predicted_rate,
    separating_network,
    separation,
    separation_bound,
)
from evolvent.data import PointCloud
from evolvent.graphs import Connectivity, connectivity, gaussian_affinity, normalise
from evolvent.operators import GraphDiffusion
from evolvent.tasks.findings import Animation, Curve, Findings, Table, Tell

_SHOWN = (0, 0, 1, 4, 10, 14, 20, 60, 200)  # steps; still frames are every other one, those of the paper's figure
_TABLED = (0, 1, 10, 20, 200)


class Settings(Config):
    """XOR: discs of radius 0.75, two of each class. Defaults are those of the paper's Table 4."""

    points: int = Field(default=200, ge=8, multiple_of=2, description="of each class, half of them in each disc")
    n_top: int = Field(default=20, ge=2)
    sigma: float = Field(default=0.5, gt=0)
    gamma: float = Field(default=1.0, gt=0)
    steps: int = Field(default=200, ge=20)


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    cloud = PointCloud(kind="xor", points=settings.points, noise=0.0)
    (x, classes), discs = cloud.draw(seed), cloud.subclasses()
    weights = normalise(gaussian_affinity(x.double(), settings.n_top, sigma=settings.sigma), "row")
    diffusion = GraphDiffusion(weights)
    diffusion.check_step(settings.gamma, settings.steps)
    path, along = [x.double()], []
    for k in range(settings.steps + 1):
        along.append(separation(path[-1], discs))
        path.append(diffusion.flow(path[-1], settings.gamma))
        tell(k / (settings.steps + 1), f"step {k}")
    rates = predicted_rate(weights, settings.gamma), measured_rate([one.diameter for one in along])
    found = connectivity(weights, discs)
    separated = _first(path, discs)
    return Findings(
        answer=_answer(along, rates, found, separated, settings.steps),
        tables=[_growth(along), _theory(along, rates, found, path, discs, classes)],
        curves=[_curve(along, rates[0])],
        animations=[_animation(path, classes, settings.steps)],
    )


def _first(path: list[Tensor], discs: Tensor) -> int | None:
    """The first step after which parallel lines separate the discs."""
    return next((k for k, u in enumerate(path) if parallel_hyperplanes(u, discs) is not None), None)


def _enough(along: list[Separation]) -> int | None:
    """The first step after which Theorem 2's condition holds."""
    return next((k for k, one in enumerate(along) if one.length_ratio >= separation_bound(4, 2)), None)


def _growth(along: list[Separation]) -> Table:
    columns = ["diffusion steps", "L, length", "D, length", "L / D, lengths", "L / D, squares"]
    rows = [
        [str(k), one.distance**0.5, one.diameter**0.5, one.length_ratio, one.ratio]
        for k, one in enumerate(along)
        if k in _TABLED
    ]
    return Table("Distance and diameter", columns, rows)


def _theory(
    along: list[Separation],
    rates: tuple[float, float],
    found: Connectivity,
    path: list[Tensor],
    discs: Tensor,
    classes: Tensor,
) -> Table:
    network, end = separating_network(path[-1], discs, classes, width=2), path[-1]
    right = ((network(end) > 0).long() == classes).double().mean().item()
    rows = [
        ["edges between discs", found.crossing_edges, "none"],
        ["components in each disc", " ".join(map(str, found.components)), "1 each"],
        ["rate at which D falls, per step (Proposition 1)", rates[1], f"{rates[0]:.4g} by the spectral gap"],
        ["steps until parallel lines separate the discs", _first(path, discs), "Theorem 2: some must exist"],
        ["steps until the condition of Theorem 2 holds", _enough(along), f"L / D ≥ {separation_bound(4, 2):.4g}"],
        ["parameters of a network that is written down", sum(p.numel() for p in network.parameters()), "2M + O(d)"],
        ["share that it classifies after diffusion", right, "1 (Theorem 1)"],
    ]
    return Table("Theory and measurement", ["what", "measured", "theory"], rows)


def _curve(along: list[Separation], rate: float) -> Curve:
    steps = list(range(len(along)))
    late = len(along) // 2
    predicted = [along[late].ratio * float(np.exp(rate * (k - late))) for k in steps]
    lines = {
        "L / D at the predicted rate": (steps, predicted),
        "L / D": (steps, [one.ratio for one in along]),
        "D": (steps, [one.diameter for one in along]),
    }
    return Curve("Distance L and diameter D, squared", "diffusion steps", "D and L / D", lines, log_y=True)


def _animation(path: list[Tensor], classes: Tensor, steps: int) -> Animation:
    shown = [k for k in _SHOWN if k <= steps]
    frames, captions = torch.stack([path[k] for k in shown]), [f"step {k}" for k in shown]
    return Animation("Diffusion of the points", frames.numpy(), classes.numpy(), captions=captions)


def _answer(
    along: list[Separation], rates: tuple[float, float], found: Connectivity, separated: int | None, steps: int
) -> str:
    holds = (
        "each disc is one component of the graph" if found.holds else "the discs are not the components of the graph"
    )
    lines = f"parallel lines separate the discs from step {separated} on" if separated is not None else "no lines do"
    return (
        f"L / D grows from {along[0].ratio:.2g} to {along[-1].ratio:.1e} in {steps} steps; {holds}, D falls at the "
        f"rate {rates[1]:.4f} per step, {rates[0]:.4f} by the spectral gap, and {lines}."
    )
