"""Time, memory and size of networks of equivariant differential operators, against e2cnn and escnn.

All have the six layers of the papers: regular fields of C16, 5x5 stencils, inner batch normalisation, ELU, pooling
after layers 2 and 3, group pooling, two fully connected layers. R2Diffop takes derivatives up to order 3, as published
(no aliased frequencies, 941,958 parameters), by finite differences and by Gaussians; R2Conv has its default basis.
Images are 30x30, so that pooling drops no row, in batches of 16.

Variants run interleaved in one process with one thread: training steps (forward, cross entropy, backward, SGD), then
inference, ours also as ordinary modules. Times are processor times, ratios medians over rounds of ratios in the same
round. Ours are compared once more without compiled kernels (``EVOLVENT_KERNELS=eager``). Construction, size and the
peak memory of a training step (resident set, above what was there before it, with what a warm-up left given back) are
measured in a process of its own for each. Results are stored as ``results/pdo.json``. Peers that are not installed are
left out; see ``requirements.txt``. ``--smoke`` runs one round and stores nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.polynomial.hermite import hermval
from results import PACKAGES, interleaved, store
from torch import Tensor, nn
from torch.nn import functional as F

import evolvent as ev
from evolvent.experiments.freed_memory import keep_freed_memory

ROUNDS, BATCH, SIZE, CLASSES = 5, 16, 30, 10
FIELDS, PADDING, POOLED = (16, 24, 32, 32, 48, 64), (1, 2, 2, 2, 2, 0), (1, 2)
OURS = ("epdo_c16", "steerable_pdo_c16")
DIFFOP, CONV = "e2cnn R2Diffop, finite differences", "escnn R2Conv"
ASKED = (
    f"a training step of epdo_c16 6 x faster than {DIFFOP}, inference 4 x; steerable_pdo_c16 at least as fast as "
    f"{CONV}; construction under 0.5 s; a state_dict under 1.1 x the bytes of the parameters"
)
EAGER = {"EVOLVENT_KERNELS": "eager"}
SMALL_PIECES_GO_BACK = {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_TRIM_THRESHOLD_": "4096"}


class Peer(nn.Module):
    """The six-layer network in the modules of e2cnn or escnn, which share their names; ``layer`` makes one."""

    def __init__(self, modules: Any, space: Any, layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.wrap, self.type = modules.GeometricTensor, modules.FieldType(space, [space.trivial_repr])
        inside, blocks = self.type, []
        for i, (fields, padding) in enumerate(zip(FIELDS, PADDING, strict=True)):
            outside = modules.FieldType(space, fields * [space.regular_repr])
            blocks += [layer(inside, outside, kernel_size=5, padding=padding)]
            blocks += [modules.InnerBatchNorm(outside), modules.ELU(outside, inplace=True)]
            if i in POOLED:
                blocks.append(modules.PointwiseAvgPool(outside, kernel_size=2))
            inside = outside
        self.features = modules.SequentialModule(*blocks, modules.GroupPooling(inside))
        width = FIELDS[-1]
        first = nn.Linear(width, width), nn.BatchNorm1d(width), nn.ELU(inplace=True)
        self.head = nn.Sequential(*first, nn.Linear(width, CLASSES), nn.BatchNorm1d(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(self.wrap(x, self.type)).tensor.mean((2, 3)))


def gaussian(points: np.ndarray, center: np.ndarray, epsilon: float, orders: np.ndarray) -> np.ndarray:
    """Derivatives of exp(-(epsilon r)^2), as the package rbf, which PyPI does not have, gives them to e2cnn."""
    z = epsilon * (points - center)
    polynomials = [hermval(z[:, i], np.eye(n + 1)[n]) for i, n in enumerate(orders)]
    return (-epsilon) ** sum(orders) * np.prod(polynomials, 0) * np.exp(-(z**2).sum(1))


def library(name: str) -> tuple[Any, Any]:
    """The modules and the groups of e2cnn or escnn, made to work with what is installed."""
    if name == "escnn":
        # The wheel of lie_learn needs NumPy 1. It is for rotations in space only, and nothing here calls it.
        parts = ("lie_learn", "representations", "SO3", "wigner_d")
        names = [".".join(parts[: i + 1]) for i in range(len(parts))]
        stubs = {name: types.ModuleType(name) for name in names}
        vars(stubs[names[-1]])["wigner_D_matrix"] = None
        sys.modules.update(stubs)
    else:
        tools = import_module("e2cnn.diffops.utils")
        tools._RBF_AVAILABLE, tools._gaussian = True, gaussian
    return import_module(f"{name}.nn"), import_module(f"{name}.gspaces")


def from_e2cnn(kind: str, **options: Any) -> nn.Module:
    modules, spaces = library("e2cnn")
    # Its cache would answer for Gaussians with the finite differences of another network.
    import_module("e2cnn.nn.modules.r2_conv.basisexpansion_singleblock")._stored_filters.clear()
    return Peer(modules, spaces.Rot2dOnR2(16), partial(getattr(modules, kind), **options))


def from_escnn() -> nn.Module:
    modules, spaces = library("escnn")
    return Peer(modules, spaces.rot2dOnR2(16), modules.R2Conv)


def ours(name: str) -> nn.Module:
    return ev.create_model(name, in_channels=1, num_classes=CLASSES)


published = {"maximum_order": 3, "maximum_offset": 0}
BUILDERS: dict[str, Callable[[], nn.Module]] = {
    **{name: partial(ours, name) for name in OURS},
    DIFFOP: partial(from_e2cnn, "R2Diffop", **published),
    "e2cnn R2Diffop, Gaussian": partial(from_e2cnn, "R2Diffop", **published, smoothing=1.3),
    "e2cnn R2Conv": partial(from_e2cnn, "R2Conv"),
    CONV: from_escnn,
}


def available() -> list[str]:
    """The variants that can be built here."""
    models = ev.list_models()
    return [name for name in BUILDERS if (name in models if name in OURS else find_spec(name.split()[0]))]


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # e2cnn indexes with bytes
        return BUILDERS[name]()


def as_dense(model: nn.Module) -> nn.Module | None:
    """A copy in ordinary modules, where the library offers it."""
    dense = getattr(import_module("evolvent.operators.differential"), "dense", None)
    return dense(model) if dense else None


def batch() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 1, SIZE, SIZE, generator=draw), torch.randint(0, CLASSES, (BATCH,), generator=draw)


Pass = Callable[[], object]


def training_step(model: nn.Module) -> Pass:
    optimizer, (x, y) = torch.optim.SGD(model.parameters(), lr=1e-3), batch()

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def inference(model: nn.Module) -> Pass:
    x, _ = batch()
    return torch.no_grad()(lambda: model(x))


def compared(passes: dict[str, Pass], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each, and how many times faster it is than the two named peers."""
    seconds, rows = interleaved(passes, rounds), {}
    for name, spent in seconds.items():
        rows[name] = {"milliseconds": 1e3 * statistics.median(spent)}
        for peer in (DIFFOP, CONV):
            if peer in seconds:
                ratios = (a / b for a, b in zip(seconds[peer], spent, strict=True))
                rows[name][f"times faster than {peer}"] = statistics.median(ratios)
    return rows


