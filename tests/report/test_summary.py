import csv
import io
import statistics
import subprocess
import sys

import pytest

from evolvent._core.errors import ConfigError
from evolvent.experiments.record import read_record
from evolvent.report.runs import list_series, read_runs
from evolvent.report.summary import answer, series_row, summary_csv, summary_rows


def test_row_agrees_with_the_standard_library(grid):
    row = summary_rows(grid)[0]
    found = [read_record(path).result.accuracy for path in sorted(grid.glob("cells/hamiltonian-*"))]
    assert row.n == row.accuracy.n == 3
    assert row.accuracy.median == pytest.approx(statistics.median(found))
    assert row.accuracy.mean == pytest.approx(statistics.mean(found))
    assert row.accuracy.std == pytest.approx(statistics.stdev(found))


def test_rows_follow_the_recipe_and_not_the_alphabet(write_grid, make_recipe):
    folder = write_grid(make_recipe(variants={"z": {}, "a": {}}))
    assert [row.variant for row in summary_rows(folder)] == ["z", "a"]


def test_published_percent_and_share_are_the_same_thing(grid):
    first, second = summary_rows(grid)
    assert first.published[0].published == pytest.approx(0.989)
    assert second.published[0].published == pytest.approx(0.985)
    assert first.published[0].difference == pytest.approx(first.accuracy.median - 0.989)
    assert second.published[1].difference == 41332 - 42000


@pytest.mark.parametrize("metric", ["error", "top5", "loss", "mood"])
def test_every_metric_finds_its_measured_figure(write_grid, make_recipe, metric):
    figure = {"variant": "hamiltonian", "metric": metric, "value": 0.5, "source": "Table"}
    row = summary_rows(write_grid(make_recipe(published=[figure], seeds=[0])))[0]
    known = {"error": 1 - row.accuracy.median, "top5": row.top5.median, "loss": row.loss.median, "mood": None}
    assert row.published[0].measured == known[metric]


def test_csv_leaves_unknown_figures_empty(write_grid, make_recipe):
    folder = write_grid(make_recipe(seeds=[0]), unfinished=("resnet-seed0",))
    first, second = csv.DictReader(io.StringIO(summary_csv(folder)))
    assert first["n"] == "1"
    assert first["accuracy_std"] == ""
    assert first["parameters"] == "41098"
    assert second["n"] == "0"
    assert second["accuracy_median"] == second["parameters"] == ""


def test_answer_names_every_variant(grid):
    rows = summary_rows(grid)
    found = answer(rows)
    assert found.startswith("Test accuracy: hamiltonian 97.")
    assert "(median of 3 seeds), resnet 9" in found
    assert found.endswith("at 41,098 and 41,332 parameters.")


def test_answer_of_many_variants_names_best_and_lowest(write_grid, make_recipe):
    folder = write_grid(make_recipe(variants={f"v{k}": {} for k in range(3)} | {"resnet": {}, "longer": {}}, seeds=[0]))
    found = answer(summary_rows(folder))
    assert found.startswith("Of 5 variants the best is ")
    assert "(one seed)" in found


def test_unfinished_and_absent_cells_are_named(write_grid, make_recipe):
    folder = write_grid(make_recipe(), unfinished=("resnet-seed1",), absent=("resnet-seed2",))
    row = summary_rows(folder)[1]
    assert row.unfinished == ("seed 1: unfinished, 3 of 8 epochs", "seed 2: not started")
    assert (row.n, row.cells) == (1, 3)
    assert "4 of 6 cells have finished" in answer(summary_rows(folder))


def test_nothing_finished_gives_an_answer_too(write_single, make_recipe):
    folder = write_single(make_recipe(), finished=False)
    assert answer(summary_rows(folder)) == "No cell has finished yet (0 of 1)."


def test_labels_are_as_short_as_they_can_be_and_never_the_same(write_grid, make_recipe):
    small = {"seeds": [0], "variants": {"a": {}}}
    one = write_grid(make_recipe("one", **small), "11111111")
    other = write_grid(make_recipe("other", seeds=[0], variants={"b": {}}), "22222222")
    two = write_grid(make_recipe("two", **small), "33333333")
    again = write_grid(make_recipe("two", **small), "44444444")

    def labels(*folders):
        return [series.label for series in list_series(read_runs(folders))]

    assert labels(one, other) == ["a", "b"]
    assert labels(one, two) == ["one · a", "two · a"]
    assert labels(two, again) == ["two 33333333 · a", "two 44444444 · a"]
    assert labels(two, two) == ["a"]


def test_same_names_in_other_places_are_told_apart_by_their_folder(write_grid, make_recipe, tmp_path):
    folder = write_grid(make_recipe(seeds=[0], variants={"a": {}}))
    copy = tmp_path / "copy" / folder.name
    copy.parent.mkdir()
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
    labels = [series.label for series in list_series(read_runs([folder, copy]))]
    assert labels == [f"{folder} · a", f"{copy} · a"]


def test_a_cell_of_a_grid_knows_the_grids_recipe(grid):
    run = read_runs([grid / "cells" / "resnet-seed1"])[0]
    assert run.recipe is not None
    assert series_row(list_series([run])[0]).cells == 1


def test_no_folder_is_an_error_to_act_on(tmp_path):
    with pytest.raises(ConfigError, match="at least one run folder"):
        read_runs([])
    with pytest.raises(ConfigError, match="no run folder"):
        summary_rows(tmp_path)


def test_tables_do_not_load_matplotlib():
    check = (
        "import sys, evolvent.report, evolvent.report.summary as s; evolvent.report.summary_rows, s.answer;"
        "import evolvent.report.page; sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_unknown_names_of_the_room_are_refused():
    import evolvent.report

    with pytest.raises(AttributeError, match="poster"):
        evolvent.report.poster  # noqa: B018
