"""Time of a convolutional ODE block as an Evolution against a bare Python loop, torchdiffeq and torchode.

All variants integrate the same right-hand side over the same steps and differentiate by backpropagation. They run
interleaved in one process; ratios are medians over rounds of the ratio to the bare loop in the same round. Results are
stored as ``results/odeblock.json``. Peers that are not installed are left out; see ``requirements.txt``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import torch
from results import store
from torch import Tensor

from evolvent import Evolution
from evolvent.dynamics import Dynamics, Residual
from evolvent.integrators import RK4, Euler

ROUNDS, STEPS, H = 40, 8, 0.125
SHAPE = (16, 32, 16, 16)
Block = Callable[[Tensor], Tensor]


def bare_euler(f: Dynamics, u: Tensor) -> Tensor:
    for j in range(STEPS):
        u = u + H * f(j * H, u)
    return u


def bare_rk4(f: Dynamics, u: Tensor) -> Tensor:
    for j in range(STEPS):
        t = j * H
        k1 = f(t, u)
        k2 = f(t + H / 2, u + H / 2 * k1)
        k3 = f(t + H / 2, u + H / 2 * k2)
        k4 = f(t + H, u + H * k3)
        u = u + H / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return u


def by_torchdiffeq(f: Dynamics, method: str) -> Block:
    from torchdiffeq import odeint

    times = torch.tensor([0.0, STEPS * H])
    return lambda u: odeint(f, u, times, method=method, options={"step_size": H})[-1]


def by_torchode_euler(f: Dynamics) -> Block:
    """torchode takes flat states and a time per sample."""
    import torchode

    term = torchode.ODETerm(lambda t, u: f(0.0, u.view(SHAPE)).flatten(1))
    solver = torchode.AutoDiffAdjoint(torchode.Euler(term), torchode.FixedStepController())
    end, step = torch.full((SHAPE[0],), STEPS * H), torch.full((SHAPE[0],), H)

    def block(u: Tensor) -> Tensor:
        problem = torchode.InitialValueProblem(u.flatten(1), torch.zeros(SHAPE[0]), end)
        return solver.solve(problem, dt0=step).ys[:, -1].view(SHAPE)

    return block


def variants(f: Dynamics, method: str) -> dict[str, Block]:
    bare, integrator = (bare_rk4, RK4()) if method == "rk4" else (bare_euler, Euler())
    found: dict[str, Block] = {
        "bare loop": lambda u: bare(f, u),
        "evolvent": Evolution(f, integrator, steps=STEPS, step_size=H),
        "torchdiffeq": by_torchdiffeq(f, method),
    }
    if method == "euler" and find_spec("torchode"):
        found["torchode"] = by_torchode_euler(f)
    return found


def seconds_of(block: Block, f: Dynamics, u: Tensor) -> float:
    f.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    block(u).square().mean().backward()
    return time.perf_counter() - begin


def measure(method: str) -> dict[str, dict[str, float]]:
    torch.manual_seed(0)
    f, u = Residual(SHAPE[1]), torch.randn(SHAPE)
    blocks = variants(f, method)
    expected = blocks["bare loop"](u)
    offs = {name: (block(u) - expected).abs().max().item() for name, block in blocks.items()}
    seconds: dict[str, list[float]] = {name: [] for name in blocks}
    for i in range(ROUNDS):
        for name in sorted(blocks, reverse=bool(i % 2)):  # so that none always follows the same one
            seconds[name].append(seconds_of(blocks[name], f, u))
    rows = {}
    for name, found in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(found, seconds["bare loop"], strict=True))
        fastest = min(found) / min(seconds["bare loop"])
        row = {"seconds": statistics.median(found), "ratio": ratio, "ratio_of_fastest": fastest, "off": offs[name]}
        rows[name] = row
        print(f"{method:6s}{name:12s} {row['seconds']:.3f} s  {ratio:.3f} x ({fastest:.3f})  off {offs[name]:.1e}")
    return rows


def main() -> None:
    torch.set_num_threads(1)
    cases = {method: measure(method) for method in ("euler", "rk4")}
    peers = tuple(name for name in ("torchdiffeq", "torchode") if find_spec(name))
    circumstances = {"asked": "at most 1.05 x the bare loop", "rounds": ROUNDS, "steps": STEPS, "shape": SHAPE}
    store("odeblock", {**circumstances, "cases": cases}, ("evolvent", "torch", *peers))


if __name__ == "__main__":
    main()
