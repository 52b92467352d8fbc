"""A picture of a solution beside its reference and their difference, for notebooks and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from evolvent.equations.problems import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ALONG = 161  # points of each drawn coordinate
_TIMES = 3  # slices of a solution that depends on time and two or more places

Function = Callable[[Tensor], Any]


def solution_figure(problem: Problem, solution: Function, reference: Function | None = None) -> Figure:
    """Draw a solution: as lines over one coordinate, as colours over two; further ones are held in the middle.

    A row for each unknown, or for each of three times if there are two or more coordinates in space; beside the
    solution, with a reference, the reference and the difference.
    """
    from matplotlib.figure import Figure

    slices = _slices(problem)
    columns = 1 if reference is None else 3
    rows = len(slices) * len(problem.unknowns)
    drawing = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    panels = drawing.subplots(rows, columns, squeeze=False)
    drawing.suptitle(problem.title or problem.name)
    row = 0
    for caption, points, drawn in slices:
        u = _values(solution, points)
        v = None if reference is None else _values(reference, points)
        for k, unknown in enumerate(problem.unknowns):
            name = f"{unknown}{caption}"
            _draw_row(panels[row], name, points, drawn, problem, u[:, k], None if v is None else v[:, k])
            row += 1
    return drawing


def _values(function: Function, points: Tensor) -> np.ndarray:
    with torch.no_grad():
        return function(points).double().cpu().numpy()


def _slices(problem: Problem) -> list[tuple[str, Tensor, list[str]]]:
    """Caption, points and drawn coordinates of each slice."""
    names = problem.coordinates
    if len(names) <= 2:
        return [("", problem.grid(*[_ALONG] * len(names)), names)]
    drawn = problem.space[:2]
    times = np.linspace(*problem.domain[problem.time], _TIMES) if problem.time in names else [None]
    made = []
    for time in times:
        points = problem.grid(*(_ALONG if name in drawn else 1 for name in names))
        for i, name in enumerate(names):
            if name not in drawn:
                points[:, i] = sum(problem.domain[name]) / 2 if name != problem.time or time is None else float(time)
        made.append(("" if time is None else f", {problem.time} = {time:g}", points, drawn))
    return made


def _draw_row(
    panels: Any, name: str, points: Tensor, drawn: list[str], problem: Problem, u: np.ndarray, v: np.ndarray | None
) -> None:
    if len(drawn) == 1:
        _lines(panels, name, points[:, 0].numpy(), drawn[0], u, v)
        return
    extent = [end for coordinate in drawn for end in problem.domain[coordinate]]
    both = u if v is None else np.concatenate([u, v])
    fields = [(name, u, both.min(), both.max(), "viridis")]
    if v is not None:
        reach = float(np.abs(u - v).max()) or 1.0
        fields += [(f"{name}, reference", v, both.min(), both.max(), "viridis")]
        fields += [(f"{name}, difference", u - v, -reach, reach, "RdBu_r")]
    for axes, (title, values, low, high, colours) in zip(panels, fields, strict=True):
        image = axes.imshow(values.reshape(_ALONG, _ALONG).T, origin="lower", extent=extent, aspect="auto",
                            vmin=low, vmax=high, cmap=colours)  # fmt: skip
        axes.figure.colorbar(image, ax=axes)
        _label(axes, title, *drawn)


def _lines(panels: Any, name: str, x: np.ndarray, along: str, u: np.ndarray, v: np.ndarray | None) -> None:
    panels[0].plot(x, u)
    _label(panels[0], name, along, "")
    if v is not None:
        panels[1].plot(x, v)
        _label(panels[1], f"{name}, reference", along, "")
        panels[2].plot(x, u - v)
        _label(panels[2], f"{name}, difference", along, "")


def _label(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
