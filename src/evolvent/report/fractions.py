"""Score over the share of training data, for runs whose variants differ in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evolvent.experiments.recipe import leaves
from evolvent.report.configuration import differing_paths, scalar
from evolvent.report.lines import Bundle, Frame, line_panel, values_table
from evolvent.report.markup import legend, section
from evolvent.report.runs import Series
from evolvent.report.sweeps import seed_lines
from evolvent.tasks.findings import Figure

_SHARE = ("recipe", "variant", "seed", "data.fraction")  # what may differ in a family
_LENGTH = ("training.epochs", "schedule.")  # counted in epochs, which are shorter with less data
_LINES = 12  # at most


def fractions_section(all_series: Sequence[Series]) -> str:
    """One line per family of variants that are alike except for their share of the training data, a plot per score."""
    found = fraction_bundles(all_series)
    html = ""
    for k, (score, bundles) in enumerate(found.items()):
        frame = Frame(f"Test {score.title}", "share of the training data", x_unit="share", y_unit=score.unit,
                      log_x=True, dots=True)  # fmt: skip
        panel = line_panel(bundles[:_LINES], frame, f"fractions-{k}")
        html += legend(bundles[:_LINES]) + f'<div class="panels">{panel}</div>{values_table(bundles[:_LINES], frame)}'
    lead = (
        "Each line joins variants that differ only in their share of the training data, and in the number of epochs. "
        "Lines are medians over seeds, dots single seeds."
    )
    return section("fractions", "Share of the training data", html, lead)


def fraction_bundles(all_series: Sequence[Series]) -> dict[Figure, list[Bundle]]:
    """For each score the families in which the share differs, under names that distinguish them."""
    found = [family for family in families(all_series) if len({_fraction(series) for series in family}) > 1]
    bundles: dict[Figure, list[Bundle]] = {}
    for label, family in zip(_labels(found), found, strict=True):
        of_score = bundles.setdefault(family[0].kinds[0], [])
        of_score.append(
            Bundle(label, len(of_score), seed_lines([(_fraction(series) or 0.0, series) for series in family]))
        )
    return bundles


def families(all_series: Sequence[Series]) -> list[list[Series]]:
    """Finished variants of one run that are equal except for the share of the data and, if necessary, the epochs.

    Variants with the same share that differ in epochs or schedule are not points of one line; they split their family.
    """
    finished = [series for series in all_series if series.results and _fraction(series) is not None]
    if len({_fraction(series) for series in finished}) < 2:
        return []
    found = []
    for family in _grouped(finished, _SHARE + _LENGTH):
        shares = [_fraction(series) for series in family]
        found += [family] if len(set(shares)) == len(shares) else _grouped(family, _SHARE)
    return found


def _grouped(all_series: Sequence[Series], ignored: tuple[str, ...]) -> list[list[Series]]:
    groups: dict[tuple[Any, ...], list[Series]] = {}
    for series in all_series:
        setting = sorted((path, repr(value)) for path, value in _setting(series, ignored).items())
        groups.setdefault((series.run.folder, *setting), []).append(series)
    return list(groups.values())


def _setting(series: Series, ignored: tuple[str, ...] = _SHARE) -> dict[str, Any]:
    config = series.records[0].cell.model_dump(mode="json")
    return {path: value for path, value in leaves(config) if not path.startswith(ignored)}


def _fraction(series: Series) -> float | None:
    """The share of the training data that a variant uses; None if its task has no such setting."""
    return getattr(series.records[0].cell.data, "fraction", None)


def _labels(found: Sequence[Sequence[Series]]) -> list[str]:
    """The shortest of three schemes under which labels differ: model; what else differs; and the run."""
    firsts = [family[0] for family in found]
    differing = differing_paths([_setting(series, _SHARE + _LENGTH) for series in firsts])
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
