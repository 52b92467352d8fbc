"""Grids of 2,000 cells: their report stays small and is drawn in seconds."""

import os
import time

import pytest

from evolvent.report import read_run, report_html, summary_csv

SECONDS = 60  # a busy machine stays below, and what grows faster than the cells does not


@pytest.mark.parametrize(("variants", "seeds"), [(4, 500), (2000, 1), (40, 50)])
def test_report_of_2000_cells_is_bounded(write_grid, make_recipe, check, monkeypatch, variants, seeds):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    settings = {f"v{k}": {"optimizer": {"lr": 0.001 * (k + 1)}} for k in range(variants)}
    source = make_recipe(variants=settings, seeds=list(range(seeds)), published=[])
    absent = tuple(cell.label for cell in source.cells()[::20])
    folder = write_grid(source, find=None, absent=absent)
    one = write_grid(make_recipe("one", seeds=[0]), channels=3, size=32, classes=[f"c{k}" for k in range(20)])
    found = next(one.glob("cells/*/findings.npz")).parent
    for cell in (folder / "cells").iterdir():
        for name in ("findings.json", "findings.npz"):
            (cell / name).unlink()
            os.link(found / name, cell / name)
    began = time.perf_counter()
    run = read_run(folder)
    summary_csv(run)
    page = report_html([run])
    assert time.perf_counter() - began < SECONDS
    assert len(page) < 900_000
    reader = check(page)
    assert ("drawn below" in reader.text) == (variants > 12)
    assert ("more" in reader.text) == (seeds > 1 or variants > 8)
