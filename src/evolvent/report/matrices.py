"""Matrices of counts: which class is taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.report.markup import figure, image, scroll, section, table, text
from evolvent.report.numbers import count, percent
from evolvent.report.pixels import heat, png_uri
from evolvent.report.subjects import PICTURED, Found, Subject, groups, left_out, seeds_read, subject_heading
from evolvent.tasks.findings import Matrix

_MANY = 20  # classes, above which counts are no longer written out
_LARGE = 10**6  # counts from which rows are written in percent


@dataclass(frozen=True)
class Pair:
    """A true class taken for another one."""

    true: int
    predicted: int
    count: int
    share: float  # of the true class


def matrices_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title, with a matrix per subject."""
    html = ""
    for k, group in enumerate(groups(subjects, "matrices")):
        blocks = [f"<div>{subject_heading(found, group)}{_matrix(found)}</div>" for found in group.found[:PICTURED]]
        lead = (
            f"Counts of {group.found[0].items[0].counted} summed over seeds, or percent of the row where they are "
            "large: a row is the true class, a column the predicted one. The colour is the square root of the share "
            "of the row, so that rare confusions show."
        )
        lead += seeds_read(subjects) + left_out(group)
        html += section(f"matrix-{k}", group.title, f'<div class="matrices">{"".join(blocks)}</div>', lead)
    return html


def total(matrices: Sequence[Matrix]) -> np.ndarray:
    """Counts summed over seeds.

    Shape: (classes, classes).
    """
    return np.sum([matrix.counts for matrix in matrices], axis=0).astype(np.int64)


def row_shares(counts: np.ndarray) -> np.ndarray:
    """Each row over its sum; zero for a class that does not occur.

    >>> row_shares(np.array([[3, 1], [0, 0]])).tolist()
    [[0.75, 0.25], [0.0, 0.0]]
    """
    sums = counts.sum(axis=1, keepdims=True)
    return counts / np.where(sums > 0, sums, 1)


def most_confused(counts: np.ndarray, limit: int = 10) -> list[Pair]:
    """The pairs of classes confused most often, by count.

    >>> most_confused(np.array([[5, 2], [3, 5]]), 1)
    [Pair(true=1, predicted=0, count=3, share=0.375)]
    """
    shares = row_shares(counts)
    wrong = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:limit]
    places = [divmod(int(k), len(counts)) for k in order]
    return [Pair(i, j, int(wrong[i, j]), float(shares[i, j])) for i, j in places if wrong[i, j] > 0]


def _matrix(found: Found) -> str:
    first: Matrix = found.items[0]
    counts = total(found.items)
    return _written_out(found, first, counts) if len(counts) <= _MANY else _picture(found, first, counts)


def _written_out(found: Found, matrix: Matrix, counts: np.ndarray) -> str:
    names = [text(name) for name in matrix.classes]
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    shares = row_shares(counts)
    written = np.rint(100 * shares).astype(int) if counts.max(initial=0) >= _LARGE else counts
    body = "\n".join(
        f'<tr><th scope="row">{name}</th>' + "".join(map(_cell, numbers, shades)) + "</tr>"
        for name, numbers, shades in zip(names, written.tolist(), shares.tolist(), strict=True)
    )
    corner = '<th scope="col" class="corner">true ↓<br>predicted →</th>'
    markup = f"<table><thead><tr>{corner}{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    upright = all(len(name) < 4 for name in matrix.classes)
    return scroll(f"{matrix.title} of {found.label}", markup, "confusion" if upright else "confusion tall")


def _cell(number: int, share: float) -> str:
    strength = 100 * share**0.5
    kind = ' class="deep"' if strength > 62 else ' class="zero"' if number == 0 else ""
    shade = f' style="--s:{strength:.0f}%"' if number else ""
    return f"<td{kind}{shade}>{count(number)}</td>"


def _picture(found: Found, matrix: Matrix, counts: np.ndarray) -> str:
    size = len(counts)
    description = f"{matrix.title} of {found.label} with {size} classes, rows true, columns predicted"
    drawn = figure(
        image(png_uri(heat(row_shares(counts))), description, size, size),
        f"{size} classes: rows true, columns predicted",
        "card matrix",
    )
    pairs = most_confused(counts)
    if not pairs:
        return drawn + "<p>No class was taken for another.</p>"
    names = matrix.classes
    rows = [[text(names[p.true]), text(names[p.predicted]), count(p.count), text(percent(p.share))] for p in pairs]
    return drawn + table(
        f"Most confused classes of {found.label}", ["True", "Predicted", "Count", "Of the class"], rows
    )
