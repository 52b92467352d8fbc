"""Time and memory of nonlocal blocks, forward and backward, against the same block with all pairs of strips held.

Two stages, C = 32, no subsampling. Whole networks are timed as well: a training step with nonlocal blocks (dot product)
against one without, with the C library's defaults and with freed memory kept, as ``evolvent run`` has it, in several
processes each.

Variants run interleaved in one process; ratios are medians over rounds of ratios in the same round. Peak memory is that
of the process (resident set, above what weights and a small warm-up pass need), in a process of its own for each form,
where maps too large for the naive form are timed, too. Results are stored as ``results/nonlocal_block.json``.
``--smoke`` runs tiny images and stores nothing.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import torch
from results import store
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import create_model
from evolvent.experiments.freed_memory import keep_freed_memory
from evolvent.networks import NonlocalBlock
from evolvent.operators import NonlocalDiffusion

THREADS = 2
CHANNELS = 32
KINDS = ("dot", "gaussian", "fractional", "riesz", "log")
CASES = {"96x96, batch 1": (1, 96, 3), "32x32, batch 8": (8, 32, 9), "192x192, batch 1": (1, 192, 0)}
SMOKE = {"12x12, batch 1": (1, 12, 2)}
STEPS = {2: 15, 32: 3}  # rounds for each batch size
PROCESSES = 5  # in which they are measured, for where its memory lies makes one process slower than another
NETWORKS = {  # as the paper trains them on STL-10
    "hamiltonian74": {"head_pool": 8},
    "nonlocal_hamiltonian74": {"head_pool": 8, "subsample": 4},
}
ASKED = (
    "at 96x96: dot product 40 x faster in 1/25 of the memory, Gaussian 1.7 x in 1/30, power and log kernels at most "
    "320 MiB and 1.5 x the naive time; at 192x192 all under 2 GiB; a training step of nonlocal_hamiltonian74 (dot "
    "product) on 96x96 at most 1.25 x that of hamiltonian74"
)
SMALL_PIECES_GO_BACK = {
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "OMP_NUM_THREADS": str(THREADS),
}


def make(kind: str) -> NonlocalBlock:
    """A block that is not the identity any more."""
    torch.manual_seed(0)
    gaussian = NonlocalDiffusion(CHANNELS, "gaussian", normaliser="row_sum")
    block = NonlocalBlock(CHANNELS, {"dot": "diffusion", "gaussian": gaussian}.get(kind, kind))  # type: ignore[arg-type]
    for stage in block.outer:
        nn.init.ones_(stage[-1].weight)
    return block


def all_pairs(kind: str, x: Tensor, y: Tensor) -> Tensor:
    """The kernel as one tensor, the way the equations are written."""
    if kind == "dot":
        return x @ y.mT
    if kind == "gaussian":
        return (x @ y.mT).softmax(-1)
    distance = torch.cdist(x, y)
    zero = distance == 0
    distance = distance.masked_fill(zero, 1.0)
    w = {"fractional": lambda d: 1 / d**3, "riesz": lambda d: 1 / d, "log": lambda d: -2 * d.log() - 0.5772156649}
    return w[kind](distance).masked_fill(zero, 0.0)


def naive(block: NonlocalBlock, kind: str, x: Tensor) -> Tensor:
    theta, phi = block.operator.theta, block.operator.phi
    assert theta is not None
    assert phi is not None
    w = all_pairs(kind, theta(x).flatten(2).mT, phi(x).flatten(2).mT)
    norm = 1 if kind == "gaussian" else w.shape[-1]

    def act(u: Tensor) -> Tensor:
        v = u.flatten(2).mT
        sums = w @ v
        if kind in ("dot", "gaussian", "fractional"):
            sums = sums - w.sum(-1, keepdim=True) * v
        sign = -1 if kind == "fractional" else 1
        return (sign * block.operator.factor / norm * sums).mT.reshape(u.shape)

    first, second = block.outer
    middle = x + block.step_size * first(act(x))
    return x + block.step_size * second(act(middle))


def images(batch: int, size: int) -> Tensor:
    return torch.randn(batch, CHANNELS, size, size, generator=torch.Generator().manual_seed(1)).requires_grad_()


def train_pass(form: str, block: NonlocalBlock, kind: str, x: Tensor) -> tuple[float, Tensor]:
    """Seconds of one forward and backward pass, and the gradient of the image."""
    block.zero_grad(set_to_none=True)
    x.grad = None
    begin = time.perf_counter()
    value = block(x) if form == "evolvent" else naive(block, kind, x)
    value.square().sum().backward()
    seconds = time.perf_counter() - begin
    assert x.grad is not None
    return seconds, x.grad


def measure(kind: str, batch: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    forms = ("evolvent", "naive")
    block, x = make(kind), images(batch, size)
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    gradients = {}
    for i in range(-1, rounds):
        for form in forms if i % 2 else reversed(forms):
            spent, gradients[form] = train_pass(form, block, kind, x)
            if i >= 0:  # the first round warms up
                seconds[form].append(spent)
    ratios = [a / b for a, b in zip(seconds["naive"], seconds["evolvent"], strict=True)]
    off = (gradients["evolvent"] - gradients["naive"]).norm() / gradients["naive"].norm()
    rows = {form: {"seconds": statistics.median(spent)} for form, spent in seconds.items()}
    rows["evolvent"] |= {"times_faster": statistics.median(ratios), "gradient_difference": off.item()}
    return rows


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, labels: Tensor) -> float:
    """Seconds of one step."""
    begin = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(x), labels).backward()
    optimizer.step()
    return time.perf_counter() - begin


def measure_networks(batch: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of a training step of each network, and the ratio to the first."""
    torch.manual_seed(0)
    models = {name: create_model(name, image_size=size, **options) for name, options in NETWORKS.items()}
    optimizers = {name: torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9) for name, model in models.items()}
    x, labels = torch.randn(batch, 3, size, size), torch.randint(10, (batch,))
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for i in range(-2, rounds):
        for name in models if i % 2 else reversed(models):
            spent = training_step(models[name], optimizers[name], x, labels)
            if i >= 0:
                seconds[name].append(spent)
    plain = seconds[next(iter(models))]
    rows = {}
    for name, spent in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(spent, plain, strict=True))
        rows[name] = {"seconds": statistics.median(spent), "ratio": ratio}
    return rows


