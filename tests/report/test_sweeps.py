"""Score over the number in the variants' names."""

from evolvent.report import report_html
from evolvent.report.runs import list_series, read_runs
from evolvent.report.sweeps import sweep_bundles


def bundles(folder):
    return [bundle for found in sweep_bundles(list_series(read_runs([folder]))).values() for bundle in found]


def test_variants_that_differ_in_a_number_make_a_line(write_grid, make_recipe):
    names = ["strength 0.5", "strength 10", "strength 2", "1-shot", "5-shot", "plain", "2 of 3"]
    folder = write_grid(make_recipe(variants={name: {} for name in names}, seeds=[0, 1], published=[]), find=None)
    [line] = bundles(folder)
    assert line.label == "strength"
    assert len(line.seeds) == 2
    assert line.median[0].tolist() == [0.5, 2, 10]
    html = report_html([folder])
    assert 'id="sweeps"' in html
    assert "Score over what varies" in html


def test_no_section_without_numbers(grid):
    assert 'id="sweeps"' not in report_html([grid])
