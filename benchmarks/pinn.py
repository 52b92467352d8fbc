"""Physics-informed networks: time of an iteration, and the error over processor time, against DeepXDE.

1. The same network (tanh, three layers of 30), points, weights and optimiser (Adam, float64) on the Allen-Cahn, Burgers
   and Korteweg-de Vries equations, interleaved in one process: the time of an iteration.
2. Each with its best settings: relative L2 errors over the processor time of a training with one thread. Ours are the
   recipes ``solve-*``, three seeds; DeepXDE has the setting of its own examples (Adam, then L-BFGS with the settings of
   its documentation; hard initial and boundary values where an example has them), one seed, for at least as long as
   ours: half of ``--seconds`` by Adam, the rest by L-BFGS until it stops.

Results are stored as ``results/pinn.json``. ``--smoke`` runs a few iterations and stores nothing; ``--only NAME`` runs
one equation, ``--step`` the first part alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import PACKAGES, interleaved, store

from evolvent.equations.problems import create_problem
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.tasks.pde import Pde

os.environ.setdefault("DDE_BACKEND", "pytorch")
EQUATIONS = ("allen-cahn", "burgers", "kdv")
ASKED = {
    "iteration": "at most 0.5 x the time of DeepXDE's",
    "allen-cahn": "2e-5 after 300 s, aim 2e-6",
    "burgers": "3e-6, aim 1e-7",
    "kdv": "1e-3, aim 1e-4",
}
POINTS, START, ROUNDS, TOGETHER = 4000, 400, 9, 20


def deepxde_problem(name: str, hard: bool) -> tuple[Any, Callable[[Any, Any], Any] | None]:
    """DeepXDE's form of an equation: its data, and what makes conditions hard, as its examples have it."""
    import deepxde as dde

    def second(u: Any, x: Any, i: int = 0) -> Any:
        return dde.grad.hessian(u, x, i=i, j=i)

    def first(u: Any, x: Any, i: int) -> Any:
        return dde.grad.jacobian(u, x, i=0, j=i)

    def third(u: Any, x: Any) -> Any:
        return dde.grad.jacobian(second(u, x), x, i=0, j=0)

    equations = {
        "allen-cahn": lambda x, u: first(u, x, 1) - 1e-4 * second(u, x) - 5 * (u - u**3),
        "burgers": lambda x, u: first(u, x, 1) + u * first(u, x, 0) - 0.01 / np.pi * second(u, x),
        "kdv": lambda x, u: first(u, x, 1) + u * first(u, x, 0) + 0.022**2 * third(u, x),
    }
    starts = {
        "allen-cahn": lambda x: x[:, :1] ** 2 * np.cos(np.pi * x[:, :1]),
        "burgers": lambda x: -np.sin(np.pi * x[:, :1]),
        "kdv": lambda x: np.cos(np.pi * x[:, :1]),
    }
    domain = dde.geometry.GeometryXTime(dde.geometry.Interval(-1, 1), dde.geometry.TimeDomain(0, 1))
    conditions: list[Any] = []
    transform = None
    if hard and name == "allen-cahn":  # of its example

        def transform(x: Any, u: Any) -> Any:
            return x[:, 0:1] ** 2 * torch.cos(np.pi * x[:, 0:1]) + x[:, 1:2] * (1 - x[:, 0:1] ** 2) * u

    else:
        conditions.append(dde.icbc.IC(domain, starts[name], lambda _, initial: initial))
        if hard and name == "burgers":
            conditions.append(dde.icbc.DirichletBC(domain, lambda x: 0, lambda _, boundary: boundary))
        if hard and name == "kdv":
            for order in range(3):
                side = lambda _, boundary: boundary  # noqa: E731
                conditions.append(dde.icbc.PeriodicBC(domain, 0, side, derivative_order=order))
    edge = 400 if hard and name != "allen-cahn" else 0
    points = 8000 if hard else POINTS
    data = dde.data.TimePDE(
        domain, equations[name], conditions, num_domain=points, num_boundary=edge, num_initial=0 if transform else START
    )
    return data, transform


def deepxde_model(name: str, hard: bool) -> Any:
    import deepxde as dde

    dde.config.set_default_float("float64")
    dde.config.set_random_seed(0)
    data, transform = deepxde_problem(name, hard)
    net = dde.nn.FNN([2, *[20 if hard else 30] * 3, 1], "tanh", "Glorot normal")
    if transform is not None:
        net.apply_output_transform(transform)
    return dde.Model(data, net)


def iterations(name: str) -> dict[str, Callable[[], object]]:
    """``TOGETHER`` iterations of Adam by each."""
    theirs = deepxde_model(name, hard=False)
    theirs.compile("adam", lr=1e-3)
    settings = [
        f"data.points={POINTS}", f"data.face_points={START}", "task.phases=[]", "task.resample_at=[]",
        "model.options={width: 30}", "optimizer={name: adam, lr: 0.001}",
    ]  # fmt: skip
    cell = load_recipe(f"solve-{name}", settings, 0).cells()[0]
    from evolvent.experiments.engine import DataShelf, build_model

    material = DataShelf().material(cell)
    task = cell.kind(build_model(cell, material), material, cell.setup).double()
    assert isinstance(task, Pde)
    batch, optimizer = material.train.take(torch.arange(POINTS), 0, 0), torch.optim.Adam(task.parameters(), fused=True)

    def ours() -> None:
        for _ in range(TOGETHER):
            optimizer.zero_grad()
            task.objective(batch, "network")[0].backward()
            optimizer.step()

    return {"deepxde": lambda: theirs.train(iterations=TOGETHER, display_every=10**9, verbose=0), "evolvent": ours}


