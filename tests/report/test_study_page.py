"""The page of a study: whole, escaped, in the page's colours, and quiet in a browser."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from evolvent.experiments.studies.result import Animation, Curve, Regions, StudyResult, Table

from evolvent._core.errors import ConfigError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.record import write_config
from evolvent.experiments.studies import run_folder as folders
from evolvent.report import report_html, write_report

BROWSER = shutil.which("chromium")
NASTY = '<script>alert("1")</script> & co'


def result(name: str = "plain") -> StudyResult:
    rng = np.random.default_rng(0)
    frames = np.cumsum(rng.normal(size=(23, 12, 2)), axis=0)
    regions = Regions(np.arange(16).reshape(4, 4) // 4 % 3, (-1.0, 1.0, -1.0, 1.0))
    curves = [
        Curve(
            name,
            "steps",
            "error",
            {name: ([2, 4, 8], [1e-2, 1e-4, float("nan")]), "b": ([2, 4], [0.0, 1.0])},
            True,
            True,
        ),
        Curve("Many", "x", "y", {f"s{k}": (list(range(1, 30)), [float(k)] * 29) for k in range(10)}, log_x=True),
        Curve("Whole", "epoch", "loss", {"a": ([1, 2, 3], [3.0, 2.0, 1.0])}),
        Curve("Nothing to draw", "x", "y", {"a": ([1.0], [float("nan")])}, log_x=True, log_y=True),
    ]
    tables = [Table(name, ["n", name, "v"], [[name, 12345, 0.00012], ["b", None, -1.5]])]
    still = Animation("Still", np.zeros((1, 2, 2)), np.array([0, 1]))
    return StudyResult(name, tables, curves, [Animation(name, frames, np.arange(12) % 3, regions), still])


@pytest.fixture
def write(tmp_path):
    def make(name: str = "plain", seeds=(0,), title: str = "Title") -> Path:
        folder = tmp_path / name[:5].strip("<") / "id"
        recipe = load_recipe("spirals", [f"seeds={list(seeds)}"])
        recipe = recipe.model_copy(update={"title": title, "question": name, "papers": ["haber2017", name]})
        write_config(folder / "recipe.yaml", recipe)
        (folder / "environment.json").write_text('{"python": "3"}')
        folders._write_study(folder, [folders.SeedResult(seed, 61.0, result(name)) for seed in seeds])
        return folder

    return make


def test_everything_is_there(write, check):
    page = report_html([write()])
    reader = check(page)
    words = " ".join(reader.words).replace("\N{NO-BREAK SPACE}", " ")
    for part in ("Title", "plain", "Stable Architectures", "12,345", "0.00012", "−1.5", "1 min 01", "Complete recipe"):
        assert part in words
    assert [attrs["id"] for tag, attrs in reader.tags if tag == "section"] == ["flow", "figures", "curves", "settings"]
    assert sum(tag == "details" for tag, _ in reader.tags) == 2


def test_points_move_without_script_and_stand_still_on_paper(write, check):
    page = report_html([write()])
    reader = check(page)
    moves = [attrs for tag, attrs in reader.tags if tag == "animate" and attrs["attributename"] == "cx"]
    assert len(moves) == 12 + 2
    values = moves[0]["values"].split(";")
    assert len(values) == 17 + 4
    assert values[-1] == values[-5]
    assert all(0 <= float(value) <= 300 for move in moves for value in move["values"].split(";"))
    assert page.count("<figcaption>t\xa0=") + page.count("<figcaption>t =") == 5 + 1
    assert "prefers-reduced-motion: reduce" in page
    assert "@media print { figure.moving { display: none; } }" in page


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


def test_several_seeds_stand_one_after_the_other(write, check):
    reader = check(report_html([write(seeds=(3, 4))]))
    sections = [attrs["id"] for tag, attrs in reader.tags if tag == "section"]
    assert sections == ["flow-3", "figures-3", "curves-3", "flow-4", "figures-4", "curves-4", "settings"]
    assert "Seed 4: plain" in " ".join(reader.words)


def test_a_study_stands_alone_and_must_be_finished(write):
    folder = write()
    with pytest.raises(ConfigError, match="page of its own"):
        report_html([folder, folder])
    (folder / "study.json").unlink()
    with pytest.raises(ConfigError, match="not finished"):
        report_html([folder])


@pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")
@pytest.mark.parametrize("width", [360, 1200])
def test_the_browser_has_nothing_to_complain_about(write, tmp_path, width):
    page = write_report([write(NASTY)], tmp_path / "page.html")
    log = tmp_path / "net.json"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
               "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr",
               "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
               f"--log-net-log={log}", f"--window-size={width},900", "--dump-dom"]  # fmt: skip
    command = [str(BROWSER), *options, page.as_uri()]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "Decision regions" in seen.stdout
    assert "CONSOLE" not in seen.stderr
    asked = set(re.findall(r'"url":"(https?://[^"]*)"', log.read_text()))
    assert not {url for url in asked if "google" not in url and "gvt1" not in url}


@pytest.mark.skipif(BROWSER is None, reason="no chromium on PATH")
def test_the_page_never_scrolls_sideways(write, tmp_path):
    """Measured in a frame, from which the policy is taken so that a script may look."""
    body = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", report_html([write(NASTY)]))
    body = body.replace("<details>", "<details open>")
    frames = "".join(f'<iframe width="{w}" height="800" srcdoc="{html.escape(body)}"></iframe>' for w in (320, 1200))
    script = (
        '<script>onload=()=>{document.body.textContent="EXCESS "+[...document.querySelectorAll("iframe")]'
        '.map(f=>f.contentDocument.documentElement).map(d=>d.scrollWidth-d.clientWidth).join(" ")+" END"}</script>'
    )
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!DOCTYPE html><meta charset=utf-8><body>{frames}{script}")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", outer.as_uri()]  # fmt: skip
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"EXCESS ([\d ]+) END", seen.stdout)
    assert found, seen.stderr
    assert [int(number) for number in found[1].split()] == [0, 0]
