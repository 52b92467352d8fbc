"""Transport by potentials and by flow matching, against the exact transport of samples by POT.

Networks are those of the recipes ot-gauss-mixture, ot-d10, ot-d50, ot-d100 and flow-matching, which are trained first
unless the folder holds them already:

    PEERS/bin/python benchmarks/transport.py --runs runs/transport

In more than two dimensions the exact cost is that of the first two coordinates: the densities are products, and all
other coordinates stay as they are. That of samples in all coordinates would depend on their number more than on them.
Beside it stands the exact transport between the start of points and their own end, which is valid in any dimension.
``--smoke`` takes few points and stores nothing.
"""

from __future__ import annotations

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

import ot
import torch
from results import PACKAGES, interleaved, store
from torch import Tensor

import evolvent as ev
from evolvent.data import DensityPairs
from evolvent.equations import TransportFlow
from evolvent.experiments import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.tasks.transport import Transport, TransportData
from evolvent.tasks.transport_view import evaluations

RECIPES = ("ot-gauss-mixture", "ot-d10", "ot-d50", "ot-d100", "flow-matching")
ASKED = "cost within 5 % of the exact one; d = 50 and 100 run; inverse(forward(x)) within 1e-3"
FINE = 64  # steps of the flow that others are compared with


def exact(x: Tensor, y: Tensor) -> float:
    """Half the squared Wasserstein distance of equally many points, by POT's network simplex."""
    squares = ot.dist(x.double().numpy(), y.double().numpy(), metric="sqeuclidean")
    return float(ot.emd2([], [], squares, numItermax=10_000_000)) / 2  # pyright: ignore[reportArgumentType]


def steps_needed(network: torch.nn.Module, x: Tensor, tolerance: float = 1e-3) -> int | None:
    """The fewest steps of RK4 whose ends differ from those of many by less than the tolerance, in root mean square."""
    fine = TransportFlow(network, FINE).path(x)[-1]
    for steps in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32):
        if (TransportFlow(network, steps).path(x)[-1] - fine).square().sum(1).mean().sqrt() < tolerance:
            return steps
    return None


@torch.no_grad()
def measured(network: Any, data: TransportData, count: int, draws: int) -> dict[str, Any]:
    """Costs and distances, means over several draws of points; of one draw what depends on it little."""
    source, target = data.densities()
    pairs, flow = DensityPairs(source, target, count * draws, part=2), TransportFlow(network, 16)
    found: list[dict[str, float]] = []
    for k in range(draws):
        x, y, _ = pairs.take(torch.arange(k * count, (k + 1) * count), 0, 0)
        further = pairs.take(torch.arange(k * count, (k + 1) * count), 1, 0)[1]
        end = flow(x)
        back = torch.linalg.vector_norm(flow.inverse(end.points).points - x, dim=1)
        way = (end.points - x).square().sum(1).mean().item() / 2
        plane = [points[:, :2] for points in (x, y, end.points, further)]
        found.append({
            "cost": end.cost.mean().item(), "exact": exact(plane[0], plane[1]), "way": way,
            "exact of own ends": exact(x, end.points), "w2 in the plane": math.sqrt(2 * exact(plane[2], plane[1])),
            "w2 of two samples": math.sqrt(2 * exact(plane[3], plane[1])),
            "inverse error, mean": back.mean().item(), "inverse error, largest": back.max().item(),
        })  # fmt: skip
    mean = {name: statistics.mean(one[name] for one in found) for name in found[0]}
    return {
        "dimension": data.dimension, "parameters": sum(p.numel() for p in network.parameters()), **mean,
        "cost over exact": mean["cost"] / mean["exact"], "way over own exact": mean["way"] / mean["exact of own ends"],
        "straightness": mean["way"] / mean["cost"], "evaluations, adaptive at 1e-4": evaluations(flow, x),
        "steps of RK4 for 1e-3": steps_needed(network, x),
    }  # fmt: skip


def iteration_times(rounds: int) -> dict[str, float]:
    """Milliseconds of the processor for one training step, 512 points."""
    recipes = {"d = 2": "ot-gauss-mixture", "d = 50": "ot-d50", "d = 2, flow matching": "flow-matching"}
    variants = {name: training_step(recipe, matching="matching" in name) for name, recipe in recipes.items()}
    seconds = interleaved(variants, rounds)
    return {name: 1000 * statistics.median(times) for name, times in seconds.items()}


def training_step(recipe: str, matching: bool) -> Any:
    cell = next(c for c in load_recipe(recipe).cells() if ("matching" in c.label) == matching)
    material = Transport.material(None, cell.data, 0)
    network = ev.create_model(cell.model.name, **material.options, **cell.model.options)
    task = Transport(network, material, cell.setup)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    batch = material.train.take(torch.arange(512), 0, 0)

    def step() -> None:
        optimizer.zero_grad()
        task.objective(batch, "network")[0].backward()
        optimizer.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("runs/transport"))
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    count, draws = (200, 1) if options.smoke else (2000, 3)
    table: dict[str, Any] = {}
    for name in RECIPES:
        recipe = load_recipe(name)
        run_grid(recipe, options.runs / name, resume=(options.runs / name).is_dir())
        for cell in recipe.cells():
            folder = options.runs / name
            folder = folder if (folder / "model").is_dir() else folder / "cells" / cell.folder_name
            key = f"{name}, {cell.label}"
            table[key] = measured(ev.load(folder / "model"), cell.data, count, draws)
            print(key, {k: round(v, 5) if isinstance(v, float) else v for k, v in table[key].items()}, flush=True)
    milliseconds = iteration_times(2 if options.smoke else 10)
    print(milliseconds)
    if not options.smoke:
        asked = {"asked": ASKED, "points": count, "draws": draws}
        store("transport", asked | {"milliseconds of a step": milliseconds, "networks": table}, (*PACKAGES, "POT"))


if __name__ == "__main__":
    main()
