"""Confusion matrices: which class is taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.report.markup import figure, image, scroll, section, series_heading, table, text
from evolvent.report.numbers import count, percent
from evolvent.report.pixels import heat, png_uri
from evolvent.report.runs import Series

MANY = 20  # classes, above which counts are no longer written out


@dataclass(frozen=True)
class Pair:
    """A true class taken for another one."""

    true: int
    predicted: int
    count: int
    share: float  # of the true class's images


def confusion_section(all_series: Sequence[Series]) -> str:
    """One matrix per variant."""
    html = "".join(_block(series) for series in all_series if series.evaluations)
    of_pixels = any(series.is_segmentation for series in all_series)
    lead = (
        f"{'Percent of the row,' if of_pixels else 'Counts'} summed over seeds: a row is the true class, a column the "
        "predicted one. "
        "The colour is the square root of the share of the row, so that rare confusions show."
    )
    return section("confusion", "Confusion", f'<div class="matrices">{html}</div>' if html else "", lead)


def total_confusion(series: Series) -> np.ndarray:
    """Counts summed over seeds.

    Shape: (classes, classes).
    """
    return np.sum([evaluation.confusion for evaluation in series.evaluations], axis=0).astype(np.int64)


def row_shares(matrix: np.ndarray) -> np.ndarray:
    """Each row over its sum; zero for a class without images.

    >>> row_shares(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    sums = matrix.sum(axis=1, keepdims=True)
    return matrix / np.where(sums > 0, sums, 1)


def most_confused(matrix: np.ndarray, limit: int = 10) -> list[Pair]:
    """The pairs of classes confused most often, by count.

    >>> most_confused(np.array([[5, 2], [3, 5]]), 1)
    [Pair(true=1, predicted=0, count=3, share=0.375)]
    """
    shares = row_shares(matrix)
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    places = [divmod(int(k), len(matrix)) for k in order]
    return [Pair(i, j, int(wrong[i, j]), float(shares[i, j])) for i, j in places if wrong[i, j] > 0]


def _block(series: Series) -> str:
    matrix = total_confusion(series)
    body = _written_out(series, matrix) if len(matrix) <= MANY else _picture(series, matrix)
    return f"<div>{series_heading(series)}{body}</div>"


def _written_out(series: Series, matrix: np.ndarray) -> str:
    names = [text(series.class_name(k)) for k in range(len(matrix))]
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    shares = row_shares(matrix)
    written = np.rint(100 * shares).astype(int) if series.is_segmentation else matrix
    rows = zip(names, written.tolist(), shares.tolist(), strict=True)
    body = "\n".join(
        f'<tr><th scope="row">{name}</th>' + "".join(map(_cell, numbers, shades)) + "</tr>"
        for name, numbers, shades in rows
    )
    corner = '<th scope="col" class="corner">true ↓<br>predicted →</th>'
    markup = f"<table><thead><tr>{corner}{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    upright = all(len(series.class_name(k)) < 4 for k in range(len(matrix)))
    return scroll(f"Confusion matrix of {series.label}", markup, "confusion" if upright else "confusion tall")


def _cell(number: int, share: float) -> str:
    strength = 100 * share**0.5
    kind = ' class="deep"' if strength > 62 else ' class="zero"' if number == 0 else ""
    shade = f' style="--s:{strength:.0f}%"' if number else ""
    return f"<td{kind}{shade}>{count(number)}</td>"


def _picture(series: Series, matrix: np.ndarray) -> str:
    size = len(matrix)
    description = f"confusion matrix of {series.label} with {size} classes, rows true, columns predicted"
    drawn = figure(
        image(png_uri(heat(row_shares(matrix))), description, size, size),
        f"{size} classes: rows true, columns predicted",
        "card matrix",
    )
    pairs = most_confused(matrix)
    if not pairs:
        return drawn + "<p>No image was misclassified.</p>"
    rows = [
        [text(series.class_name(p.true)), text(series.class_name(p.predicted)), count(p.count), text(percent(p.share))]
        for p in pairs
    ]
    head = ["True", "Predicted", "Count", "Of the class"]
    return drawn + table(f"Most confused classes of {series.label}", head, rows)
