"""Time and memory of DiffusionClassifier up to a million points, and what scikit-learn's LabelSpreading needs.

Ten classes in three dimensions, five labels each: pairs of moons, which no plane separates. Each size and method runs
in a process of its own, with one thread; memory is the peak resident set above that after imports. LabelSpreading with
its default kernel holds all pairs of points: it is measured at sizes that fit, and what it would need at the others is
computed, for one matrix of N x N numbers. With ``kernel="knn"`` it holds a sparse graph and is measured at every size.
Results are stored as ``results/million_points.json``. ``--smoke`` runs small sizes and stores nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from results import store

import evolvent as ev

SIZES = (10_000, 100_000, 1_000_000)
PAIRS = (5_000, 10_000)  # sizes at which all pairs fit
SMOKE = (2_000, 20_000)
CLASSES, LABELS = 10, 5
OURS, KNN, ALL_PAIRS = "DiffusionClassifier", "LabelSpreading, knn", "LabelSpreading, rbf"
LIMIT_SECONDS = 900


def moons(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points on five pairs of half-rings that reach into each other, their classes, and the labels that are given."""
    random = np.random.default_rng(0)
    y = random.integers(0, CLASSES, count)
    angle = np.pi * random.random(count)
    upper = np.stack([np.cos(angle), np.sin(angle), y // 2], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle), y // 2], axis=1)
    x = np.where(y[:, None] % 2, lower, upper) + 0.07 * random.normal(size=(count, 3))
    few = np.full(count, -1)
    for label in range(CLASSES):
        kept = random.choice(np.flatnonzero(y == label), LABELS, replace=False)
        few[kept] = label
    return x.astype(np.float32), y, few


def make(method: str) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    if method == OURS:
        return ev.DiffusionClassifier(verbose=True)
    return LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.99, max_iter=100) if method == KNN else LabelSpreading()


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure_here(method: str, count: int) -> dict[str, float]:
    """Fit in this process, then predict a thousand new points."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="max_iter=")
    x, y, few = moons(count)
    model, before = make(method), resident("VmRSS")
    begin = time.perf_counter()
    model.fit(x, few)
    middle = time.perf_counter()
    model.predict(x[:1000])
    done = {"seconds": middle - begin, "predict_seconds": time.perf_counter() - middle}
    accuracy = float((model.transduction_[few < 0] == y[few < 0]).mean())
    return done | {"accuracy": accuracy, "peak_mib": (resident("VmHWM") - before) / 2**20}


def measure_apart(method: str, count: int) -> dict[str, Any]:
    """The same in a process of its own; how it ended, if not well."""
    command = [sys.executable, __file__, "--one", method, str(count)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, env=one_thread, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {LIMIT_SECONDS} s"}
    if done.returncode:
        return {"failed": f"ended with {done.returncode}"}
    return json.loads(done.stdout)


def show(method: str, count: int, row: dict[str, Any]) -> None:
    if "failed" in row:
        print(f"{method:22s} {count:>9,} points: {row['failed']}", flush=True)
        return
    print(f"{method:22s} {count:>9,} points: {row['seconds']:7.1f} s {row['peak_mib']:8.0f} MiB  "
          f"accuracy {row['accuracy']:.3f}  1,000 new points {row['predict_seconds']:.2f} s", flush=True)  # fmt: skip


def growth(rows: dict[int, dict[str, Any]]) -> dict[str, float]:
    """Exponents of time and memory between the smallest and the largest size."""
    first, last = min(rows), max(rows)
    if "failed" in rows[last]:
        return {}
    ratio = np.log(last / first)
    return {name: float(np.log(rows[last][name] / rows[first][name]) / ratio) for name in ("seconds", "peak_mib")}


def main(sizes: tuple[int, ...], pairs: tuple[int, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for method, counts in ((OURS, sizes), (KNN, sizes), (ALL_PAIRS, pairs)):
        rows = {}
        for count in counts:
            rows[count] = measure_apart(method, count)
            show(method, count, rows[count])
        found[method] = {"sizes": rows, "growth_exponents": growth(rows)}
    needed = {count: 8 * count**2 / 2**30 for count in sizes}
    for count, gib in needed.items():
        print(f"{ALL_PAIRS}, {count:>9,} points: one matrix of all pairs is {gib:,.1f} GiB")
    return found | {"all_pairs_gib": needed}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure_here(sys.argv[2], int(sys.argv[3]))))
    elif sys.argv[1:] == ["--smoke"]:
        main(SMOKE, (2_000,))
    else:
        measured = main(SIZES, PAIRS)
        store("million_points", {"classes": CLASSES, "labels": LABELS, "methods": measured},
              ("evolvent", "torch", "scikit-learn"))  # fmt: skip
