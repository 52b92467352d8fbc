"""The report: one self-contained HTML file from one or several run folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from evolvent._core.errors import ConfigError
from evolvent._core.files import write_text
from evolvent.experiments.record import is_study
from evolvent.report.configuration import configuration_section
from evolvent.report.confusion import confusion_section
from evolvent.report.cost import cost_section
from evolvent.report.curves import curves_section
from evolvent.report.fractions import fractions_section
from evolvent.report.layers import layers_section
from evolvent.report.markup import text
from evolvent.report.masks import iou_section, masks_section
from evolvent.report.mistakes import mistakes_section
from evolvent.report.noise import noise_section
from evolvent.report.overview import header, page_title, summary_section
from evolvent.report.receptive_field import field_of_view_section
from evolvent.report.runs import list_series, read_runs
from evolvent.report.stability import stability_section
from evolvent.report.study import study_page
from evolvent.report.summary import series_row
from evolvent.report.theme import style_sheet
from evolvent.report.trajectory import trajectory_section
from evolvent.report.weight_spectra import spectra_section

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(folders: Sequence[Path], target: Path) -> Path:
    """Write the report of one or several runs, side by side, to one HTML file.

    Args:
        folders: run folders, each a single run or a grid; unfinished ones give what there is. A study, which must be
            finished, has a page of its own.
        target: the file to write.

    Raises:
        ConfigError: a folder is no run folder.
    """
    target = Path(target)
    write_text(target, report_html(folders))
    return target


def report_html(folders: Sequence[Path]) -> str:
    """The report as text."""
    if any(is_study(Path(folder)) for folder in folders):
        return _study_html(folders)
    runs = read_runs(folders)
    all_series = list_series(runs)
    rows = [series_row(series) for series in all_series]
    sections = [
        summary_section(all_series, rows),
        curves_section(all_series),
        noise_section(all_series),
        fractions_section(all_series),
        masks_section(all_series),
        iou_section(all_series),
        confusion_section(all_series),
        mistakes_section(all_series),
        trajectory_section(all_series),
        stability_section(all_series),
        spectra_section(all_series),
        field_of_view_section(all_series),
        cost_section(all_series),
        layers_section(all_series),
        configuration_section(runs, all_series),
    ]
    return _document(page_title(runs), header(runs, rows), "".join(sections))


def _study_html(folders: Sequence[Path]) -> str:
    if len(folders) > 1:
        raise ConfigError("a study has a page of its own, so its run folder must be the only one. Give one at a time.")
    page = study_page(Path(folders[0]))
    return _document(page.title, page.header_html, page.body_html, page.style)


def _document(title: str, header_html: str, body_html: str, more_style: str = "") -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(title)}</title>
<style>
{style_sheet()}
{more_style}</style>
</head>
<body>
{header_html}{_contents(body_html)}<main>
{body_html}</main>
<footer>Written by Evolvent. This file needs nothing but itself.</footer>
</body>
</html>
"""


def _contents(body_html: str) -> str:
    """Links to the sections that are there."""
    found = re.findall(r'<section id="([\w-]+)">\n<h2>(.*?)</h2>', body_html)
    links = "".join(f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in found)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
