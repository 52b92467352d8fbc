"""The page of a study: question, answer, tables, curves and moving points."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import yaml

from evolvent._core.errors import ConfigError
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.record import read_study_recipe
from evolvent.experiments.studies.result import StudyResult, Table, Value
from evolvent.experiments.studies.run_folder import SeedResult, read_study
from evolvent.networks import PAPERS
from evolvent.report.flow import flow_figures
from evolvent.report.markup import section, table, text
from evolvent.report.numbers import NONE, count, decimal, duration
from evolvent.report.study_curves import curve_figures


class StudyPage(NamedTuple):
    """The parts of a document."""

    title: str
    header_html: str
    body_html: str
    style: str


def study_page(folder: Path) -> StudyPage:
    """The page of one finished study.

    Raises:
        ConfigError: the study is not finished.
    """
    recipe, found = read_study_recipe(folder), read_study(folder)
    if recipe is None:
        raise ConfigError(f"{folder} is no study's folder: its recipe.yaml names none.")
    several = len(found) > 1
    body = "".join(_sections(entry, several) for entry in found) + _settings(recipe, folder)
    style = resources.files("evolvent.report").joinpath("study.css").read_text(encoding="utf-8")
    return StudyPage(recipe.title, _header(recipe, folder, found), body, style)


def _header(recipe: StudyRecipe, folder: Path, found: Sequence[SeedResult]) -> str:
    origin = f"{recipe.name} {folder.resolve().name} · {duration(sum(entry.seconds for entry in found))}"
    answers = [f"Seed {e.seed}: {e.result.answer}" if len(found) > 1 else e.result.answer for e in found]
    parts = [f'<p class="origin">{text(origin)}</p>', f"<h1>{text(recipe.title)}</h1>"]
    parts.append(f'<p class="question">{text(recipe.question)}</p>')
    parts += [f'<p class="answer">{text(answer)}</p>' for answer in answers]
    if recipe.papers:
        items = "".join(f"<li>{text(_reference(paper))}</li>" for paper in recipe.papers)
        parts.append(f'<div class="papers"><span>Papers</span><ul>{items}</ul></div>')
    return "<header>\n" + "\n".join(parts) + "\n</header>\n"


def _sections(entry: SeedResult, several: bool) -> str:
    mark, of = (f"-{entry.seed}", f", seed {entry.seed}") if several else ("", "")
    result: StudyResult = entry.result
    tables = "".join(_table(found) for found in result.tables)
    return (
        section(f"flow{mark}", f"Flow{of}", flow_figures(result.animations))
        + section(f"figures{mark}", f"Figures{of}", tables)
        + section(f"curves{mark}", f"Curves{of}", curve_figures(result.curves, f"curve{mark}"))
    )


def _table(found: Table) -> str:
    rows = [[_cell(value) for value in row] for row in found.rows]
    heading = f"<h3>{text(found.title)}</h3>"
    return heading + table(found.title, [text(column) for column in found.columns], rows, "figures")


def _cell(value: Value) -> str:
    match value:
        case None:
            return NONE
        case int():
            return count(value)
        case float():
            return decimal(value)
        case _:
            return text(value)


def _settings(recipe: StudyRecipe, folder: Path) -> str:
    """The recipe and the environment, folded up."""
    path = folder / "environment.json"
    environment = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    html = _folded("Complete recipe", recipe.model_dump(mode="json"))
    return section("settings", "Settings", html + (_folded("Environment", environment) if environment else ""))


def _folded(title: str, values: dict[str, object]) -> str:
    dumped = text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100))
    return f'<details><summary>{text(title)}</summary><pre tabindex="0"><code>{dumped}</code></pre></details>'


def _reference(paper: str) -> str:
    return PAPERS.get(paper).reference() if paper in PAPERS else paper
