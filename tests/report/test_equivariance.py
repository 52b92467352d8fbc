"""The section of equivariance: one picture for all variants, notes on what is broken or not claimed, medians."""

import math
import re

import pytest

from evolvent.analysis import Equivariance, LayerEquivariance
from evolvent.report.analyses import analysis_path, write_analysis
from evolvent.report.equivariance import equivariance_section
from evolvent.report.runs import list_series, read_runs


def found(seed: int, *, claimed: bool = True, first_broken: str = "") -> Equivariance:
    """Two layers of D2 and C2; errors grow from seed to seed."""
    errors = [1e-3 * (seed + 1), 1e-6 * (seed + 1), 2e-6]
    layers = [
        LayerEquivariance("stem", "SteerablePDO", "2 x regular(D2)", (28, 28), errors, errors[1], errors[0]),
        LayerEquivariance("body.0", "FieldLinear", "4 x regular(C2)", (14, 14), [0.1, math.nan, 0.0], 0.0, 0.1),
    ]
    answer = LayerEquivariance("answer", "invariant", "10 numbers", (1, 1), errors, errors[1], errors[0])
    return Equivariance("D2", ["90°", "180°", "mirrored, 0°"], [90, 180, 0], [False, False, True],
                        [False, True, True], layers if claimed else [], answer, claimed, first_broken)  # fmt: skip


@pytest.fixture
def html(grid) -> str:
    for folder in (grid / "cells").iterdir():
        claimed = "resnet" not in folder.name
        broken = "body.0 (FieldLinear) is the first" if claimed else ""
        what = found(int(folder.name[-1]), claimed=claimed, first_broken=broken)
        write_analysis(analysis_path(folder, "equivariance"), "equivariance", what)
    return equivariance_section(list_series(read_runs([grid])))


def test_there_is_one_picture_with_both_kinds_of_elements(html):
    assert html.count("<svg") == 1
    for part in ("largest error", "error of the answer", "hollow where it mirrors"):
        assert part in html, part


def test_what_is_broken_or_not_claimed_is_said(html):
    assert "body.0 (FieldLinear) is the first" in html
    assert "claims nothing; its answer is measured under D2" in html


def test_figures_are_medians_over_seeds(html):
    rows = re.findall(r'<th scope="row">(?:stem|answer)</th>(.*?)</tr>', html)
    assert rows
    assert all("e−06" in row and "0.00" in row for row in rows)


def test_without_an_analysis_there_is_no_section(grid):
    assert equivariance_section(list_series(read_runs([grid]))) == ""
