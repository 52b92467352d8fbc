"""Layer-parallel solves: how their residuals fall, how exact they are, and a model of what many workers would gain."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.dynamics import Hamiltonian
from evolvent.evolution import Evolution
from evolvent.experiments.studies.scaling_model import StepCosts, modelled_speedup
from evolvent.gradients import Backprop, GradientStrategy, LayerParallel
from evolvent.integrators import Verlet
from evolvent.tasks.findings import Curve, Findings, Table, Tell


class Settings(Config):
    """An evolution of many layers whose weights change smoothly in time, as trained and refined ones do."""

    width: int = Field(default=16, ge=2, multiple_of=2)
    knots: int = Field(default=4, ge=1, description="independent weights in time; the rest is interpolated")
    refinements: int = Field(default=6, ge=1, description="doublings of the steps: 4 knots give 256 layers")
    end_time: float = Field(default=1.0, gt=0)
    batch: int = Field(default=64, ge=1)
    solves: list[tuple[int, int]] = Field(
        default=[(2, 2), (4, 2), (8, 2), (4, 3)], min_length=1, description="coarsening factor and number of levels"
    )
    tolerance: float = Field(default=1e-9, gt=0)
    workers: list[int] = Field(default=[1, 2, 4, 8, 16, 32, 64, 128], min_length=1)
    modelled_layers: int = Field(default=1024, ge=1)
    message_microseconds: float = Field(default=50.0, gt=0, description="assumed, to hand one state to a neighbour")
    rounds: int = Field(default=60, ge=3, description="timings of a step, of which the median is taken")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 0))
        evolution, u0 = _evolution(settings), torch.randn(settings.batch, settings.width).double()
    tell(0.0, "serial")
    value, gradient = _gradient(evolution, u0, Backprop())
    rows, cycles = [], {}
    residuals: dict[str, dict[str, Any]] = {"forward": {}, "backward": {}}
    for k, (c, levels) in enumerate(settings.solves):
        name = f"coarsening {c}, {levels} levels"
        tell(0.1 + 0.8 * k / len(settings.solves), name)
        strategy = LayerParallel(c, levels, settings.tolerance)
        found = _gradient(evolution, u0, strategy)
        whole = _gradient(evolution, u0, LayerParallel(c, levels))
        histories = strategy.forward_residuals, strategy.backward_residuals
        for lines, history in zip(residuals.values(), histories, strict=True):
            lines[name] = (list(range(1, len(history) + 1)), history)
        cycles[c, levels] = len(histories[0]), len(histories[1])
        errors = _distance(found[0], value), _distance(found[1], gradient), _distance(whole[1], gradient)
        rows.append([name, *cycles[c, levels], *errors])
    tell(0.9, "timing a step")
    costs = _costs(evolution, u0, settings)
    speedups = _speedups(settings, cycles, costs)
    return Findings(
        answer=_answer(rows, speedups, settings, evolution.steps),
        tables=[_exactness(rows, settings), _cost_table(costs), _model_table(speedups, settings)],
        curves=[
            *(
                Curve(f"Residual of the {direction} solves", "cycle", "relative residual", lines, log_y=True)
                for direction, lines in residuals.items()
            ),
            *_model_curves(speedups, settings),
        ],
    )


def _evolution(settings: Settings) -> Evolution:
    """Random weights at few times, interpolated to many layers."""
    half = settings.width // 2
    layers = [Hamiltonian(half, operator="dense", bias=True, activation="tanh") for _ in range(settings.knots)]
    evolution = Evolution(layers, Verlet(), step_size=settings.end_time / settings.knots).double()
    for _ in range(settings.refinements):
        evolution = evolution.refine("linear")
    return evolution


def _gradient(evolution: Evolution, u0: Tensor, strategy: GradientStrategy) -> tuple[Tensor, Tensor]:
    """The value at the end and the gradient of all parameters in one vector."""
    evolution.gradient = strategy
    end = evolution(u0)
    assert isinstance(end, Tensor)
    found = torch.autograd.grad(end.square().sum(), list(evolution.parameters()))
    return end.detach(), torch.cat([g.flatten() for g in found])


def _distance(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


def _costs(evolution: Evolution, u0: Tensor, settings: Settings) -> StepCosts:
    """Median seconds of one step and of its derivatives, timed in turn."""
    u = evolution.dynamics_at(0).enter(u0)
    leaf = tuple(part.clone().requires_grad_() for part in u)
    after: Any = evolution.step(0, leaf)
    weights = list(evolution.dynamics_at(0).parameters())
    work: dict[str, Callable[[], Any]] = {
        "forward": torch.no_grad()(lambda: evolution.step(0, u)),
        "taped": lambda: evolution.step(0, leaf),
        "pull_back": lambda: torch.autograd.grad(after, leaf, u, retain_graph=True),
        "weights": lambda: torch.autograd.grad(after, weights, u, retain_graph=True),
        "backprop": lambda: torch.autograd.grad(after, [*leaf, *weights], u, retain_graph=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(settings.rounds):
        for name, make in work.items():
            began = time.perf_counter()
            make()
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return StepCosts(**medians, message=settings.message_microseconds * 1e-6)


def _speedups(
    settings: Settings, cycles: dict[tuple[int, int], tuple[int, int]], costs: StepCosts
) -> dict[str, list[float]]:
    """Modelled speed-ups of solves to the tolerance, and of two cycles in each direction, which are not exact."""
    found = {}
    for ending in (f"to {settings.tolerance:g}", "2 cycles"):
        for c, levels in settings.solves:
            made = (2, 2) if ending == "2 cycles" else cycles[c, levels]
            found[f"coarsening {c}, {levels} levels, {ending}"] = [
                modelled_speedup(settings.modelled_layers, c, levels, w, made, costs) for w in settings.workers
            ]
    return found


def _exactness(rows: list[list[Any]], settings: Settings) -> Table:
    columns = ["solve", "forward cycles", "backward cycles", "error of the value", "error of the gradient",
               "of the gradient, iterated to rounding"]  # fmt: skip
    return Table(f"Against serial backpropagation, residual {settings.tolerance:g}", columns, rows)


def _cost_table(costs: StepCosts) -> Table:
    names = {"forward": "step", "taped": "step with graph", "pull_back": "derivative for the state",
             "weights": "derivative for the weights", "backprop": "both derivatives"}  # fmt: skip
    rows = [[name, 1e6 * getattr(costs, key), "measured"] for key, name in names.items()]
    return Table("Costs in microseconds", ["what", "µs", "how"], [*rows, ["message", 1e6 * costs.message, "assumed"]])


def _model_table(speedups: dict[str, list[float]], settings: Settings) -> Table:
    title = f"MODEL, not measured: speed-up for {settings.modelled_layers:,} layers over serial backpropagation"
    return Table(title, ["solve", *(f"{w}" for w in settings.workers)], [[n, *v] for n, v in speedups.items()])


def _model_curves(speedups: dict[str, list[float]], settings: Settings) -> list[Curve]:
    curves = []
    for ending in dict.fromkeys(name.rpartition(", ")[2] for name in speedups):
        lines = {name: (settings.workers, v) for name, v in speedups.items() if name.endswith(ending)}
        title = f"MODEL, not measured: speed-up of solves {'with ' if 'cycles' in ending else ''}{ending}"
        curves.append(Curve(title, "workers", "speed-up over serial", lines, log_x=True, log_y=True))
    return curves


def _answer(rows: list[list[Any]], speedups: dict[str, list[float]], settings: Settings, layers: int) -> str:
    quickest = min(rows, key=lambda row: row[1] + row[2])
    exact = max(row[5] for row in rows)
    inexact = {name: values for name, values in speedups.items() if name.endswith("2 cycles")}
    converged = {name: values for name, values in speedups.items() if name not in inexact}
    return (
        f"Over {layers} layers the solves need {quickest[1]} forward and {quickest[2]} backward cycles at best and, "
        f"iterated to rounding, give the serial gradient to {exact:.0e}; by a model, not a measurement, solves of "
        f"{settings.modelled_layers:,} layers to {settings.tolerance:g} {_gain(converged, settings.workers)}, and with "
        f"two cycles, which are not exact, {_gain(inexact, settings.workers)}."
    )


def _gain(speedups: dict[str, list[float]], workers: list[int]) -> str:
    """From how many workers on the best solve beats serial backpropagation, and by how much at most."""
    best = [max(values) for values in zip(*speedups.values(), strict=True)]
    pays = [w for w, gain in zip(workers, best, strict=True) if gain > 1]
    if not pays:
        return f"do not pay up to {workers[-1]} workers"
    return f"pay from {pays[0]} workers and gain at most {max(best):.1f}-fold"