def step_times(names: tuple[str, ...], rounds: int) -> dict[str, Any]:
    found = {}
    for name in names:
        spent = interleaved(iterations(name), rounds)
        ratio = statistics.median(a / b for a, b in zip(spent["evolvent"], spent["deepxde"], strict=True))
        each = {who: 1e3 * statistics.median(times) / TOGETHER for who, times in spent.items()}
        found[name] = {"milliseconds": each, "ratio": ratio}
        print(f"  {name:12s} {each['evolvent']:7.1f} ms against {each['deepxde']:7.1f} ms: {ratio:.2f} x", flush=True)
    return found


class Clock(Observer):
    """Processor time at the end of each epoch."""

    interval = 1e9

    def __init__(self) -> None:
        self.begin, self.times = time.process_time(), []

    def cell_progresses(self, cell: Any, progress: Any) -> None:
        if progress.epoch_ends:
            self.times.append(time.process_time() - self.begin)


def trained_here(name: str, seed: int, smoke: bool) -> list[list[float]]:
    """Processor seconds and relative errors of a recipe, in this process."""
    settings = ["training.steps=4", "task.phases=[]"] if smoke else []
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        run_grid(load_recipe(f"solve-{name}", settings, seed), Path(folder), observer=clock)
        with (Path(folder) / "metrics.csv").open() as file:
            errors = [float(row["test_error"]) for row in csv.DictReader(file)]
    return [[round(t, 2), error] for t, error in zip(clock.times, errors, strict=True)]


def trained_there(name: str, seconds: float) -> list[list[float]]:
    """The same of DeepXDE: half of the time by Adam, the rest by L-BFGS."""
    import deepxde as dde

    problem = create_problem(name)
    points = problem.grid(256, 101)
    values, model, found = problem.solution(points).numpy(), deepxde_model(name, hard=True), []
    begin = time.process_time()

    def measure() -> float:
        spent = time.process_time() - begin
        off = model.predict(points.numpy()) - values
        found.append([round(spent, 2), float(np.linalg.norm(off) / np.linalg.norm(values))])
        return spent

    model.compile("adam", lr=1e-3)
    while measure() < seconds / 2:
        model.train(iterations=500, display_every=10**9, verbose=0)
    dde.optimizers.config.set_LBFGS_options(maxiter=500, ftol=0, gtol=1e-9)
    model.compile("L-BFGS")
    while measure() < seconds:
        model.train(display_every=10**9, verbose=0)
        if len(found) > 4 and found[-1][1] == found[-2][1]:  # it stopped
            break
    return found


def alone(*arguments: str) -> list[list[float]]:
    """A training in a process of its own."""
    run = subprocess.run(
        [sys.executable, __file__, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return json.loads(run.stdout.splitlines()[-1])


def errors_over_time(name: str, seconds: float) -> dict[str, Any]:
    curves = [alone("--train", name, "--seed", str(seed)) for seed in range(3)]
    last = [curve[-1][1] for curve in curves]
    spent = max(curve[-1][0] for curve in curves)
    theirs = alone("--peer", name, "--seconds", str(seconds))
    print(
        f"  {name:12s} {statistics.median(last):.1e} (worst {max(last):.1e}) after {spent:.0f} s; DeepXDE "
        f"{min(error for _, error in theirs):.1e} after {theirs[-1][0]:.0f} s",
        flush=True,
    )
    return {"asked": ASKED[name], "median": statistics.median(last), "worst": max(last), "cpu_seconds": spent,
            "evolvent": curves, "deepxde": theirs}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--step", action="store_true", help="the time of iterations alone")
    parser.add_argument("--only", choices=EQUATIONS)
    parser.add_argument("--train", choices=EQUATIONS)
    parser.add_argument("--peer", choices=EQUATIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.train or given.peer:
        found = trained_there(given.peer, given.seconds) if given.peer else trained_here(given.train, given.seed, False)
        print(json.dumps(found))
        return
    names = (given.only,) if given.only else EQUATIONS
    print(f"an iteration of Adam, {POINTS} points, float64")
    measured: dict[str, Any] = {
        "asked": ASKED["iteration"],
        "iteration": step_times(names, 1 if given.smoke else ROUNDS),
    }
    if given.smoke or given.step:
        return
    print("relative L2 error, three seeds")
    measured["error"] = {}
    for name in names:  # stored one by one, since each takes a quarter of an hour
        measured["error"][name] = errors_over_time(name, given.seconds)
        store("pinn", with_earlier(measured), (*PACKAGES, "deepxde"))


def with_earlier(measured: dict[str, Any]) -> dict[str, Any]:
    """What was measured now, with what is stored of other equations."""
    path = Path(__file__).parent / "results" / "pinn.json"
    earlier = json.loads(path.read_text()) if path.is_file() else {}
    parts = ("iteration", "error")
    return {**measured, **{part: {**earlier.get(part, {}), **measured[part]} for part in parts}}


if __name__ == "__main__":
    main()
