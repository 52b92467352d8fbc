"""Time, memory and exactness of gradient strategies on Hamiltonian networks, against backpropagation and RevTorch.

Variants run interleaved in one process; ratios are medians over rounds of the ratio to plain in the same round. Peak
memory is that of the process (resident set, above what was there before the pass, with what the warm-up left given
back), the median of three processes for each variant. It holds the weights' gradients, whose size is told apart, since
they grow with the depth whatever the strategy does: beside batches of 16 they weigh heavily, beside batches of 100, for
which memory is measured as well, little. Gradient errors are relative to float64. For whole deep networks
the memory of a training step (pass and momentum update) is measured in the same way. Results are stored as
``results/reversible.json``.

RevTorch is left out where it is not installed; see ``requirements.txt``.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from results import store
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import create_model, evolutions, set_gradient

BATCH, PAPER_BATCH = 16, 100
ROUNDS = {6: 24, 60: 8}
STRATEGIES = {
    "plain": "backprop",
    "torch checkpoint, every block": "checkpoint:1",
    "torch checkpoint, sqrt": "checkpoint:sqrt",
    "binomial checkpoint, 4 states": "checkpoint:binomial:4",
    "reversible": "reversible",
    "reversible, anchor every 10": "reversible:10",
}
VARIANTS = [*STRATEGIES, *(["RevTorch"] if find_spec("revtorch") else [])]
DEEP = ("hyperbolic_wavelet", "hamiltonian1202")
ASKED = (
    "reversible at most 1.35 x plain at m = 6 and m = 60; peak memory at m = 60 at most 1.2 x that at m = 6; "
    f"a training step of {' and '.join(DEEP)} in under 400 MiB above the weights"
)
SMALL_PIECES_GO_BACK = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_TRIM_THRESHOLD_": "4096", "OMP_NUM_THREADS": "1"}


class Scaled(nn.Module):
    """A layer times a number, as RevTorch's blocks want it."""

    def __init__(self, layer: nn.Module, factor: float) -> None:
        super().__init__()
        self.layer, self.factor = layer, factor

    def forward(self, u: Tensor) -> Tensor:
        return self.factor * self.layer(u)


def with_revtorch(model: nn.Module) -> nn.Module:
    """The same network with RevTorch's sequences in the place of evolutions, on the same parameters."""
    from revtorch import ReversibleBlock, ReversibleSequence

    for name, flow in list(evolutions(model)):
        h = flow.step_size
        blocks = [ReversibleBlock(Scaled(f.layer1, h), Scaled(f.layer2, -h)) for f in flow.dynamics]
        model.set_submodule(name, ReversibleSequence(nn.ModuleList(blocks)))
    return model


def make(variant: str, blocks: int) -> nn.Module:
    torch.manual_seed(0)
    model = create_model("hamiltonian", blocks=blocks)
    if variant == "RevTorch":
        return with_revtorch(model)
    set_gradient(model, STRATEGIES[variant])
    return model


def batch(size: int = BATCH) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(size, 3, 32, 32, generator=draw), torch.randint(0, 10, (size,), generator=draw)


