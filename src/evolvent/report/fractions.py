"""Accuracy over the share of training images, for runs whose variants differ in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.report.accuracy_lines import AccuracyLine, accuracy_panel
from evolvent.report.configuration import differences, leaves, scalar
from evolvent.report.curves import Line
from evolvent.report.markup import section
from evolvent.report.runs import Series

_SHARE = ("recipe", "variant", "seed", "data.fraction")  # what may differ in a family
_LENGTH = ("training.epochs", "schedule.")  # counted in epochs, which are shorter with fewer images


def fractions_section(all_series: Sequence[Series]) -> str:
    """One line per family of variants that are alike but for their share of the training images."""
    lines = fraction_lines(all_series)
    html = accuracy_panel(lines, "fractions", "Test accuracy", "share of the training images", log=True)
    lead = (
        "Each line joins variants that differ only in how many training images they see, and for how many epochs. "
        "Lines are medians over seeds, dots single seeds."
    )
    return section("fractions", "Accuracy over the share of training images", html, lead)


def fraction_lines(all_series: Sequence[Series]) -> list[AccuracyLine]:
    """The families in which the share differs, under names that tell them apart."""
    found = [family for family in families(all_series) if len({_fraction(series) for series in family}) > 1]
    named = zip(_labels(found), found, strict=True)
    return [AccuracyLine(label, family[0].index, _seed_lines(family)) for label, family in named]


def families(all_series: Sequence[Series]) -> list[list[Series]]:
    """Finished variants of one run that are equal but for the share of images and, if need be, the epochs.

    Variants with the same share that differ in epochs or schedule are no points of one line; they part their family.
    """
    finished = [series for series in all_series if series.results]
    found = []
    for family in _grouped(finished, _SHARE + _LENGTH):
        shares = [_fraction(series) for series in family]
        found += [family] if len(set(shares)) == len(shares) else _grouped(family, _SHARE)
    return found


def _grouped(all_series: Sequence[Series], ignored: tuple[str, ...]) -> list[list[Series]]:
    groups: dict[tuple[Any, ...], list[Series]] = {}
    for series in all_series:
        setting = sorted((path, scalar(value)) for path, value in _setting(series, ignored).items())
        groups.setdefault((series.run.folder, *setting), []).append(series)
    return list(groups.values())


def _setting(series: Series, ignored: tuple[str, ...] = _SHARE) -> dict[str, Any]:
    config = series.records[0].cell.model_dump(mode="json")
    return {path: value for path, value in leaves(config) if not path.startswith(ignored)}


def _fraction(series: Series) -> float:
    return series.records[0].cell.data.fraction


def _seed_lines(family: Sequence[Series]) -> list[Line]:
    """For each seed the accuracies of those variants that are finished with it."""
    points: dict[int, list[tuple[float, float]]] = {}
    for record in (record for series in family for record in series.records):
        if record.result:
            points.setdefault(record.cell.seed, []).append((record.cell.data.fraction, record.result.accuracy))
    arrays = [np.asarray(sorted(of_seed)) for of_seed in points.values()]
    return [(array[:, 0], array[:, 1]) for array in arrays]


def _labels(found: Sequence[Sequence[Series]]) -> list[str]:
    """The shortest of three schemes under which labels differ: model; what else differs; and the run."""
    firsts = [family[0] for family in found]
    differing = differences([_setting(series, _SHARE + _LENGTH) for series in firsts])
    schemes: list[Callable[[Series], str]] = [
        lambda series: series.records[0].cell.model.name,
        lambda series: _described(series, differing),
        lambda series: f"{series.run.name} {series.run.identity} · {_described(series, differing)}",
    ]
    for scheme in schemes:
        labels = [scheme(series) for series in firsts]
        if len(set(labels)) == len(labels):
            return labels
    return [series.label for series in firsts]


def _described(series: Series, differing: Sequence[str]) -> str:
    setting = _setting(series)
    others = [path for path in differing if path in setting and path != "model.name"]
    words = [f"{path.removeprefix('model.options.')} {scalar(setting[path])}" for path in others]
    return ", ".join([setting["model.name"], *words])
