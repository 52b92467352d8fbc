"""Synthetic run folders of made-up tasks, written by the same functions that a real run uses."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import Cost, Result, write_config, write_findings, write_metrics, write_result
from evolvent.tasks import DataSettings, Task, TaskSettings, register_task
from evolvent.tasks.findings import (
    Animation,
    Curve,
    Features,
    Field,
    Figure,
    Findings,
    Gallery,
    LabelMaps,
    Matrix,
    Table,
)

EPOCHS = 8
DIGITS = [str(k) for k in range(10)]


class _Data(DataSettings):
    name: str = "made-up"
    fraction: float = 1.0


class _Settings(TaskSettings):
    name: str = "made-up-images"


@register_task("made-up-images")
class MadeUpImages(Task):
    """Named by recipes of these tests; never trained."""

    Settings, Data = _Settings, _Data
    figures = (
        Figure("accuracy", "accuracy", "share", "higher"),
        Figure("error", "error", "share", "lower", shown=False),
        Figure("loss", "loss", "number", "lower"),
    )


@register_task("made-up-equation")
class MadeUpEquation(MadeUpImages):
    """A solver of an equation: its score is an error and the smaller the better."""

    figures = (
        Figure("error_l2", "relative L2 error", "number", "lower"),
        Figure("loss", "residual", "number", "lower"),
    )


def recipe(name: str = "hamiltonian-mnist", **changes: Any) -> Recipe:
    values = {
        "name": name,
        "title": "Hamiltonian against residual network on MNIST",
        "question": "Does a Hamiltonian network of the same size reach the accuracy of a residual network?",
        "papers": ["Ruthotto and Haber 2020, Deep neural networks motivated by partial differential equations"],
        "model": {"name": "hamiltonian", "options": {"channels": [16, 32, 64], "steps": 4}},
        "data": {"name": "mnist-5k", "batch_size": 50},
        "task": {"name": "made-up-images"},
        "training": {"epochs": EPOCHS},
        "variants": {
            "hamiltonian": {},
            "resnet": {"model": {"name": "resnet"}, "optimizer": {"lr": 0.05}, "training": {"gradient": "checkpoint"}},
        },
        "seeds": [0, 1, 2],
        "published": [
            {"variant": "hamiltonian", "value": 98.9, "source": "Table 2"},
            {"variant": "resnet", "value": 98.5, "source": "Table 2"},
            {"variant": "resnet", "metric": "parameters", "value": 42000, "source": "Table 1"},
        ],
    }
    return Recipe.read(values | changes, "test recipe")


def metrics(rng: np.random.Generator, kinds: tuple[Figure, ...], epochs: int = EPOCHS) -> list[dict[str, float]]:
    """Falling losses and errors, rising shares; validation every second epoch only."""
    rows = []
    for epoch in range(1, epochs + 1):
        loss = 2.3 * np.exp(-0.5 * epoch) + 0.02 + 0.08 * rng.random()
        row = {"epoch": epoch, "step": 45 * epoch, "lr": 0.1 if epoch < 6 else 0.01, "colour_of_the_sky": 3.0}
        for kind in kinds:
            value = max(0.0, 1 - 0.4 * loss) if kind.better == "higher" else loss
            row |= {f"train_{kind.name}": value, f"test_{kind.name}": 0.97 * value}
            row |= {} if epoch % 2 else {f"val_{kind.name}": 0.98 * value}
        rows.append(row)
    return rows


def picture(rng: np.random.Generator, channels: int, size: int) -> np.ndarray:
    y, x = np.mgrid[:size, :size] / size - 0.5
    centre, width = rng.uniform(-0.2, 0.2, (2, channels, 1, 1)), rng.uniform(0.02, 0.08)
    return (255 * np.exp(-(((x - centre[0]) ** 2 + (y - centre[1]) ** 2 - 0.05) ** 2) / width**2)).astype(np.uint8)


def features(rng: np.random.Generator, channels: int, size: int) -> Features:
    maps = []
    for times, side in ((5, size), (5, size // 2), (14, size // 4)):
        y, x = np.mgrid[:side, :side] / side
        waves, t = rng.uniform(2, 9, (2, 1, 8, 1, 1)), np.linspace(0, 2, times)[:, None, None, None]
        maps.append((np.sin(waves[0] * x + t) * np.cos(waves[1] * y - t) * np.exp(-0.3 * t)).astype(np.float32))
    norms = [np.sqrt((m**2).sum(axis=(1, 2, 3))) for m in maps]
    return Features("Features through time", picture(rng, channels, size), maps, norms)


def image_findings(
    rng: np.random.Generator, classes: list[str], channels: int = 1, size: int = 28, wrong: int = 30
) -> Findings:
    """What a classification finds."""
    n = len(classes)
    counts = rng.poisson(0.8 if n < 30 else 0.05, (n, n))
    counts[np.diag_indices(n)] = rng.integers(70, 100, n)
    labels = rng.integers(0, n, wrong)
    confidences = np.sort(rng.uniform(0.4, 1, wrong))[::-1]
    captions = [f"{classes[k]} → {classes[(k + 1) % n]}" for k in labels.tolist()]
    images = np.stack([picture(rng, channels, size) for _ in range(wrong)])
    shares = (counts.diagonal() / counts.sum(axis=1)).tolist()
    rows = [[name, share] for name, share in zip(classes, shares, strict=True)]
    levels = [0.0, 0.1, 0.2, 0.3]
    noise = ([*levels], [0.97 - level + 0.02 * float(rng.normal()) for level in levels])
    return Findings(
        tables=[Table("Classes", ["class", "accuracy"], rows, ["number", "share"])],
        curves=[Curve("Accuracy under noise", "standard deviation", "accuracy", {"test": noise}, y_unit="share")],
        matrices=[Matrix("Confusion", classes, counts)],
        galleries=[Gallery("Misclassified images", images, captions, confidences, "The surest mistakes.")],
        features=[features(rng, channels, size)],
    )


def point_findings(rng: np.random.Generator, points: int = 60, frames: int = 23) -> Findings:
    """What a task on points of the plane finds."""
    angle, label = rng.uniform(0.5, 9, points), np.arange(points) % 2
    start = (angle * np.stack([np.cos(angle + np.pi * label), np.sin(angle + np.pi * label)])).T / 9
    end = np.stack([2.0 * label - 1 + 0.2 * rng.normal(size=points), rng.normal(size=points)], axis=1)
    t = np.linspace(0, 1, frames)[:, None, None]
    grid = np.linspace(-1, 1, 40)
    regions = ((np.arctan2(grid[:, None], grid) + 6 * np.hypot(grid[:, None], grid)) % (2 * np.pi) > np.pi).astype(int)
    moving = Animation("Flow", (1 - t) * start + t * end, label, regions, (-1.0, 1.0, -1.0, 1.0))
    figures = Table("Figures", ["n", "steps", "time"], [["a", 12345, 61.0]], ["number", "count", "seconds"])
    return Findings(tables=[figures], animations=[moving])


def equation_findings(rng: np.random.Generator, size: int = 80) -> Findings:
    """What a solver of a partial differential equation finds."""
    x, t = np.linspace(-1, 1, size), np.linspace(0, 1, size // 2)[:, None]
    reference = -np.sin(np.pi * x) * np.exp(-2 * t) / np.cosh(3 * x * t)
    values = reference + 0.03 * np.sin(5 * x + float(rng.normal())) * t
    epochs, extent = np.arange(1, 200), (-1.0, 1.0, 0.0, 1.0)
    losses = {name: (epochs.tolist(), (np.exp(-epochs / 50) * (1 + 0.1 * rng.random(199)) * scale).tolist())
              for name, scale in (("equation", 1.0), ("boundary", 0.1))}  # fmt: skip
    return Findings(
        answer="The solution decays.",
        curves=[Curve("Parts of the objective", "step", "mean square", losses, log_y=True)],
        fields=[Field("Solution", values, extent, "x", "t", reference), Field("Velocity", values, extent)],
    )


def label_map_findings(rng: np.random.Generator, classes: list[str], size: tuple[int, int] = (48, 64)) -> Findings:
    """What a segmentation finds; the same images for every network."""
    height, width = size
    y, x = np.mgrid[:height, :width] / height
    same = np.random.default_rng(7)
    labels = np.stack(
        [np.minimum((3 * (y + 0.2 * np.sin(5 * x + k))).astype(np.uint8), len(classes)) for k in range(3)]
    )
    images = np.stack([(255 * same.random((3, 1, 1)) * (0.5 + labels[k] / 8)).astype(np.uint8) for k in range(3)])
    wrong = rng.random(labels.shape) < 0.1
    predictions = np.where(wrong, 0, np.minimum(labels, len(classes) - 1)).astype(np.uint8)
    iou = Table("Intersection over union", ["class", "IoU"],
                [[name, 0.5 + 0.4 * float(rng.random())] for name in classes[:-1]] + [[classes[-1], None]],
                ["number", "share"])  # fmt: skip
    return Findings(tables=[iou], label_maps=[LabelMaps("Predictions", images, labels, predictions, classes)])


def result(rng: np.random.Generator, cell: Cell) -> Result:
    residual = cell.variant == "resnet"
    cost = Cost(41332 if residual else 41098, 158_500_000, 4_200_000 if residual else 12_900_000,
                cell.data.batch_size or 1, cell.training.gradient, "cpu")  # fmt: skip
    kinds = list(cell.kind.figures)
    score = (0.972 if residual else 0.978) + float(rng.normal(0, 0.003))
    values = {"accuracy": score, "error": 1 - score, "loss": 0.0731, "error_l2": 0.01 * (1 + float(rng.random()))}
    figures = {kind.name: values[kind.name] for kind in kinds}
    return Result(figures, kinds, cost, "images", EPOCHS - 1, EPOCHS, 45 * EPOCHS, 754.0, 912.4)


def write_cell(folder: Path, cell: Cell, *, finished: bool = True, findings: Findings | None = None) -> Path:
    rng = np.random.default_rng([cell.seed, len(cell.variant)])
    write_config(folder / "config.yaml", cell)
    environment = {"format": 1, "versions": {"torch": "2.13.0", "evolvent": "0.1.0"}, "seed": cell.seed, "threads": 2}
    (folder / "environment.json").write_text(json.dumps(environment))
    write_metrics(folder / "metrics.csv", metrics(rng, cell.kind.figures, EPOCHS if finished else 3))
    if finished:
        write_findings(folder, findings or Findings())
        write_result(folder, result(rng, cell))
    return folder


WriteGrid = Callable[..., Path]


@pytest.fixture
def write_grid(tmp_path: Path) -> WriteGrid:
    """Write a grid's folder; ``unfinished`` and ``absent`` name cells by their label, ``find`` makes findings."""

    def write(
        source: Recipe,
        identity: str = "a1b2c3d4",
        unfinished: tuple[str, ...] = (),
        absent: tuple[str, ...] = (),
        find: Callable[..., Findings] | None = image_findings,
        **options: Any,
    ) -> Path:
        folder = tmp_path / source.name / identity
        write_config(folder / "recipe.yaml", source)
        if find is image_findings:
            options.setdefault("classes", DIGITS)
        for cell in source.cells():
            if cell.label not in absent:
                found = find(np.random.default_rng([cell.seed, len(cell.variant)]), **options) if find else None
                where = folder / "cells" / cell.folder_name
                write_cell(where, cell, finished=cell.label not in unfinished, findings=found)
        return folder

    return write


