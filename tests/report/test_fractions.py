"""Score over the share of the training data: which lines there are, and what they say."""

import dataclasses
from pathlib import Path

import pytest

from evolvent.experiments.record import read_result, write_result
from evolvent.report import report_html
from evolvent.report.fractions import fraction_bundles
from evolvent.report.lines import Bundle
from evolvent.report.runs import list_series, read_runs

SMALL, RESIDUAL = {"steps": 2}, {"name": "resnet"}


def series(*folders: Path):
    return list_series(read_runs(folders))


def fraction_lines(all_series) -> list[Bundle]:
    return [bundle for bundles in fraction_bundles(all_series).values() for bundle in bundles]


def rewrite(folder: Path, label: str, **figures: float) -> None:
    cell = folder / "cells" / label
    result = read_result(cell)
    assert result is not None
    write_result(cell, dataclasses.replace(result, figures=result.figures | figures))


def variants(models: dict, shares=(0.1, 1.0), **longer) -> dict:
    """Every model with every share, under names that say nothing."""
    pairs = [(model, share) for model in models.values() for share in shares]
    return {f"v{k}": {"model": model, "data": {"fraction": share}, **longer} for k, (model, share) in enumerate(pairs)}


def test_no_section_unless_it_was_measured(grid):
    assert 'id="fractions"' not in report_html([grid])


def test_families_are_found_without_names(write_grid, make_recipe):
    models = {"a": {"options": SMALL}, "b": RESIDUAL}
    folder = write_grid(make_recipe(variants=variants(models), seeds=[0, 1], published=[]), find=None)
    rewrite(folder, "v0-seed0", accuracy=0.25)
    rewrite(folder, "v0-seed1", accuracy=0.75)
    one, other = fraction_lines(series(folder))
    assert (one.label, other.label) == ("hamiltonian", "resnet")
    assert (one.index, other.index) == (0, 1)
    assert one.median[0].tolist() == [0.1, 1.0]
    assert one.median[1][0] == 0.5
    assert "<h2>Share of the training data</h2>" in report_html([folder])


def test_label_names_the_options_that_differ(write_grid, make_recipe):
    models = {"a": {"options": SMALL}, "b": {"options": {"steps": 8}}}
    folder = write_grid(make_recipe(variants=variants(models), published=[]), find=None)
    assert [line.label for line in fraction_lines(series(folder))] == ["hamiltonian, steps 2", "hamiltonian, steps 8"]


def test_same_family_in_two_runs_is_two_lines(write_grid, make_recipe):
    source = make_recipe(variants=variants({"a": {}}), seeds=[0], published=[])
    labels = [line.label for line in fraction_lines(series(write_grid(source, "one"), write_grid(source, "two")))]
    assert labels == ["hamiltonian-mnist one · hamiltonian", "hamiltonian-mnist two · hamiltonian"]


def test_epochs_may_grow_as_images_get_fewer(write_grid, make_recipe):
    grown = {"few": {"data": {"fraction": 0.1}, "training": {"epochs": 80}, "schedule": {"warmup": 10}}, "all": {}}
    [line] = fraction_lines(series(write_grid(make_recipe(variants=grown, published=[]), find=None)))
    assert line.median[0].tolist() == [0.1, 1.0]


def test_epochs_part_a_family_that_has_a_share_twice(write_grid, make_recipe):
    short, long = ({f"{name}{n}": v | {"training": {"epochs": n}} for name, v in variants({"a": {}}).items()}
                   for n in (4, 8))  # fmt: skip
    lines = fraction_lines(series(write_grid(make_recipe(variants=short | long, published=[]), find=None)))
    assert [len(line.median[0]) for line in lines] == [2, 2]
    assert len({line.label for line in lines}) == 2


def test_other_differences_part_families(write_grid, make_recipe):
    apart = {"a": {"data": {"fraction": 0.1}, "optimizer": {"lr": 0.3}}, "b": {}}
    assert fraction_lines(series(write_grid(make_recipe(variants=apart, published=[]), find=None))) == []


@pytest.mark.parametrize("unfinished", [("v0-seed0",), ("v0-seed0", "v0-seed1", "v0-seed2")])
def test_unfinished_cells_have_no_point(write_grid, make_recipe, unfinished):
    source = make_recipe(variants=variants({"a": {}}, (0.1, 0.5, 1.0)), published=[])
    [line] = fraction_lines(series(write_grid(source, unfinished=unfinished, find=None)))
    assert sum(len(x) for x, _ in line.seeds) == 9 - len(unfinished)


def test_names_are_escaped(write_grid, make_recipe):
    models = {"a": {"options": {"x": "<b>&"}}, "b": {"options": {"x": 1}}}
    page = report_html([write_grid(make_recipe(variants=variants(models), published=[]), find=None)])
    assert "hamiltonian, x &lt;b&gt;&amp;" in page
    assert "<b>&" not in page