def times(names: list[str], rounds: int) -> dict[str, Any]:
    models = {name: build(name).train() for name in names}
    steps = {name: training_step(model) for name, model in models.items()}
    found = {"training step": compared(steps, rounds)}
    for name in [name for name in names if name in OURS]:
        plain = as_dense(models[name].eval())
        if plain is not None:
            models[f"{name}, dense"] = plain
    found["inference"] = compared({name: inference(model.eval()) for name, model in models.items()}, rounds)
    return found


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def in_bytes(tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def alone(name: str) -> dict[str, float]:
    """Construction, size, and peak memory of a training step, in this process."""
    if name not in OURS:
        library(name.split()[0])  # imports are not counted
    begin = time.process_time()
    model = build(name)
    made, parameters = time.process_time() - begin, list(model.parameters())
    step = training_step(model.train())
    step()  # compiles, and leaves behind what it leaves only once
    model.zero_grad()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    step()
    return {
        "construction_seconds": made, "parameters": sum(p.numel() for p in parameters),
        "parameter_bytes": in_bytes(parameters), "peak_bytes": resident("VmHWM") - before,
        "state_bytes": in_bytes(model.state_dict().values()),
        "state_bytes_after_eval": in_bytes(model.eval().state_dict().values()),
    }  # fmt: skip


def elsewhere(*arguments: str, **environment: str) -> Any:
    """What this script prints last, as JSON, when run with other arguments."""
    everything = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    command = [sys.executable, __file__, *arguments]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=everything)
    return json.loads(run.stdout.splitlines()[-1])


def show(found: dict[str, Any]) -> None:
    for title, rows in found.items():
        peers = " / ".join(peer for peer in (DIFFOP, CONV) if peer in rows)
        print(f"{title}, batch {BATCH}, one thread; times faster than {peers or 'no peer'}")
        for name, row in rows.items():
            ratios = " ".join(f"{value:6.2f} x" for key, value in row.items() if key.startswith("times"))
            print(f"  {name:38s} {row['milliseconds']:9.1f} ms {ratios}", flush=True)


def sizes(names: list[str]) -> dict[str, Any]:
    found = {}
    for name in names:
        row = found[name] = elsewhere("--alone", name, **SMALL_PIECES_GO_BACK)
        print(
            f"  {name:38s} {row['construction_seconds']:6.2f} s, {row['parameters']:>9,} parameters, state_dict "
            f"{row['state_bytes'] / row['parameter_bytes']:5.2f} x (after eval "
            f"{row['state_bytes_after_eval'] / row['parameter_bytes']:5.2f} x), {row['peak_bytes'] / 2**20:6.0f} MiB",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--alone", help="only construct and train this variant once")
    parser.add_argument("--times", action="store_true", help="only the times of ours and the two named peers, as JSON")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.alone:
        print(json.dumps(alone(given.alone)))
        return
    keep_freed_memory()
    names, rounds = available(), 1 if given.smoke else ROUNDS
    if given.times:
        print(json.dumps(times([name for name in names if name in (*OURS, DIFFOP, CONV)], rounds)))
        return
    for name in [name for name in BUILDERS if name not in names]:
        print(f"{name} is not there: left out")
    measured: dict[str, Any] = {"asked": ASKED, "batch": BATCH, "size": SIZE, "rounds": rounds}
    measured["times"] = times(names, rounds)
    show(measured["times"])
    if set(OURS) & set(names):
        print("without compiled kernels:")
        measured["times, eager"] = elsewhere("--times", *(["--smoke"] if given.smoke else []), **EAGER)
        show(measured["times, eager"])
    print("construction, size, and peak memory of a training step")
    measured["sizes"] = sizes(names)
    if not given.smoke:
        peers = {name.split()[0] for name in names if name not in OURS}
        store("pdo", measured, (*PACKAGES, *sorted(peers)))


if __name__ == "__main__":
    main()
