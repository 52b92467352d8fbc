"""A grid of 2,000 tiny cells: time to start, time per cell beyond its training, time and size of the report.

The peer is the training itself: what the grid adds to the seconds that its trainings take. Results are stored as
``results/grid.json``.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from results import store

from evolvent.experiments import Observer, Recipe, run_grid
from evolvent.report import read_run, summary_csv, write_report

VARIANTS, SEEDS = 20, 100


def tiny_recipe() -> Recipe:
    values = {
        "name": "tiny-cells",
        "title": "Two thousand tiny trainings",
        "question": "What does a grid cost beyond its trainings?",
        "task": {"name": "points", "shown": 10, "grid": 10},
        "data": {"kind": "blobs", "points": 20},
        "model": {"name": "point_resnet", "options": {"layers": 2, "width": 4}},
        "optimizer": {"name": "adam"},
        "training": {"steps": 10},
        "variants": {f"lr {0.001 * (k + 1):g}": {"optimizer": {"lr": 0.001 * (k + 1)}} for k in range(VARIANTS)},
        "seeds": list(range(SEEDS)),
    }
    return Recipe.read(values, "benchmark")


class FirstTraining(Observer):
    """When the first training starts."""

    at = 0.0

    def cell_starts(self, cell: object, folder: object, resumed: bool) -> None:
        self.at = self.at or time.perf_counter()


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as home:
        folder, watch, began = Path(home) / "run", FirstTraining(), time.perf_counter()
        results = run_grid(tiny_recipe(), folder, observer=watch, workers=workers)
        ended = time.perf_counter()
        trained = sum(result.seconds for result in results.values())
        run = read_run(folder)
        csv, read = len(summary_csv(run)), time.perf_counter()
        report = write_report([run], folder / "report.html")
        drawn = time.perf_counter()
        run_grid(tiny_recipe(), folder, resume=True)
        found = {
            "cells": len(results),
            "workers": workers,
            "seconds_to_start": watch.at - began,
            "seconds_per_cell": (ended - watch.at) / len(results),
            "seconds_per_cell_training": trained / len(results),
            "seconds_to_read_and_summarise": read - ended,
            "seconds_to_draw_report": drawn - read,
            "seconds_to_resume_finished": time.perf_counter() - drawn,
            "report_bytes": report.stat().st_size,
            "summary_bytes": csv,
        }
    for name, value in found.items():
        print(f"{name}: {value:.4g}")
    store("grid", {"asked": "2,000 cells start in seconds; a bounded report", **found})


if __name__ == "__main__":
    main()