@pytest.fixture
def write_single(tmp_path: Path) -> WriteGrid:
    """Write the folder of a single run, without recipe.yaml unless asked for."""

    def write(
        source: Recipe,
        identity: str = "single01",
        *,
        with_recipe: bool = False,
        finished: bool = True,
        findings: Findings | None = None,
    ) -> Path:
        folder = tmp_path / source.name / identity
        if with_recipe:
            write_config(folder / "recipe.yaml", source)
        found = findings or image_findings(np.random.default_rng(0), DIGITS)
        return write_cell(folder, source.cells()[0], finished=finished, findings=found)

    return write


@pytest.fixture
def make_recipe() -> Callable[..., Recipe]:
    return recipe


@pytest.fixture
def make_findings() -> dict[str, Callable[..., Findings]]:
    """Findings of several kinds of tasks, by name."""
    return {"images": image_findings, "points": point_findings, "equation": equation_findings,
            "label maps": label_map_findings}  # fmt: skip


@pytest.fixture
def grid(write_grid: WriteGrid) -> Path:
    """Two variants with three seeds, all finished."""
    return write_grid(recipe())


@pytest.fixture
def streets(write_grid: WriteGrid) -> Path:
    """A grid that finds label maps: two variants, two seeds."""
    source = recipe("streets", seeds=[0, 1], published=[])
    return write_grid(source, find=label_map_findings, classes=["sky", "road", "<b>car</b>"])


