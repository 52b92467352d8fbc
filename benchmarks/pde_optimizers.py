"""Optimisers of physics-informed networks beside each other: relative error over CPU time, one thread, float64.

Every one begins from the same weights with the same 100 steps of Adam. Gauss-Newton has 500 points, since its cost
grows with them, all others 2,000. ``--smoke`` runs for a second each and stores nothing;
``python pde_optimizers.py soap`` measures one beside what is stored.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from results import PACKAGES, store

from evolvent import create_model
from evolvent.experiments.freed_memory import keep_freed_memory
from evolvent.tasks import OptimizerConfig, Pde, Setup, make_optimizer
from evolvent.tasks.pde import PdeData, PdeSettings
from evolvent.tasks.pde.ansatz import Hardness

STORED = Path(__file__).parent / "results" / "pde_optimizers.json"
PROBLEMS: dict[str, Hardness] = {"heat": "soft", "poisson": "hard"}  # with how values on the boundary are asked for
OPTIMIZERS: dict[str, tuple[int, dict[str, Any]]] = {  # points and settings
    "adam": (2000, {"lr": 2e-3}),
    "soap": (2000, {"lr": 5e-3}),
    "lbfgs": (2000, {"lr": 1.0, "iterations": 10}),
    "ssbroyden": (2000, {"iterations": 10}),
    "gauss-newton": (500, {}),
}
MARKS = (1.0, 3.0, 6.0, 12.0)  # CPU seconds at which the error is told


def made(problem: str, points: int) -> Pde:
    data = PdeData(name=problem, points=points, face_points=200, grid=[101, 101])
    material = Pde.material(Pde.read(data, None), data, 0)
    torch.manual_seed(0)
    model = create_model("perceptron", **material.options).double()
    return Pde(model, material, Setup(PdeSettings(boundary=PROBLEMS[problem]), data))


def error_of(task: Pde) -> float:
    points = task.problem.grid(101, 101)
    known = task.problem.solution(points)
    with torch.no_grad():
        return ((task.solution(points) - known).norm() / known.norm()).item()


def trained(problem: str, name: str, marks: tuple[float, ...]) -> dict[str, Any]:
    """The error at each mark; evaluating it does not count."""
    points, settings = OPTIMIZERS[name]
    task = made(problem, points)
    batch = task.source.take(torch.arange(points), 0, 0)
    parameters = list(task.model.parameters())

    def gradient() -> torch.Tensor:
        for p in parameters:
            p.grad = None
        loss = task.objective(batch, "network")[0]
        loss.backward()
        return loss

    def step(optimizer: torch.optim.Optimizer) -> None:
        if getattr(optimizer, "needs_residuals", False):
            optimizer.step(gradient, lambda: task.residuals(batch, "network"))  # pyright: ignore[reportCallIssue]
        else:
            optimizer.step(gradient)  # pyright: ignore[reportArgumentType, reportCallIssue]

    began, left, errors, steps = time.process_time(), list(marks), [], 0
    first = make_optimizer(parameters, OptimizerConfig(name="adam", lr=5e-3))
    for _ in range(100):
        step(first)
    optimizer = make_optimizer(parameters, OptimizerConfig(name=name, **settings))
    while left and not getattr(optimizer, "stopped", ""):
        step(optimizer)
        steps += 1
        if (now := time.process_time()) - began >= left[0]:
            left.pop(0)
            errors.append(error_of(task))
            began += time.process_time() - now
    found = {"points": points, "steps": steps, "errors": errors, "stopped": getattr(optimizer, "stopped", "")}
    print(problem, name, [f"{error:.2g}" for error in errors], found["stopped"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("optimizers", nargs="*")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    marks = (0.5, 1.0) if given.smoke else MARKS
    found = json.loads(STORED.read_text(encoding="utf-8"))["found"] if STORED.is_file() else {}
    for name in given.optimizers or OPTIMIZERS:
        for problem in PROBLEMS:
            found.setdefault(problem, {})[name] = trained(problem, name, marks)
        if not given.smoke:
            store("pde_optimizers", {"cpu_seconds": list(marks), "found": found}, PACKAGES)


if __name__ == "__main__":
    main()
