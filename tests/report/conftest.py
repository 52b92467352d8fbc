"""Synthetic run folders, written by the same functions that a real run uses."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from evolvent.experiments.recipe import Cell, Recipe
from evolvent.experiments.record import (
    Cost,
    Evaluation,
    Result,
    write_config,
    write_evaluation,
    write_metrics,
    write_result,
)

EPOCHS = 8
DIGITS = [str(k) for k in range(10)]


def recipe(name: str = "hamiltonian-mnist", **changes) -> Recipe:
    values = {
        "name": name,
        "title": "Hamiltonian against residual network on MNIST",
        "question": "Does a Hamiltonian network of the same size reach the accuracy of a residual network?",
        "papers": ["Ruthotto and Haber 2020, Deep neural networks motivated by partial differential equations"],
        "model": {"name": "hamiltonian", "options": {"channels": [16, 32, 64], "steps": 4}},
        "data": {"name": "mnist-5k", "validation": 0.1},
        "training": {"epochs": EPOCHS},
        "variants": {
            "hamiltonian": {},
            "resnet": {"model": {"name": "resnet"}, "optimizer": {"lr": 0.05}, "training": {"gradient": "checkpoint"}},
        },
        "seeds": [0, 1, 2],
        "published": [
            {"variant": "hamiltonian", "value": 98.9, "source": "Table 2"},
            {"variant": "resnet", "value": 0.985, "source": "Table 2"},
            {"variant": "resnet", "metric": "parameters", "value": 42000, "source": "Table 1"},
        ],
    }
    return Recipe.read(values | changes, "test recipe")


def metrics(rng: np.random.Generator, epochs: int = EPOCHS, speed: float = 0.5) -> list[dict[str, float]]:
    """Falling losses and rising accuracies; validation every second epoch only."""
    rows = []
    for epoch in range(1, epochs + 1):
        loss = 2.3 * np.exp(-speed * epoch) + 0.02 + 0.08 * rng.random()
        row = {
            "epoch": epoch,
            "step": 45 * epoch,
            "lr": 0.1 if epoch < 6 else 0.01,
            "train_loss": loss,
            "train_accuracy": 1 - 0.4 * loss,
            "test_loss": 1.3 * loss + 0.05,
            "test_accuracy": 1 - 0.45 * loss,
            "images_per_second": 900.0,
            "seconds": 5.0 * epoch,
            "colour_of_the_sky": 3.0,
        }
        rows.append(row if epoch % 2 else row | {"val_loss": 1.2 * loss, "val_accuracy": 1 - 0.42 * loss})
    return rows


def picture(rng: np.random.Generator, channels: int, size: int) -> np.ndarray:
    y, x = np.mgrid[:size, :size] / size - 0.5
    centre, width = rng.uniform(-0.2, 0.2, (2, channels, 1, 1)), rng.uniform(0.02, 0.08)
    return (255 * np.exp(-(((x - centre[0]) ** 2 + (y - centre[1]) ** 2 - 0.05) ** 2) / width**2)).astype(np.uint8)


def features(rng: np.random.Generator, times: int, size: int) -> np.ndarray:
    y, x = np.mgrid[:size, :size] / size
    waves = rng.uniform(2, 9, (2, 1, 8, 1, 1))
    t = np.linspace(0, 2, times)[:, None, None, None]
    return (np.sin(waves[0] * x + t) * np.cos(waves[1] * y - t) * np.exp(-0.3 * t)).astype(np.float32)


def evaluation(
    rng: np.random.Generator, classes: int, channels: int = 1, size: int = 28, wrong: int = 30
) -> Evaluation:
    confusion = rng.poisson(0.8 if classes < 30 else 0.05, (classes, classes))
    confusion[np.diag_indices(classes)] = rng.integers(70, 100, classes)
    labels = rng.integers(0, classes, wrong)
    maps = [features(rng, times, side) for times, side in ((5, size), (5, size // 2), (14, size // 4))]
    return Evaluation(
        confusion=confusion,
        wrong_images=np.stack([picture(rng, channels, size) for _ in range(wrong)]),
        wrong_labels=labels,
        wrong_predictions=(labels + 1) % classes,
        wrong_confidences=np.sort(rng.uniform(0.4, 1, wrong))[::-1],
        image=picture(rng, channels, size),
        image_label=classes - 1,
        features=maps,
        feature_norms=[np.sqrt((m**2).sum(axis=(1, 2, 3))) for m in maps],
    )


def result(rng: np.random.Generator, cell: Cell, classes: list[str]) -> Result:
    residual = cell.variant == "resnet"
    cost = Cost(
        41332 if residual else 41098,
        158_500_000,
        4_200_000 if residual else 12_900_000,
        cell.data.batch_size,
        cell.training.gradient,
        "cpu",
    )
    accuracy = (0.972 if residual else 0.978) + float(rng.normal(0, 0.003))
    top5 = 0.998 if len(classes) > 5 else None
    per_class = [accuracy] * len(classes)
    return Result(classes, cost, accuracy, top5, 0.0731, per_class, EPOCHS - 1, EPOCHS, 45 * EPOCHS, 754.0, 912.4)


def write_cell(folder: Path, cell: Cell, classes: list[str], *, finished: bool = True, **pictures) -> Path:
    rng = np.random.default_rng([cell.seed, len(cell.variant)])
    write_config(folder / "config.yaml", cell)
    environment = {"versions": {"torch": "2.13.0", "evolvent": "0.1.0"}, "seed": cell.seed, "threads": 2}
    (folder / "environment.json").write_text(json.dumps(environment))
    write_metrics(folder / "metrics.csv", metrics(rng, EPOCHS if finished else 3, 2 / len(cell.variant)))
    if finished:
        write_evaluation(folder / "evaluation.npz", evaluation(rng, len(classes), **pictures))
        write_result(folder / "result.json", result(rng, cell, classes))
    return folder


WriteGrid = Callable[..., Path]


@pytest.fixture
def write_grid(tmp_path: Path) -> WriteGrid:
    """Write a grid's folder; ``unfinished`` and ``absent`` name cells by their label."""

    def write(
        source: Recipe,
        identity: str = "a1b2c3d4",
        classes: list[str] = DIGITS,
        unfinished: tuple[str, ...] = (),
        absent: tuple[str, ...] = (),
        **pictures,
    ) -> Path:
        folder = tmp_path / source.name / identity
        write_config(folder / "recipe.yaml", source)
        for cell in source.cells():
            if cell.label not in absent:
                name = "".join(c if c.isalnum() or c == "-" else "_" for c in cell.label)
                write_cell(folder / "cells" / name, cell, classes, finished=cell.label not in unfinished, **pictures)
        return folder

    return write


@pytest.fixture
def write_single(tmp_path: Path) -> WriteGrid:
    """Write the folder of a single run, without recipe.yaml unless asked for."""

    def write(
        source: Recipe, identity: str = "single01", classes: list[str] = DIGITS, *, with_recipe: bool = False, **options
    ) -> Path:
        folder = tmp_path / source.name / identity
        if with_recipe:
            write_config(folder / "recipe.yaml", source)
        return write_cell(folder, source.cells()[0], classes, **options)

    return write


@pytest.fixture
def make_recipe() -> Callable[..., Recipe]:
    return recipe


@pytest.fixture
def make_evaluation() -> Callable[..., Evaluation]:
    return evaluation


@pytest.fixture
def grid(write_grid: WriteGrid) -> Path:
    """Two variants with three seeds, all finished."""
    return write_grid(recipe())


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
    return write_grid(source, classes=[nasty, "</table><b>"], channels=3, size=32)


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
    references = reader.values("href") + reader.values("xlink:href")
    assert all(reference.removeprefix("#") in ids for reference in references)
    assert all(source.startswith("data:image/png;base64,") for source in reader.values("src"))
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