def train_pass(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Seconds of one forward and backward pass."""
    model.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    F.cross_entropy(model(x), y).backward()
    return time.perf_counter() - begin


def gradient(model: nn.Module) -> Tensor:
    """All gradients, in an order that does not depend on the variant."""
    return torch.cat([p.grad.double().flatten() for p in sorted_parameters(model)])


def sorted_parameters(model: nn.Module) -> list[nn.Parameter]:
    return list(model.stem.parameters()) + list(model.body.parameters()) + list(model.head.parameters())


def times_and_errors(blocks: int) -> dict[str, dict[str, float]]:
    models, (x, y) = {variant: make(variant, blocks) for variant in VARIANTS}, batch()
    exact = make("plain", blocks).double()
    train_pass(exact, x.double(), y)
    expected, errors = gradient(exact), {}
    for variant, model in models.items():  # also warms up
        train_pass(model, x, y)
        errors[variant] = ((gradient(model) - expected).norm() / expected.norm()).item()
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for i in range(ROUNDS[blocks]):
        for variant in sorted(models, reverse=bool(i % 2)):  # so that none always follows the same one
            seconds[variant].append(train_pass(models[variant], x, y))
    rows = {}
    for variant, found in seconds.items():
        ratios = [a / b for a, b in zip(found, seconds["plain"], strict=True)]
        rows[variant] = {
            "seconds": statistics.median(found),
            "ratio": statistics.median(ratios),
            "ratio_of_fastest": min(found) / min(seconds["plain"]),
            "gradient_error": errors[variant],
        }
    return rows


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def train_step(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """One pass and the update of the weights, which makes its momentum."""
    train_pass(model, x, y)
    torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9).step()


def peak_here(model: nn.Module, work: Callable[[nn.Module, Tensor, Tensor], object], size: int = BATCH) -> float:
    """Peak resident MiB of work in this process above what was there before it."""
    torch.set_num_threads(1)
    work(copy.deepcopy(model), *batch(1))  # kernels are compiled and buffers made
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else what the warm-up freed hides later use
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts afresh
    before = resident("VmRSS")
    work(model, *batch(size))
    return (resident("VmHWM") - before) / 2**20


def peak_of_pass(variant: str, blocks: str, size: str) -> float:
    return peak_here(make(variant, int(blocks)), train_pass, int(size))


def peak_of_step(network: str, strategy: str) -> float:
    model = create_model(network)
    set_gradient(model, strategy)
    return peak_here(model, train_step)


def peak_apart(measure: Callable[..., float], *arguments: str) -> float:
    """The median of three processes."""
    command = [sys.executable, __file__, measure.__name__, *arguments]
    env = {**os.environ, **SMALL_PIECES_GO_BACK}
    runs = [subprocess.run(command, env=env, capture_output=True, text=True, check=True) for _ in range(3)]
    return statistics.median(json.loads(done.stdout) for done in runs)


def weights_mib(model: nn.Module) -> float:
    """MiB of the weights, which is also what their gradients need."""
    return sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20


def growth(size: int) -> dict[str, dict[str, float]]:
    """Peak MiB of a pass over ``size`` images at all depths, gradients and all, and the last in terms of the first."""
    rows = {}
    for variant in ("plain", "reversible"):
        peaks = {f"m = {blocks}": peak_apart(peak_of_pass, variant, str(blocks), str(size)) for blocks in ROUNDS}
        first, *_, last = peaks.values()
        rows[variant] = {**peaks, "ratio": last / first}
        print(f"batch {size}: {variant:12s} {first:7.1f} -> {last:7.1f} MiB, {last / first:5.2f} x")
    return rows


def deep_networks() -> dict[str, dict[str, float]]:
    """Peak MiB of a training step of whole networks as they are registered, and their weights."""
    rows = {}
    for network in DEEP:
        weights = weights_mib(create_model(network))
        plain, reversible = (peak_apart(peak_of_step, network, strategy) for strategy in ("backprop", "reversible"))
        rows[network] = {"weights_mib": weights, "plain_mib": plain, "reversible_mib": reversible}
        print(f"{network:18s} {weights:.1f} MiB; a step: plain {plain:.1f} MiB, reversible {reversible:.1f} MiB more")
    return rows


def main() -> None:
    torch.set_num_threads(1)
    cases = {}
    for blocks in ROUNDS:
        rows = times_and_errors(blocks)
        for variant, row in rows.items():
            row["peak_mib"] = peak_apart(peak_of_pass, variant, str(blocks), str(BATCH))
            row["beside_gradients_mib"] = row["peak_mib"] - weights_mib(make(variant, blocks))
            print(
                f"m = {blocks:2d}  {variant:32s} {row['seconds']:6.3f} s  {row['ratio']:5.3f} x "
                f"({row['ratio_of_fastest']:5.3f})  {row['peak_mib']:6.1f} MiB, "
                f"{row['beside_gradients_mib']:6.1f} beside gradients  error {row['gradient_error']:.1e}"
            )
        cases[f"m = {blocks}"] = rows
    packages = ("evolvent", "torch", *(["revtorch"] if "RevTorch" in VARIANTS else []))
    measured = {
        "asked": ASKED,
        "batch": f"{BATCH} of 32x32",
        "rounds": ROUNDS,
        "cases": cases,
        "memory_growth": {f"batch {size}": growth(size) for size in (BATCH, PAPER_BATCH)},
        "networks": deep_networks(),
    }
    store("reversible", measured, packages)


if __name__ == "__main__":
    parts = {measure.__name__: measure for measure in (peak_of_pass, peak_of_step)}
    if sys.argv[1:]:
        print(json.dumps(parts[sys.argv[1]](*sys.argv[2:])))
    else:
        main()
