"""Score over the number in the variants' names, for runs that vary one number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.lines import Bundle, Frame, Line, drawable, line_panel, values_table
from evolvent.report.markup import legend, section
from evolvent.report.runs import Series
from evolvent.tasks.findings import Figure

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_FEWEST = 3  # variants that make a line
_LINES = 12  # at most


def sweeps_section(all_series: Sequence[Series]) -> str:
    """One line per family of variants whose names differ in one number, such as "strength 0.5", a plot per score."""
    found = sweep_bundles(all_series)
    html = ""
    for k, (score, bundles) in enumerate(found.items()):
        shown = bundles[:_LINES]
        along = shown[0].label if len(shown) == 1 else "number in the name of the variant"
        frame = Frame(f"Test {score.title}", along, y_unit=score.unit, dots=True)
        html += legend(shown) + f'<div class="panels">{line_panel(shown, frame, f"sweeps-{k}")}</div>'
        html += values_table(shown, frame)
    lead = "Each line joins variants whose names differ in one number. Lines are medians over seeds, dots single seeds."
    return section("sweeps", "Score over what varies", html, lead)


def sweep_bundles(all_series: Sequence[Series]) -> dict[Figure, list[Bundle]]:
    """For each score the families of at least three finished variants, under what their names have in common."""
    families: dict[tuple[Any, Figure, str], list[tuple[float, Series]]] = {}
    for series in (each for each in all_series if each.results):
        name = series.records[0].cell.variant
        numbers = _NUMBER.findall(name)
        if len(numbers) == 1:
            key = (series.run.folder, series.kinds[0], _NUMBER.sub("", name))
            families.setdefault(key, []).append((float(numbers[0]), series))
    bundles: dict[Figure, list[Bundle]] = {}
    for (_, score, rest), family in families.items():
        if len({number for number, _ in family}) >= _FEWEST:
            of_score = bundles.setdefault(score, [])
            of_score.append(Bundle(rest.strip(" -_="), len(of_score), seed_lines(family)))
    return bundles


def seed_lines(family: Sequence[tuple[float, Series]]) -> list[Line]:
    """For each seed the scores of those variants that are finished with it, over the number beside each."""
    points: dict[int, list[tuple[float, float]]] = {}
    for number, series in family:
        for record in series.records:
            value = record.result.figures.get(record.result.score.name) if record.result else None
            if value is not None:
                points.setdefault(record.cell.seed, []).append((number, value))
    arrays = [np.asarray(sorted(of_seed)) for of_seed in points.values()]
    return [drawable(array[:, 0], array[:, 1]) for array in arrays]
