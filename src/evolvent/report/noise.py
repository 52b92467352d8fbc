"""Accuracy on test images with noise, for runs whose recipe asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.experiments.record import Result
from evolvent.report.accuracy_lines import AccuracyLine, accuracy_panel
from evolvent.report.curves import Line
from evolvent.report.markup import section
from evolvent.report.runs import Series


def noise_section(all_series: Sequence[Series]) -> str:
    """One line per variant over the noise's strength."""
    html = accuracy_panel(noise_lines(all_series), "noise", "Test accuracy", "standard deviation of the noise")
    lead = (
        "Gaussian noise is added to the test images only; its standard deviation is a share of the pixel range. "
        "Lines are medians over seeds, dots single seeds."
    )
    return section("noise", "Accuracy under input noise", html, lead)


def noise_lines(all_series: Sequence[Series]) -> list[AccuracyLine]:
    """The variants that were tested under noise."""
    lines = []
    for series in all_series:
        seeds = [_line(result) for result in series.results if result.noise_accuracy]
        if seeds:
            lines.append(AccuracyLine(series.label, series.index, seeds))
    return lines


def _line(result: Result) -> Line:
    levels = sorted(result.noise_accuracy)
    return np.asarray(levels), np.asarray([result.noise_accuracy[level] for level in levels])
