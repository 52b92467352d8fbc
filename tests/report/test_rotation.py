"""The section of rotated images: all variants in one plot, medians over seeds, absent without an analysis."""

import re

import numpy as np
import pytest

from evolvent.analysis import RotationAccuracy
from evolvent.errors import ConfigError
from evolvent.report.analyses import analysis_path, read_analyses, write_analysis
from evolvent.report.rotation import angles_section
from evolvent.report.runs import list_series, read_runs

ANGLES = [float(angle) for angle in range(0, 360, 15)]


def found(place: int) -> RotationAccuracy:
    """Upright best, worst at 180 degrees; better from seed to seed."""
    accuracy = 0.5 + 0.01 * place + 0.3 * np.cos(np.deg2rad(ANGLES))
    return RotationAccuracy(ANGLES, accuracy.tolist(), 1000)


@pytest.fixture
def html(grid) -> str:
    for folder in (grid / "cells").iterdir():
        seed = int(folder.name[-1])
        write_analysis(analysis_path(folder, "angles"), "angles", found(seed))
    return angles_section(list_series(read_runs([grid])))


def test_all_variants_are_in_one_plot(html):
    assert html.count("<svg") == 1
    assert html.count("medians over seeds") == 1
    for place in (0, 45, 360):
        assert f">{place}</text>" in html or f"<!-- {place} -->" in html, place


def test_figures_are_medians_over_seeds(html):
    cells = re.findall(r"<td>(.*?)</td>", html)[:6]
    assert [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in cells] == [
        "1,000", "81.0 %", "51.0 %", "21.0 %", "180°", "60.0 %",
    ]  # fmt: skip


def test_each_angle_has_a_row_and_a_whole_turn_has_none(html):
    rows = re.findall(r'<th scope="row">([\d.]+)°</th>', html)
    assert [float(row) for row in rows] == ANGLES


def test_without_an_analysis_there_is_no_section(grid):
    assert angles_section(list_series(read_runs([grid]))) == ""


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_a_damaged_analysis_is_named_with_what_to_do(grid, text):
    folder = next((grid / "cells").iterdir())
    path = analysis_path(folder, "angles")
    write_analysis(path, "angles", found(0))
    path.write_text(path.read_text().replace("1000", "1001") if text is None else text)
    with pytest.raises(ConfigError, match=r"angles\.json is .* Or delete it, and analyze the run again\."):
        read_analyses(list_series(read_runs([grid]))[0], "angles")
