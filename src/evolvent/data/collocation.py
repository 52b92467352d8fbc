"""Points of a problem's domain, drawn from a seed, and samples of its solution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.checks import check_choice, check_not_negative, check_whole
from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent._core.randomness import Stream, key, normal
from evolvent.data.source import Source
from evolvent.equations.problems import Problem

Sampler: TypeAlias = Literal["uniform", "latin", "sobol"]
_INTERIOR, _FACES, _BOUNDARY = 0, 1, 3  # 2 chooses points where the residual is large
_MOST_TRIES = 1024  # points drawn for each that is kept


class Samples(NamedTuple):
    """Points with the measured values of u, (N, coordinates) and (N, unknowns)."""

    points: Tensor
    values: Tensor


class CollocationPoints(Source):
    """Points inside of a problem's domain, where the equation is asked to hold.

    Args:
        problem: whose domain it is.
        count: number of points.
        sampler: ``uniform`` draws them one by one; ``latin`` has one point in each of ``count`` slices of every
            coordinate (Latin hypercube); ``sobol`` spreads them evenly. Points of the box outside of the problem's
            region are left out.
        within: coordinate -> lower and upper end, where points are drawn from a part of the domain.
        fresh: draw new points in each epoch.
        samples: values that were measured.

    >>> from evolvent.equations.problems import create_problem
    >>> source = CollocationPoints(create_problem("heat"), 100)
    >>> source.take(torch.arange(3), seed=0, epoch=0)["x"].shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        problem: Problem,
        count: int,
        sampler: Sampler = "sobol",
        within: Mapping[str, tuple[float, float]] | None = None,
        fresh: bool = False,
        samples: Samples | None = None,
    ) -> None:
        check_whole(1, count=count)
        self.problem, self.count, self.fresh, self.samples = problem, count, fresh, samples
        self.sampler: Sampler = check_choice("sampler", sampler, get_args(Sampler))
        self.box = _inner_box(problem, within or {})

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Tensor, seed: int, epoch: int) -> dict[str, Tensor]:
        """``row``, ``x`` and ``draw``: numbers of the points, the points in float64, and how often they were drawn."""
        number = epoch if self.fresh else 0
        points = self.draw(self.count, seed, number)
        return {"row": rows, "x": points.index_select(0, rows), "draw": torch.tensor(number)}

    def draw(self, count: int, seed: int, number: int) -> Tensor:
        """Points of draw ``number``, (count, coordinates), in float64."""
        return self._drawn(count, seed, _INTERIOR, number)

    def on_face(self, where: Mapping[str, float], count: int, seed: int, number: int = 0) -> Tensor:
        """Points of a face, where some coordinates are fixed, (count, coordinates), in float64."""
        points = self._drawn(count, seed, _FACES, number)
        for i, name in enumerate(self.problem.coordinates):
            if name in where:
                points[:, i] = where[name]
        return points

    def on_boundary(self, count: int, seed: int, number: int = 0) -> Tensor:
        """Points of the boundary of space, (count, coordinates), in float64."""
        start = randomness.derive_seed(*key(Stream.COLLOCATION, seed, _BOUNDARY, number))
        return self.problem.on_boundary(_shares(len(self.box), count, self.sampler, start))

    def _drawn(self, count: int, seed: int, part: int, number: int) -> Tensor:
        start = randomness.derive_seed(*key(Stream.COLLOCATION, seed, part, number))
        return self._kept(count, lambda tries: _shares(len(self.box), tries, self.sampler, start))

    def _kept(self, count: int, drawn: Callable[[int], Tensor]) -> Tensor:
        """The first points that lie in the problem's region."""
        tries = count
        while tries <= _MOST_TRIES * count:
            points = _placed(drawn(tries), self.box)
            if self.problem.region is None:
                return points
            points = points[self.problem.contains(points)]
            if len(points) >= count:
                return points[:count]
            tries *= 2
        region = self.problem.space_region.name
        raise ConfigError(
            f"region {region!r} of {self.problem.name!r} has less than one of {_MOST_TRIES} points of the box where "
            "they are drawn. Give a smaller box, or correct Region.contains."
        )

    def sampled(self, count: int, noise: float, seed: int) -> Samples:
        """The reference at random points, with noise of that share of its standard deviation."""
        check_not_negative(noise=noise)
        draw = torch.Generator().manual_seed(randomness.derive_seed(*key(Stream.SAMPLES, seed)))
        numbers = lambda tries: torch.rand(tries, len(self.box), dtype=torch.float64, generator=draw)  # noqa: E731
        points = self._kept(count, numbers)
        values = self.problem.solution(points)
        places = torch.arange(values.numel()).view_as(values)
        return Samples(points, values + noise * values.std() * normal(places, *key(Stream.SAMPLE_NOISE, seed)).double())


def _inner_box(problem: Problem, within: Mapping[str, tuple[float, float]]) -> Tensor:
    for name, (low, high) in within.items():
        if name not in problem.domain:
            raise UnknownNameError("coordinate", name, problem.domain)
        outer = problem.domain[name]
        if not outer[0] <= low < high <= outer[1]:
            raise ConfigError(
                f"points must lie within the domain of {problem.name!r}, {name} from {outer[0]:g} to {outer[1]:g}, got "
                f"{low:g} to {high:g}."
            )
    return torch.tensor([within.get(name, ends) for name, ends in problem.domain.items()], dtype=torch.float64)


def _placed(shares: Tensor, box: Tensor) -> Tensor:
    return box[:, 0] + shares * (box[:, 1] - box[:, 0])


@lru_cache(maxsize=8)
def _shares(dimensions: int, count: int, sampler: Sampler, start: int) -> Tensor:
    """Points of the unit cube."""
    if sampler == "sobol":
        return torch.quasirandom.SobolEngine(dimensions, scramble=True, seed=start).draw(count, dtype=torch.float64)
    draw = torch.Generator().manual_seed(start)
    shares = torch.rand(count, dimensions, dtype=torch.float64, generator=draw)
    if sampler == "latin":
        slices = torch.stack([torch.randperm(count, generator=draw) for _ in range(dimensions)], dim=1)
        shares = (slices + shares) / count
    return shares
