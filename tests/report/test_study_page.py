"""The page of a study: complete, escaped, in the page's colours."""

import html
from pathlib import Path

import numpy as np
import pytest

from evolvent._core.errors import ConfigError
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.record import write_config
from evolvent.experiments.studies.run_folder import SeedResult
from evolvent.report import report_html, study
from evolvent.tasks.findings import Animation, Curve, Findings, Table

NASTY = '<script>alert("1")</script> & co'


def findings(name: str = "plain") -> Findings:
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.normal(size=(23, 12, 2)), axis=0)
    two = {name: ([2, 4, 8], [1e-2, 1e-4, float("nan")]), "b": ([2, 4], [0.0, 1.0])}
    curves = [
        Curve(name, "steps", "error", two, True, True),
        Curve("Many", "x", "y", {f"s{k}": (list(range(1, 30)), [float(k)] * 29) for k in range(10)}, log_x=True),
        Curve("Whole", "epoch", "loss", {"a": ([1, 2, 3], [3.0, 2.0, 1.0])}),
        Curve("Nothing to draw", "x", "y", {"a": ([1.0], [float("nan")])}, log_x=True, log_y=True),
    ]
    tables = [Table(name, ["n", name, "v"], [[name, 12345, 0.00012], ["b", None, -1.5]])]
    regions = np.arange(16).reshape(4, 4) // 4 % 3
    moving = Animation("Moving", frames, np.arange(12) % 3, regions, (-1.0, 1.0, -1.0, 1.0))
    still = Animation("Still", np.zeros((1, 2, 2)), np.array([0, 1]), np.eye(2, dtype=int), captions=["one <frame>"])
    return Findings(answer=name, tables=tables, curves=curves, animations=[moving, still])


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A study's folder; what it found is handed over in place of its files."""

    def make(name: str = "plain", seeds=(0,), title: str = "Title") -> Path:
        folder = tmp_path / "study" / "id"
        recipe = StudyRecipe(name="made-up", title=title, question=name, papers=["haber2017", name], study="spirals",
                             settings={"layers": 8}, seeds=list(seeds))  # fmt: skip
        write_config(folder / "recipe.yaml", recipe)
        (folder / "environment.json").write_text('{"format": 1, "python": "3"}')
        found = [SeedResult(seed, 61.0, findings(name)) for seed in seeds]
        monkeypatch.setattr(study, "read_study", lambda _: found)
        return folder

    return make


def sections(reader) -> list[str]:
    return [attrs["id"] for tag, attrs in reader.tags if tag == "section"]


def test_everything_is_there(write, check):
    reader = check(report_html([write()]))
    for part in (
        "Title",
        "plain",
        "Stable Architectures",
        "12,345",
        "0.00012",
        "−1.5",
        "1 min 01 s",
        "Complete recipe",
        "one <frame>",
    ):
        assert part in reader.text
    assert sections(reader) == ["animation-0", "animation-1", "tables", "curves", "settings"]
    assert sum(tag == "details" for tag, _ in reader.tags) == 3  # a curve in figures, recipe and environment


def test_regions_and_curves_take_the_colours_of_the_page(write):
    page = report_html([write()])
    assert 'stroke="var(--c2)"' in page
    assert 'class="plot"' in page
    assert "var(--soft)" in page


def test_markup_in_names_is_text(write, check):
    page = report_html([write(NASTY, title=NASTY)])
    check(page)
    assert "<script>" not in page
    assert html.escape(NASTY) in page


def test_several_seeds_stand_side_by_side(write, check):
    reader = check(report_html([write(seeds=(3, 4))]))
    assert sections(reader) == ["animation-0", "animation-1", "tables", "curves", "settings"]
    assert "Seed 4: plain" in reader.text
    assert "Many, seed 3" in reader.text
    assert sum(tag == "table" for tag, _ in reader.tags) == 2


def test_a_study_has_a_page_of_its_own(write, grid):
    with pytest.raises(ConfigError, match="page of its own"):
        report_html([write(), grid])
