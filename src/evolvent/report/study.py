"""The page of a study: its answer for each seed; what it found is drawn as that of a task is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from evolvent._core.errors import ConfigError
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.record import read_json, read_recipe
from evolvent.experiments.studies.run_folder import SeedResult, read_study
from evolvent.report.bounds import first_few
from evolvent.report.markup import preformatted, section
from evolvent.report.numbers import duration
from evolvent.report.overview import header
from evolvent.report.subjects import Subject

_SEEDS = 12  # drawn at most


@dataclass(frozen=True)
class StudyPage:
    """A finished study, read."""

    folder: Path
    recipe: StudyRecipe
    found: list[SeedResult]

    @property
    def subjects(self) -> list[Subject]:
        """Each seed is a subject, since seeds of a study may find different things."""
        return [Subject(f"seed {one.seed}", k, [one.findings]) for k, one in enumerate(self.found[:_SEEDS])]


def read_study_page(folder: Path) -> StudyPage:
    """Read one finished study.

    Raises:
        ConfigError: the study is not finished.
    """
    recipe = read_recipe(folder)
    if not isinstance(recipe, StudyRecipe):
        raise ConfigError(f"{folder} is not the folder of a study: its recipe.yaml names none.")
    return StudyPage(folder, recipe, read_study(folder))


def study_header(study: StudyPage) -> str:
    """Title, question, and the answer of each seed."""
    recipe, found = study.recipe, study.found
    origin = f"{recipe.name} {study.folder.resolve().name} · {duration(sum(one.seconds for one in found))}"
    answers = [f"Seed {one.seed}: {one.findings.answer}" if len(found) > 1 else one.findings.answer for one in found]
    return header(origin, recipe.title, [recipe.question], first_few(answers, _SEEDS), recipe.papers)


def study_settings(study: StudyPage) -> str:
    """The recipe and the environment, folded."""
    environment = read_json(study.folder / "environment.json") or {}
    html = preformatted("Complete recipe", _yaml(study.recipe.model_dump(mode="json")))
    html += preformatted("Environment", _yaml(environment)) if environment else ""
    return section("settings", "Settings", html)


def _yaml(values: dict[str, object]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)
