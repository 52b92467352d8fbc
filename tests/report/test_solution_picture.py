"""Pictures of solutions: lines over one coordinate, colours over two, slices of more."""

import torch

from evolvent.equations.problems import Problem
from evolvent.report.solution_picture import solution_figure


def titles(drawing):
    return [axes.get_title() for axes in drawing.axes if axes.get_title()]


def problem(*coordinates, **more):
    return Problem(
        name="p", domain=dict.fromkeys(coordinates, (0.0, 1.0)), equation=lambda u: u[coordinates[0]], **more
    )


def first(points):
    return points[:, :1]


def test_one_coordinate_is_a_line(tmp_path):
    drawing = solution_figure(problem("x"), first, lambda points: 2 * first(points))
    assert titles(drawing) == ["u", "u, reference", "u, difference"]
    _, difference = drawing.axes[2].lines[0].get_data()
    assert difference[-1] == -1.0
    drawing.savefig(tmp_path / "line.png")


def test_two_unknowns_have_a_row_each(tmp_path):
    drawing = solution_figure(problem("x", "t", unknowns=("u", "v")), lambda p: torch.cat([first(p), 0 * first(p)], 1))
    assert titles(drawing) == ["u", "v"]
    drawing.savefig(tmp_path / "field.png")


def test_more_coordinates_are_cut_at_times_and_in_the_middle(tmp_path):
    seen = []

    def third(points):
        seen.append(points)
        return points[:, 2:3]

    drawing = solution_figure(problem("x", "y", "z", "t"), third)
    assert titles(drawing) == ["u, t = 0", "u, t = 0.5", "u, t = 1"]
    assert all((points[:, 2] == 0.5).all() for points in seen)
    assert [points[0, 3].item() for points in seen] == [0.0, 0.5, 1.0]
    assert titles(solution_figure(problem("x", "y", "z"), third)) == ["u"]
    drawing.savefig(tmp_path / "slices.png")