def networks_here(kept: bool, batch: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Training steps in this process, which keeps freed memory or does what the C library does."""
    torch.set_num_threads(THREADS)
    if kept:
        assert keep_freed_memory()
    return measure_networks(batch, size, rounds)


def networks_apart(size: int, steps: dict[int, int], processes: int) -> dict[str, dict[str, dict[str, float]]]:
    """Training steps in fresh processes for each batch size and either way to treat freed memory: medians of theirs."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (batch, rounds), kept in product(steps.items(), (False, True)):
        case = f"{size}x{size}, batch {batch}, {'freed memory kept' if kept else 'memory as the C library has it'}"
        command = [sys.executable, __file__, "--networks", *map(str, (int(kept), batch, size, rounds))]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(processes)]
        found[case] = summarise([json.loads(run) for run in runs])
        for name, row in found[case].items():
            spread = f"({row['lowest_ratio']:.3f} to {row['highest_ratio']:.3f})"
            print(f"{case:48s} {name:24s} {row['seconds']:7.3f} s {row['ratio']:6.3f} x {spread}", flush=True)
    return found


def summarise(runs: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Medians over processes, and the range of their ratios."""
    rows = {}
    for name in NETWORKS:
        ratios = [run[name]["ratio"] for run in runs]
        seconds = statistics.median(run[name]["seconds"] for run in runs)
        spread = {"lowest_ratio": min(ratios), "highest_ratio": max(ratios)}
        rows[name] = {"seconds": seconds, "ratio": statistics.median(ratios), **spread}
    return rows


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def peak_here(form: str, kind: str, batch: int, size: int) -> dict[str, float]:
    """Seconds of one pass in this process and its peak resident MiB above what was there before it."""
    torch.set_num_threads(THREADS)
    block, x = make(kind), images(batch, size)
    train_pass(form, block, kind, images(1, 8))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts afresh
    before = resident("VmRSS")
    seconds, _ = train_pass(form, block, kind, x)
    return {"seconds": seconds, "peak_mib": (resident("VmHWM") - before) / 2**20}


def peak_apart(form: str, kind: str, batch: int, size: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--peak", form, kind, str(batch), str(size)]
    done = subprocess.run(
        command, env={**os.environ, **SMALL_PIECES_GO_BACK}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def measure_case(case: str, kind: str, batch: int, size: int, rounds: int) -> dict[str, dict[str, float]]:
    """Time, if there are rounds, and peak memory of each form; without rounds, of ours alone."""
    rows = measure(kind, batch, size, rounds) if rounds else {"evolvent": {}}
    for form, row in rows.items():
        rows[form] = row = peak_apart(form, kind, batch, size) | row
        more = f"{row['times_faster']:6.2f} x faster" if "times_faster" in row else ""
        print(f"{case:16s} {kind:10s} {form:8s} {row['seconds']:7.3f} s {row['peak_mib']:7.1f} MiB  {more}", flush=True)
    return rows


def main(cases: dict[str, tuple[int, int, int]]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return {case: {kind: measure_case(case, kind, *sizes) for kind in KINDS} for case, sizes in cases.items()}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(json.dumps(peak_here(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    elif sys.argv[1:2] == ["--networks"]:
        kept, *sizes = map(int, sys.argv[2:])
        print(json.dumps(networks_here(bool(kept), *sizes)))
    elif sys.argv[1:] == ["--smoke"]:
        torch.set_num_threads(THREADS)
        main(SMOKE)
        networks_apart(32, {2: 1}, 1)
    else:
        torch.set_num_threads(THREADS)
        networks = networks_apart(96, STEPS, PROCESSES)
        measured = {"asked": ASKED, "channels": CHANNELS, "stages": 2, "networks": networks, "cases": main(CASES)}
        store("nonlocal_block", measured, ("evolvent", "torch"))
