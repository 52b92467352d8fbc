"""Time and memory of nonlocal blocks, forward and backward, against the same block with all pairs of strips held.

Two stages, C = 32, no subsampling.

Both forms run interleaved in one process; ratios are medians over rounds of naive time to ours in the same round. Peak
memory is that of the process (resident set, above what weights and a small warm-up pass need), in a process of its own
for each form. Results are stored as ``results/nonlocal_block.json``. ``--smoke`` runs tiny images and stores nothing.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from results import store
from torch import Tensor

from evolvent.networks import NonlocalBlock
from evolvent.operators import NonlocalDiffusion

CHANNELS = 32
KINDS = ("dot", "gaussian", "fractional", "riesz", "log")
CASES = {"96x96, batch 1": (1, 96, 5), "32x32, batch 8": (8, 32, 12), "192x192, batch 1": (1, 192, 1)}
SMOKE = {"12x12, batch 1": (1, 12, 2)}
LARGEST_NAIVE = 96  # 192x192 strips have 1.4e9 pairs: 5 GiB for each tensor of them
ASKED = (
    "at 96x96: dot product 40 x faster in 1/25 of the memory, Gaussian 1.7 x in 1/30, power and log kernels at most "
    "320 MiB and 1.5 x the naive time; at 192x192 all under 2 GiB"
)
SMALL_PIECES_GO_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}


def make(kind: str) -> NonlocalBlock:
    torch.manual_seed(0)
    if kind == "gaussian":
        return NonlocalBlock(CHANNELS, NonlocalDiffusion(CHANNELS, "gaussian", normaliser="row_sum"))
    return NonlocalBlock(CHANNELS, "diffusion" if kind == "dot" else kind)  # type: ignore[arg-type]


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
    forms = ("evolvent", "naive") if size <= LARGEST_NAIVE else ("evolvent",)
    block, x = make(kind), images(batch, size)
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    gradients = {}
    for i in range(-1, rounds):
        for form in forms if i % 2 else reversed(forms):
            spent, gradient = train_pass(form, block, kind, x)
            gradients[form] = gradient
            if i >= 0 or size > LARGEST_NAIVE:  # the first round warms up
                seconds[form].append(spent)
    rows = {form: {"seconds": statistics.median(spent)} for form, spent in seconds.items()}
    if "naive" in forms:
        ratios = [a / b for a, b in zip(seconds["naive"], seconds["evolvent"], strict=True)]
        off = (gradients["evolvent"] - gradients["naive"]).norm() / gradients["naive"].norm()
        rows["evolvent"] |= {"times_faster": statistics.median(ratios), "gradient_difference": off.item()}
    return rows


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def peak_here(form: str, kind: str, batch: int, size: int) -> float:
    """Peak resident MiB of one pass in this process above what was there before it."""
    torch.set_num_threads(1)
    block, x = make(kind), images(batch, size)
    train_pass(form, block, kind, images(1, 8))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts afresh
    before = resident("VmRSS")
    train_pass(form, block, kind, x)
    return (resident("VmHWM") - before) / 2**20


def peak_apart(form: str, kind: str, batch: int, size: int) -> float:
    command = [sys.executable, __file__, "--peak", form, kind, str(batch), str(size)]
    done = subprocess.run(
        command, env={**os.environ, **SMALL_PIECES_GO_BACK}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def main(cases: dict[str, tuple[int, int, int]]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    torch.set_num_threads(1)
    found: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for case, (batch, size, rounds) in cases.items():
        found[case] = {}
        for kind in KINDS:
            rows = measure(kind, batch, size, rounds)
            for form, row in rows.items():
                row["peak_mib"] = peak_apart(form, kind, batch, size)
                more = f"{row['times_faster']:6.2f} x faster" if "times_faster" in row else ""
                print(f"{case:16s}  {kind:10s} {form:8s} {row['seconds']:7.3f} s {row['peak_mib']:7.1f} MiB  {more}")
            found[case][kind] = rows
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(json.dumps(peak_here(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    elif sys.argv[1:] == ["--smoke"]:
        main(SMOKE)
    else:
        measured = {"asked": ASKED, "channels": CHANNELS, "stages": 2, "cases": main(CASES)}
        store("nonlocal_block", measured, ("evolvent", "torch"))
