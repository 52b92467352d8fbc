import csv
import io
import statistics
import subprocess
import sys

import pytest

from evolvent._core.errors import ConfigError
from evolvent.experiments import record
from evolvent.experiments.record import read_record
from evolvent.report import read_run, report_html, runs, summary_csv, summary_rows
from evolvent.report.runs import list_series, read_runs
from evolvent.report.summary import answer, ranked, series_row


def rows_of(folder):
    return summary_rows(read_run(folder))


def test_row_agrees_with_the_standard_library(grid):
    row = rows_of(grid)[0]
    found = [read_record(path).result.figures["accuracy"] for path in sorted(grid.glob("cells/hamiltonian-*"))]
    measured = row.figures["accuracy"]
    assert row.n == len(measured.values) == 3
    assert row.score.name == "accuracy"
    assert row.score_statistic is measured
    assert measured.median == pytest.approx(statistics.median(found))
    assert measured.mean == pytest.approx(statistics.mean(found))
    assert measured.std == pytest.approx(statistics.stdev(found))


def test_rows_follow_the_recipe_and_not_the_alphabet(write_grid, make_recipe):
    folder = write_grid(make_recipe(variants={"z": {}, "a": {}}))
    assert [row.variant for row in rows_of(folder)] == ["z", "a"]


def test_a_published_share_is_read_as_printed_in_percent(write_grid, make_recipe):
    """An error of 0.75 is three quarters of a percent, however small it is."""
    figure = {"variant": "hamiltonian", "metric": "error", "value": 0.75, "source": "Table"}
    folder = write_grid(make_recipe(published=[figure], seeds=[0]))
    comparison = rows_of(folder)[0].published[0]
    assert comparison.published == pytest.approx(0.0075)
    assert comparison.difference == pytest.approx(rows_of(folder)[0].figures["error"].median - 0.0075)
    assert "0.75\N{NO-BREAK SPACE}%" in report_html([folder])


def test_costs_are_compared_with_published_ones(grid):
    first, second = rows_of(grid)
    assert first.published[0].published == pytest.approx(0.989)
    assert first.published[0].difference == pytest.approx(first.figures["accuracy"].median - 0.989)
    assert second.published[1].difference == 41332 - 42000


def test_a_published_metric_that_was_not_measured_is_listed_alone(write_grid, make_recipe, check):
    figure = {"variant": "hamiltonian", "metric": "mood", "value": 0.5, "source": "Table"}
    folder = write_grid(make_recipe(published=[figure], seeds=[0]))
    comparison = rows_of(folder)[0].published[0]
    assert (comparison.published, comparison.measured, comparison.difference) == (0.5, None, None)
    assert "Published mood 0.5 no measured figure Table" in check(report_html([folder])).text


def test_csv_has_shown_and_published_figures_and_leaves_unknown_ones_empty(write_grid, make_recipe):
    folder = write_grid(make_recipe(seeds=[0]), unfinished=("resnet-seed0",))
    first, second = csv.DictReader(io.StringIO(summary_csv(read_run(folder))))
    assert list(first) == [
        "variant", "n", "cells", "data", "accuracy_median", "accuracy_mean", "accuracy_std", "published_accuracy",
        "loss_median", "loss_mean", "loss_std", "published_loss", "published_parameters", "parameters",
        "multiply_adds", "activation_bytes", "batch_size", "gradient", "rows_per_second_median", "seconds_median",
    ]  # fmt: skip
    assert (first["n"], first["accuracy_std"], first["parameters"]) == ("1", "", "41098")
    assert float(first["published_accuracy"]) == pytest.approx(0.989)
    assert (second["n"], second["accuracy_median"], second["parameters"]) == ("0", "", "")


def test_answer_names_every_variant(grid):
    found = answer(rows_of(grid))
    assert found.startswith("Test accuracy: hamiltonian 97.")
    assert "(median of 3 seeds), resnet 9" in found
    assert found.endswith("at 41,098 and 41,332 parameters.")


