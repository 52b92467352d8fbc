"""The report: one self-contained HTML file from one or several run folders, or from a study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent._core.files import write_text
from evolvent.experiments.record import is_study
from evolvent.report.animations import animations_sections
from evolvent.report.coefficients import coefficients_section
from evolvent.report.configuration import configuration_section
from evolvent.report.cost import cost_section, layers_section
from evolvent.report.curves import curves_section, training_section
from evolvent.report.equivariance import equivariance_section
from evolvent.report.feature_clusters import clusters_section
from evolvent.report.features import features_sections
from evolvent.report.fields import fields_sections
from evolvent.report.fractions import fractions_section
from evolvent.report.galleries import galleries_sections
from evolvent.report.inversion import inversion_section
from evolvent.report.label_maps import label_maps_sections
from evolvent.report.markup import text
from evolvent.report.matrices import matrices_sections
from evolvent.report.numbers import count
from evolvent.report.overview import page_title, run_header, summary_section
from evolvent.report.receptive_field import field_of_view_section
from evolvent.report.robustness import masking_section, robustness_section
from evolvent.report.rotation import angles_section
from evolvent.report.runs import Run, Series, list_series, read_runs, renumbered
from evolvent.report.stability import stability_section
from evolvent.report.study import read_study_page, study_header, study_settings
from evolvent.report.subjects import Subject, read_subjects
from evolvent.report.summary import SummaryRow, ranked, series_row
from evolvent.report.sweeps import sweeps_section
from evolvent.report.tables import tables_section
from evolvent.report.theme import style_sheet
from evolvent.report.weight_spectra import spectra_section

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_DRAWN = 12  # variants in pictures at most


def write_report(runs: Sequence[Run | Path], target: Path) -> Path:
    """Write the report of one or several runs, side by side, to one HTML file.

    Args:
        runs: run folders, each a single run or a grid, or what :func:`read_run` made of them; unfinished ones give what
            there is. A study, which must be finished, has a page of its own.
        target: the file to write.

    Raises:
        ConfigError: a folder is not a run folder.
    """
    target = Path(target)
    write_text(target, report_html(runs))
    return target


def report_html(runs: Sequence[Run | Path]) -> str:
    """The report as text."""
    if any(not isinstance(run, Run) and is_study(Path(run)) for run in runs):
        return _study_html(runs)
    found = read_runs(runs)
    all_series = list_series(found)
    rows = [series_row(series) for series in all_series]
    drawn = _drawn(all_series, rows)
    subjects = read_subjects(drawn)
    sections = [
        summary_section(all_series, rows, drawn),
        _note(all_series, drawn),
        training_section(drawn),
        fractions_section(all_series),
        sweeps_section(all_series),
        *findings_sections(subjects),
        angles_section(drawn),
        clusters_section(drawn),
        inversion_section(drawn),
        robustness_section(drawn),
        masking_section(drawn),
        equivariance_section(drawn),
        coefficients_section(drawn),
        stability_section(drawn),
        spectra_section(drawn),
        field_of_view_section(drawn),
        cost_section(drawn),
        layers_section(drawn),
        configuration_section(found, all_series),
    ]
    return _document(page_title(found), run_header(found, rows, subjects), "".join(sections))


def findings_sections(subjects: Sequence[Subject]) -> list[str]:
    """Everything that tasks or studies found."""
    return [
        animations_sections(subjects),
        fields_sections(subjects),
        label_maps_sections(subjects),
        tables_section(subjects),
        curves_section(subjects),
        matrices_sections(subjects),
        galleries_sections(subjects),
        features_sections(subjects),
    ]


def _drawn(all_series: Sequence[Series], rows: Sequence[SummaryRow]) -> list[Series]:
    """All variants; of many the best by their score, in the recipe's order, then those that have none yet."""
    if len(all_series) <= _DRAWN:
        return list(all_series)
    order = {row.label: place for place, row in enumerate(ranked(rows))}
    best = sorted(all_series, key=lambda series: order.get(series.label, len(order)))[:_DRAWN]
    chosen = {series.label for series in best}
    return renumbered([series for series in all_series if series.label in chosen])


def _note(all_series: Sequence[Series], drawn: Sequence[Series]) -> str:
    if len(drawn) == len(all_series):
        return ""
    said = f"Of {count(len(all_series))} variants the {len(drawn)} with the best score are drawn below."
    return f'<p class="lead">{text(said)}</p>'


def _study_html(runs: Sequence[Run | Path]) -> str:
    if len(runs) > 1 or isinstance(runs[0], Run):
        raise ConfigError("a study has a page of its own, so its run folder must be the only one. Give one at a time.")
    study = read_study_page(Path(runs[0]))
    body = "".join(findings_sections(study.subjects)) + study_settings(study)
    return _document(study.recipe.title, study_header(study), body)


def _document(title: str, header_html: str, body_html: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)}</title>
<style>
{style_sheet()}</style>
</head>
<body>
{header_html}{_contents(body_html)}<main>
{body_html}</main>
<footer>Written by Evolvent. This file is self-contained.</footer>
</body>
</html>
"""


def _contents(body_html: str) -> str:
    """Links to the sections that are there."""
    found = re.findall(r'<section id="([\w-]+)">\n<h2>(.*?)</h2>', body_html)
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in found)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