@pytest.fixture
def equation(write_grid: WriteGrid) -> Path:
    """A grid of solvers of an equation: two variants, two seeds."""
    source = recipe("equation", title="Solvers", task={"name": "made-up-equation"}, seeds=[0, 1], published=[])
    return write_grid(source, find=equation_findings)


@pytest.fixture
def hostile(write_grid: WriteGrid) -> Path:
    """Names with markup in every place a name can stand."""
    nasty = '<script>alert("1")</script> & co'
    source = recipe(
        "nasty",
        title=nasty,
        question=nasty,
        papers=[nasty],
        variants={nasty: {"model": {"options": {nasty: nasty}}}, "b": {}},
        seeds=[0],
        published=[
            {"variant": nasty, "value": 50.0, "source": nasty, "metric": nasty},
            {"variant": nasty + "2", "value": 50.0, "source": nasty},
        ],
    )

    def find(rng: np.random.Generator) -> Findings:
        images = image_findings(rng, [nasty, "</table><b>"], channels=3, size=32)
        points, solved = point_findings(rng), equation_findings(rng)
        named = dict.fromkeys(("a", nasty), ([1.0, 2.0], [1.0, 2.0]))
        return Findings(
            answer=nasty,
            tables=[Table(nasty, [nasty, "v"], [[nasty, nasty], ["b", 1.0]])],
            curves=[Curve(nasty, nasty, nasty, named), *images.curves],
            matrices=images.matrices,
            galleries=images.galleries,
            fields=[Field(nasty, solved.fields[0].values, (0, 1, 0, 1), nasty, nasty, solved.fields[0].reference)],
            features=images.features,
            animations=[Animation(nasty, points.animations[0].frames, points.animations[0].labels)],
        )

    return write_grid(source, find=find)