def test_the_best_is_found_by_the_direction_of_the_score(write_grid, make_recipe, equation):
    variants = {f"v{k}": {} for k in range(3)} | {"resnet": {}, "longer": {}}
    rows = rows_of(write_grid(make_recipe(variants=variants, seeds=[0])))
    medians = [row.figures["accuracy"].median for row in ranked(rows)]
    assert medians == sorted(medians, reverse=True)
    assert answer(rows).startswith(f"Test accuracy of 5 variants: the best is {ranked(rows)[0].label} ")
    assert "(one seed), the worst " in answer(rows)
    errors = [row.figures["error_l2"].median for row in ranked(rows_of(equation))]
    assert errors == sorted(errors)
    assert answer(rows_of(equation)).startswith("Test relative L2 error: hamiltonian 0.01")


def test_two_tasks_have_two_answers(grid, equation):
    rows = [series_row(series) for series in list_series(read_runs([grid, equation]))]
    assert "Test accuracy: " in answer(rows)
    assert "Test relative L2 error: " in answer(rows)


def test_unfinished_and_absent_cells_are_named(write_grid, make_recipe):
    folder = write_grid(make_recipe(), unfinished=("resnet-seed1",), absent=("resnet-seed2",))
    row = rows_of(folder)[1]
    assert row.unfinished == ("seed 1: unfinished, 3 of 8 epochs", "seed 2: not started")
    assert (row.n, row.cells) == (1, 3)
    assert "4 of 6 cells have finished" in answer(rows_of(folder))


@pytest.mark.parametrize(
    ("training", "said"),
    [({"steps": 4000}, "unfinished, 135 of 4,000 steps"), ({"budget": "5m"}, "unfinished")],
)
def test_progress_is_told_in_the_measure_of_the_length(write_grid, make_recipe, training, said):
    folder = write_grid(make_recipe(training=training, seeds=[0]), unfinished=("resnet-seed0",))
    assert rows_of(folder)[1].unfinished == (f"seed 0: {said}",)


def test_nothing_finished_gives_an_answer_too(write_single, make_recipe):
    folder = write_single(make_recipe(), finished=False)
    assert answer(rows_of(folder)) == "No cell has finished yet (0 of 1)."


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


def test_same_names_in_other_places_are_distinguished_by_their_folder(write_grid, make_recipe, tmp_path):
    folder = write_grid(make_recipe(seeds=[0], variants={"a": {}}))
    copy = tmp_path / "copy" / folder.name
    copy.parent.mkdir()
    subprocess.run(["cp", "-r", str(folder), str(copy)], check=True)
    labels = [series.label for series in list_series(read_runs([folder, copy]))]
    assert labels == [f"{folder} · a", f"{copy} · a"]


def test_a_cell_of_a_grid_knows_the_grids_recipe(grid):
    run = read_run(grid / "cells" / "resnet-seed1")
    assert run.recipe is not None
    assert series_row(list_series([run])[0]).cells == 1


def test_a_run_is_read_once_for_summary_report_and_terminal(grid, tmp_path, monkeypatch):
    from evolvent.cli.display import show_summary
    from evolvent.report import write_report

    read = []
    monkeypatch.setattr(runs, "read_record", lambda folder: read.append(folder) or record.read_record(folder))
    run = read_run(grid)
    assert sorted(read) == sorted(path.parent for path in grid.glob("cells/*/config.yaml"))
    summary_csv(run)
    report = write_report([run], tmp_path / "report.html")
    show_summary(run, report)
    assert len(read) == 6


def test_no_folder_is_an_error_to_act_on(tmp_path):
    with pytest.raises(ConfigError, match="at least one run folder"):
        read_runs([])
    with pytest.raises(ConfigError, match="not a run folder"):
        read_run(tmp_path)


def test_a_cell_that_is_nearly_named_is_suggested(tmp_path):
    (tmp_path / "PR-Net-a89055-seed0").mkdir()
    (tmp_path / "PR-Net-a89055-seed0" / "config.yaml").touch()
    with pytest.raises(ConfigError, match=r"Did you mean PR-Net-a89055-seed0\?"):
        read_run(tmp_path / "PR-Net-seed0")


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
