"""Layer-parallel solves: how the residual falls, how exact they are, and a MODEL of the time on 1-128 workers.

The evolution is the unit of a Hamiltonian network that was trained on scikit-learn's digits with 4 steps and refined to
128, and for contrast one of 32 steps with unrelated random weights. Residuals, errors, cycles and the costs of a step
and of a message are measured, in one process and in two. The times on many workers are not: they follow from a count of
steps and messages on the critical path, which is checked against the steps that one process makes.
Results are stored as ``results/layer_parallel.json``.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from results import store
from torch import Tensor
from torch.nn import functional as F

from evolvent import Evolution, create_model, data, evolutions, refine
from evolvent.dynamics import Hamiltonian
from evolvent.experiments.studies.scaling_model import StepCosts, critical_path, modelled_speedup
from evolvent.gradients import Backprop, GradientStrategy, LayerParallel
from evolvent.integrators import Verlet

BATCH, CHANNELS, TOLERANCE = 8, 16, 1e-9
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128)
MODEL_STEPS = 1024
SETTINGS = ((2, 2), (4, 2), (8, 2), (4, 3))


def trained_evolution() -> tuple[Evolution, Tensor]:
    """A Hamiltonian unit trained on digits and refined to 128 steps, and the features that enter it."""
    torch.manual_seed(0)
    digits = data.load("digits").train
    x, y = digits.images.double() / 255, digits.labels
    model = create_model(
        "hamiltonian", in_channels=1, image_size=tuple(x.shape[2:]), channels=(CHANNELS,), blocks=4, step_size=0.25
    ).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for index in torch.randperm(len(x))[:1280].split(64):
        loss = F.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for _ in range(5):
        model = refine(model)
    [(_, evolution)] = evolutions(model)
    return evolution, model.stem(x[:BATCH]).detach()  # pyright: ignore[reportCallIssue]


def random_evolution() -> Evolution:
    torch.manual_seed(1)
    return Evolution([Hamiltonian(CHANNELS // 2) for _ in range(32)], Verlet(), step_size=1 / 32).double()


def gradients(evolution: Evolution, u0: Tensor, strategy: GradientStrategy) -> tuple[Tensor, Tensor]:
    """The value and the gradient of all parameters in one vector."""
    evolution.gradient = strategy
    evolution.zero_grad()
    value = evolution(u0)
    value.square().sum().backward()
    return value.detach(), torch.cat([p.grad.flatten() for p in evolution.parameters() if p.grad is not None])


def histories(evolution: Evolution, u0: Tensor) -> dict[str, Any]:
    """Residuals per cycle and the distance to backpropagation, for every setting."""
    value, gradient = gradients(evolution, u0, Backprop())
    rows: dict[str, Any] = {}
    for c, levels in SETTINGS:
        strategy = LayerParallel(c, levels, TOLERANCE)
        found = gradients(evolution, u0, strategy)
        exact = gradients(evolution, u0, LayerParallel(c, levels))
        rows[f"c={c}, {levels} levels"] = {
            "forward_residuals": strategy.forward_residuals,
            "backward_residuals": strategy.backward_residuals,
            "value_error": distance(found[0], value),
            "gradient_error": distance(found[1], gradient),
            "gradient_error_iterated_to_rounding": distance(exact[1], gradient),
        }
        print(f"c={c}, {levels} levels: {len(strategy.forward_residuals)} + {len(strategy.backward_residuals)} cycles, "
              f"gradient off by {rows[f'c={c}, {levels} levels']['gradient_error']:.1e}")  # fmt: skip
    return rows


def distance(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


def step_costs(evolution: Evolution, u0: Tensor) -> dict[str, float]:
    """Seconds of one step without and with graph, and of its pull-back to the state, and to state and weights."""
    u = evolution.dynamics_at(0).enter(u0)
    leaf = tuple(p.clone().requires_grad_() for p in u)
    after = evolution.step(0, leaf)
    weights = list(evolution.dynamics_at(0).parameters())
    work: dict[str, Callable[[], Any]] = {
        "forward": torch.no_grad()(lambda: evolution.step(0, u)),
        "forward_taped": lambda: evolution.step(0, leaf),
        "pull_back": lambda: torch.autograd.grad(after, leaf, u, retain_graph=True),
        "weights": lambda: torch.autograd.grad(after, weights, u, retain_graph=True),
        "backprop": lambda: torch.autograd.grad(after, [*leaf, *weights], u, retain_graph=True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(60):  # interleaved
        for name, run in work.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def ping(rank: int, port: int, shape: tuple[int, ...], result: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    message, seconds = torch.zeros(shape, dtype=torch.float64), []
    for _ in range(100):
        began = time.perf_counter()
        for turn in range(2):
            (dist.send if turn == rank else dist.recv)(message, 1 - rank)
        seconds.append((time.perf_counter() - began) / 2)
    if rank == 0:
        result.value = statistics.median(seconds)
    dist.destroy_process_group()


def message_cost(shape: tuple[int, ...]) -> float:
    """Seconds to hand one state to another process of this machine."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    result = mp.get_context("spawn").Value("d", 0.0)
    mp.spawn(ping, (port, shape, result), nprocs=2)  # pyright: ignore[reportPrivateImportUsage]
    return result.value