PNG = "data:image/png;base64,"
_VOID = {"meta", "img", "br"}


class PageReader(HTMLParser):
    """Collects what a browser would see and refuses unbalanced tags."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).replace("\N{NO-BREAK SPACE}", " ").split())

    def values(self, name: str) -> list[str]:
        return [attrs[name] for _, attrs in self.tags if name in attrs]


def checked(page: str) -> PageReader:
    """What holds for every report."""
    reader = PageReader(page)
    ids = reader.values("id")
    assert len(ids) == len(set(ids))
    references = [r for r in reader.values("href") + reader.values("xlink:href") if not r.startswith(PNG)]
    assert all(reference.removeprefix("#") in ids for reference in references)
    assert all(source.startswith(PNG) for source in reader.values("src"))
    assert all(target in ids for target in re.findall(r"url\(#?([^)]*)\)", page))
    assert "http:" not in page
    assert "https:" not in page
    assert "script" not in {tag for tag, _ in reader.tags}
    assert all(attrs.get("alt") for tag, attrs in reader.tags if tag == "img")
    assert all(attrs.get("aria-label") for tag, attrs in reader.tags if tag == "svg")
    assert all(attrs.get("scope") for tag, attrs in reader.tags if tag == "th")
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert not re.search(r"#0101\w\w|#01020[34]", page), "a sentinel colour is left"
    assert "Content-Security-Policy" in page
    return reader


@pytest.fixture
def check() -> Callable[[str], PageReader]:
    """Read a report and check what holds for every one."""
    return checked
