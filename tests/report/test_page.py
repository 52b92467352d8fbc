"""The whole file: well formed, closed to the outside, escaped, and complete."""

import pytest

from evolvent._core.errors import ConfigError
from evolvent.report import report_html, write_report

SECTIONS = ["summary", "training", "tables", "curves", "matrix-0", "gallery-0", "features-0", "cost", "configuration",
            "environment"]  # fmt: skip


def anchors(reader) -> list[str]:
    return [attrs["id"] for tag, attrs in reader.tags if tag == "section"]


def test_grid(grid, tmp_path, check):
    target = write_report([grid], tmp_path / "out" / "report.html")
    assert target == tmp_path / "out" / "report.html"
    page = target.read_text(encoding="utf-8")
    reader = check(page)
    assert anchors(reader) == SECTIONS
    assert len(page) < 3_000_000
    assert "Content-Security-Policy" in page
    for words in (
        "Does a Hamiltonian network",
        "Ruthotto and Haber",
        "41,098",
        "158.5 M",
        "12.3 MiB",
        "12 min 34 s",
        "Published accuracy",
        "Table 2",
        "668 below",
        "training.gradient",
        "checkpoint",
        "2.13.0",
    ):
        assert words in reader.text
    assert {attrs.get("lang") for tag, attrs in reader.tags if tag == "html"} == {"en"}
    assert "colour_of_the_sky" not in reader.text


def test_the_same_folder_gives_the_same_file(grid):
    assert report_html([grid]) == report_html([grid])


def test_single_run_shows_no_deviation(write_single, make_recipe, check):
    reader = check(report_html([write_single(make_recipe())]))
    assert anchors(reader) == SECTIONS
    assert "Accuracy, standard deviation" not in reader.text
    assert "What differs" not in reader.text


def test_single_run_with_recipe_does_not_miss_the_grids_other_cells(write_single, make_recipe, check):
    reader = check(report_html([write_single(make_recipe(), with_recipe=True)]))
    assert "not started" not in reader.text
    assert "Published for variants that are not in this run: resnet, accuracy: 98.50 % (Table 2)" in reader.text


def test_two_runs_side_by_side(grid, write_grid, make_recipe, check):
    other = write_grid(make_recipe("colours", title="In colour"), "b2", classes=list("abcde"), channels=3)
    reader = check(report_html([grid, other]))
    assert "Comparison: Hamiltonian against residual network on MNIST / In colour" in reader.text
    for label in ("hamiltonian-mnist · resnet", "colours · hamiltonian"):
        assert label in reader.text
    assert "colours b2" in reader.text


def test_two_runs_of_one_recipe(grid, write_grid, make_recipe, check):
    reader = check(report_html([grid, write_grid(make_recipe(), "ffff0000")]))
    assert "MNIST: 2 runs compared" in reader.text
    assert "hamiltonian-mnist ffff0000 · resnet" in reader.text


def test_unfinished_cell_is_named(write_grid, make_recipe, check):
    reader = check(report_html([write_grid(make_recipe(), unfinished=("resnet-seed2",), absent=("resnet-seed1",))]))
    assert "seed 2: unfinished, 3 of 8 epochs" in reader.text
    assert "seed 1: not started" in reader.text
    assert "1 of 3" in reader.text


def test_variant_without_any_folder_still_has_a_column(write_grid, make_recipe, check):
    folder = write_grid(make_recipe(seeds=[0]), absent=("resnet-seed0",))
    assert "seed 0: not started" in check(report_html([folder])).text


def test_unfinished_run_gives_what_there_is(write_single, make_recipe, check):
    reader = check(report_html([write_single(make_recipe(), finished=False)]))
    assert anchors(reader) == ["summary", "training", "configuration", "environment"]


def test_run_that_has_only_begun(write_single, make_recipe, check):
    folder = write_single(make_recipe(), finished=False)
    (folder / "metrics.csv").unlink()
    (folder / "environment.json").unlink()
    reader = check(report_html([folder]))
    assert anchors(reader) == ["summary", "configuration"]
    assert "unfinished, 0 of 8 epochs" in reader.text


def test_hundred_classes_list_the_confused_pairs(write_grid, make_recipe, check):
    names = [f"class{k}" for k in range(100)]
    page = report_html([write_grid(make_recipe(seeds=[0, 1]), classes=names, channels=3, size=32)])
    reader = check(page)
    assert "True Predicted Count Of the class" in reader.text
    assert len(page) < 3_000_000


def test_fields_are_beside_their_reference(equation, check):
    page = report_html([equation])
    reader = check(page)
    assert [a for a in anchors(reader) if a.startswith("field")] == ["field-0", "field-1"]
    solution = page[page.index('<section id="field-0">') : page.index('<section id="field-1">')]
    assert solution.count("<svg") == 2 * 3
    assert "Reference" in solution
    assert "Difference: at most 0.03" in solution
    velocity = page[page.index('<section id="field-1">') : page.index('<section id="curves">')]
    assert velocity.count("<svg") == 2
    assert reader.text.count("The solution decays.") == 1


def test_label_maps_show_labels_and_every_prediction(streets, check):
    page = report_html([streets])
    check(page)
    maps = page[page.index('<section id="labels-0">') : page.index('<section id="tables">')]
    assert maps.count("<img ") == 3 * 4
    assert maps.count("of pixels right") == 6
    assert "&lt;b&gt;car&lt;/b&gt;" in maps
    assert "<b>car" not in maps


def test_points_move_without_script_and_stand_still_on_paper(write_single, make_recipe, make_findings, check):
    import numpy as np

    found = make_findings["points"](np.random.default_rng(0))
    page = report_html([write_single(make_recipe(), findings=found)])
    moves = [attrs for tag, attrs in check(page).tags if tag == "animate" and attrs["attributename"] == "cx"]
    assert len(moves) == 60
    values = moves[0]["values"].split(";")
    assert len(values) == 17 + 4
    assert values[-1] == values[-5]
    assert all(0 <= float(value) <= 300 for move in moves for value in move["values"].split(";"))
    assert "prefers-reduced-motion: reduce" in page
    assert "Decision regions" in page
    assert 'stroke="var(--c1)"' in page


def test_different_tasks_side_by_side(grid, equation, streets, check):
    reader = check(report_html([grid, equation, streets]))
    for words in ("Accuracy, median", "Relative L2 error, median", "Predictions", "Solution", "Confusion"):
        assert words in reader.text


def test_names_are_text_and_never_markup(hostile, check):
    page = report_html([hostile])
    reader = check(page)
    assert "<script" not in page
    assert '<script>alert("1")</script> & co' in reader.text
    assert "</table><b>" in reader.text


def test_ten_variants_begin_the_colours_again_with_another_stroke(write_grid, make_recipe, check):
    folder = write_grid(make_recipe(variants={f"v{k}": {} for k in range(10)}, seeds=[0], published=[]))
    page = report_html([folder])
    check(page)
    assert "border-top-style:dashed" in page
    assert "stroke-dasharray" in page


def test_grid_in_which_one_variant_has_no_result_yet(write_grid, make_recipe, check):
    folder = write_grid(make_recipe(seeds=[0, 1]), unfinished=("resnet-seed0", "resnet-seed1"))
    reader = check(report_html([folder]))
    assert "Each seed" in reader.text
    assert "So far 2 of 4 cells have finished." in reader.text


def test_a_folder_that_is_no_run_writes_nothing(tmp_path):
    with pytest.raises(ConfigError, match="not a run folder"):
        write_report([tmp_path], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