def modelled(c: int, levels: int, cycles: tuple[int, int], costs: dict[str, float], message: float) -> dict[str, Any]:
    """The modelled ratio of serial backpropagation to a forward and backward pass over ``MODEL_STEPS`` layers."""
    steps = StepCosts(
        forward=costs["forward"],
        taped=costs["forward_taped"],
        pull_back=costs["pull_back"],
        weights=costs["weights"],
        backprop=costs["backprop"],
        message=message,
    )
    speedups = {w: modelled_speedup(MODEL_STEPS, c, levels, w, cycles, steps) for w in WORKERS}
    return {"cycles": cycles, "speedup": speedups}


def check_count(evolution: Evolution, u0: Tensor) -> dict[str, int]:
    """The model's steps on one worker against the steps that are made."""
    made, real = [0], evolution.step

    def counted(j: int, u: Any, stride: int = 1) -> Any:
        made[0] += 1
        return real(j, u, stride)

    vars(evolution)["step"] = counted
    evolution.gradient = LayerParallel(4, 3, tolerance=0.0, max_iterations=2)
    evolution.gradient.warns = False  # pyright: ignore[reportAttributeAccessIssue]
    with torch.no_grad():
        evolution(u0)
    del vars(evolution)["step"]
    expected, _ = critical_path(evolution.steps, 4, 3, 1, 2)
    assert made[0] == expected, (made[0], expected)
    return {"steps_made": made[0], "steps_modelled": expected}


def main() -> None:
    torch.set_num_threads(1)
    evolution, u0 = trained_evolution()
    measured = {"trained, 128 steps": histories(evolution, u0), "random, 32 steps": histories(random_evolution(), u0)}
    costs, message = step_costs(evolution, u0), message_cost((BATCH, CHANNELS, *u0.shape[2:]))
    print({name: f"{value * 1e6:.0f} us" for name, value in {**costs, "message": message}.items()})
    rows = {}
    for c, levels in SETTINGS:
        row = measured["trained, 128 steps"][f"c={c}, {levels} levels"]
        converged = len(row["forward_residuals"]), len(row["backward_residuals"])
        for name, cycles in {"to 1e-9": converged, "2 cycles": (2, 2), "1 cycle (simultaneous)": (1, 1)}.items():
            rows[f"c={c}, {levels} levels, {name}"] = found = modelled(c, levels, cycles, costs, message)
            speedups = {w: round(ratio, 2) for w, ratio in found["speedup"].items()}
            print(f"MODEL c={c}, {levels} levels, {name}: speed-up by workers {speedups}")
    store(
        "layer_parallel",
        {
            "evolution": f"Hamiltonian, {CHANNELS} channels, batch {BATCH}, {tuple(u0.shape[2:])} pixels, float64",
            "tolerance": TOLERANCE,
            "measured": measured,
            "step_count": check_count(evolution, u0),
            "measured_seconds": {**costs, "message": message},
            "MODEL_not_measured": {
                "what": f"forward and backward over {MODEL_STEPS} layers on 1-128 workers against serial "
                "backpropagation, from measured step and message costs; cycles are those measured with 128 layers",
                "rows": rows,
            },
        },
    )


if __name__ == "__main__":
    main()
