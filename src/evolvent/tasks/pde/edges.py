"""Points where conditions are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from evolvent.data import CollocationPoints
from evolvent.tasks.pde.settings import PdeSettings


class Edges(NamedTuple):
    """At the start of time, on the boundary of space, on the faces of conditions; None where nothing is asked for."""

    start: Tensor | None
    boundary: Tensor | None
    faces: Sequence[Tensor]


def draw_edges(source: CollocationPoints, settings: PdeSettings, count: int, seed: int, draw: int) -> Edges:
    """Points of a draw, as many for each condition; a value that is built in needs none."""
    problem, start, boundary = source.problem, None, None
    if problem.initial is not None and settings.initial == "soft":
        start = source.on_face({problem.time: problem.domain[problem.time][0]}, count, seed, draw)
    if problem.boundary is not None and settings.boundary == "soft":
        boundary = source.on_boundary(count, seed, draw)
    return Edges(start, boundary, [source.on_face(one.where, count, seed, draw) for one in problem.conditions])
