"""Grids of 2,000 cells: their report stays small and is drawn in seconds."""

import os
import re
import time

import pytest

from evolvent.experiments.record import write_config
from evolvent.report import read_run, report_html, summary_csv

SECONDS = 60  # a busy machine stays below, and what grows faster than the cells does not
WRITTEN_SEEDS = 8  # further seeds are copies, which are made much faster


@pytest.fixture
def write_large_grid(write_grid, make_recipe, monkeypatch):
    """A grid in which every twentieth cell is absent, and all cells share one file of findings."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def write(variants, seeds):
        settings = {f"v{k}": {"optimizer": {"lr": 0.001 * (k + 1)}} for k in range(variants)}
        source = make_recipe(variants=settings, seeds=list(range(seeds)), published=[])
        written = source.model_copy(update={"seeds": source.seeds[:WRITTEN_SEEDS]})
        folder = write_grid(written, find=None)
        write_config(folder / "recipe.yaml", source)
        for cell in source.cells():
            twin = cell.model_copy(update={"seed": cell.seed % WRITTEN_SEEDS})
            if cell.seed != twin.seed:
                copy_cell(folder / "cells" / twin.folder_name, folder / "cells" / cell.folder_name, cell.seed)
        one = write_grid(make_recipe("one", seeds=[0]), channels=3, size=32, classes=[f"c{k}" for k in range(20)])
        share_findings(next(one.glob("cells/*/findings.npz")).parent, folder)
        for cell in source.cells()[::20]:
            (folder / "cells" / cell.folder_name).rename(folder / cell.folder_name)
        return folder

    return write


def copy_cell(given, made, seed):
    made.mkdir()
    for path in given.iterdir():
        if path.name != "config.yaml":
            os.link(path, made / path.name)
    config, count = re.subn(r"^seed: \d+$", f"seed: {seed}", (given / "config.yaml").read_text(), flags=re.MULTILINE)
    assert count == 1
    (made / "config.yaml").write_text(re.sub(r"^sha256: .*\n", "", config, flags=re.MULTILINE))


def share_findings(found, folder):
    for cell in (folder / "cells").iterdir():
        for name in ("findings.json", "findings.npz"):
            (cell / name).unlink()
            os.link(found / name, cell / name)


@pytest.mark.parametrize(
    ("variants", "seeds"),
    [(4, 500), pytest.param(2000, 1, marks=pytest.mark.slow), pytest.param(40, 50, marks=pytest.mark.slow)],
)
def test_report_of_2000_cells_is_bounded(write_large_grid, check, variants, seeds):
    folder = write_large_grid(variants, seeds)
    began = time.perf_counter()
    run = read_run(folder)
    summary_csv(run)
    page = report_html([run])
    assert time.perf_counter() - began < SECONDS
    assert len(page) < 900_000
    reader = check(page)
    assert ("drawn below" in reader.text) == (variants > 12)
    assert ("more" in reader.text) == (seeds > 1 or variants > 8)
