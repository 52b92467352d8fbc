"""A problem: an equation on a box, with conditions, symmetries, scales and a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.equations.algebra import Index
from evolvent.equations.derivatives import mixed_jet
from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.needed import Needed
from evolvent.equations.terms import Derivatives
from evolvent.networks.perceptron import Symmetry

Function = Callable[[Tensor], Tensor]  # of points (N, coordinates), with values (N, unknowns)


class Reference(Protocol):
    """A known solution: points (N, coordinates) to values (N, unknowns), in float64."""

    def __call__(self, points: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Condition:
    """What holds on a face of the domain, where some coordinates are fixed.

    Args:
        name: of the condition, in print.
        where: coordinate -> its value on the face.
        residual: of u and its derivatives there; zero where the condition holds.
    """

    name: str
    where: Mapping[str, float]
    residual: Callable[[Derivatives], Tensor]


@dataclass(frozen=True, kw_only=True)
class Problem:
    r"""An equation :math:`R(u, u_t, u_x, u_{xx}, \dots) = 0` on a box.

    Args:
        name: of the problem.
        domain: coordinate -> lower and upper end. Names are single letters, in the order in which points have them.
        equation: the residual, of :class:`~evolvent.equations.Derivatives` (``u["t"]``, ``u["xx"]``, ``u.value``,
            ``u.points["x"]``) and the coefficients by name; a list of residuals for a system.
        coefficients: name -> value, of what a solver may continue in, or an inverse problem looks for.
        initial: u at the start of time, of the other coordinates as columns (N, 1).
        conditions: further conditions on faces; what ``symmetry`` builds in needs none.
        symmetry: coordinate -> periodic, even, odd, ... of the solution about the middle of the domain, built into
            networks exactly.
        unknowns: names of the components of u.
        time: the coordinate of time, if there is one of that name.
        reference: computes a solution to compare with.
        size: of the solution, about; that of ``initial`` if left out.
        invariants: name -> a quantity that is conserved or decays, by which a solution can be checked.
        easier: coefficients with which a training may begin, since the solution is then easier to find.

    >>> import torch
    >>> heat = Problem(
    ...     name="warm rod",
    ...     domain={"x": (0, 2), "t": (0, 10)},
    ...     equation=lambda u, speed: u["t"] - speed * u["xx"],
    ...     coefficients={"speed": 0.1},
    ...     initial=lambda x: 3 * torch.cos(torch.pi * x),
    ...     symmetry={"x": "periodic-even"},
    ... )
    >>> heat.derivatives_needed
    ('t', 'xx')
    """

    name: str
    domain: Mapping[str, tuple[float, float]]
    equation: Callable[..., Tensor | Sequence[Tensor]]
    coefficients: Mapping[str, float] = field(default_factory=dict)
    initial: Callable[..., Tensor] | None = None
    conditions: Sequence[Condition] = ()
    symmetry: Mapping[str, Symmetry] = field(default_factory=dict)
    unknowns: Sequence[str] = ("u",)
    time: str = "t"
    reference: Callable[[], Reference] | None = None
    size: float | None = None
    title: str = ""
    invariants: Mapping[str, Invariant] = field(default_factory=dict)
    easier: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (low, high) in self.domain.items():
            if len(name) != 1 or not -math.inf < low < high < math.inf:
                raise ConfigError(
                    f"problem {self.name!r}: a coordinate is one letter with a finite lower and a larger upper end, "
                    f"got {name!r} from {low} to {high}."
                )
        for name in self.symmetry:
            if name not in self.domain:
                raise UnknownNameError("coordinate", name, self.domain, f"There are {', '.join(self.domain)}.")
        if self.initial is not None and self.time not in self.domain:
            raise ConfigError(f"problem {self.name!r} has an initial value but no coordinate {self.time!r}.")
        for name in self.easier:
            if name not in self.coefficients:
                raise UnknownNameError("coefficient", name, self.coefficients)
        for one in self.conditions:
            self._check_face(one)

    def _check_face(self, condition: Condition) -> None:
        for name, value in condition.where.items():
            low, high = self.domain.get(name, (math.nan, math.nan))
            if not low <= value <= high:
                raise ConfigError(
                    f"condition {condition.name!r} of {self.name!r} lies at {name} = {value:g}, outside of the domain."
                )

    @property
    def coordinates(self) -> list[str]:
        """Names of the coordinates, in the order of the columns of points."""
        return list(self.domain)

    @property
    def space(self) -> list[str]:
        """Coordinates without time."""
        return [name for name in self.domain if name != self.time]

    @cached_property
    def derivatives_needed(self) -> tuple[str, ...]:
        """Names of the derivatives that the equation uses, found by evaluating it on made-up numbers."""
        probe = Needed(self.coordinates, len(self.unknowns))
        try:
            self.equation(probe, **self.coefficients)
        except TypeError as error:
            raise ConfigError(
                f"the equation of {self.name!r} must take u and the coefficients {list(self.coefficients)} by name: "
                f"{error}."
            ) from error
        if not probe.asked:
            raise ConfigError(f"the equation of {self.name!r} uses no derivative of u, so there is nothing to solve.")
        return tuple(sorted(probe.asked))

    def derivatives(self, f: Function, points: Tensor, names: Sequence[str] | None = None) -> Derivatives:
        """u and the derivatives that the equation uses, or those named, at points, in one pass.

        Args:
            f: a network or another function of points.
            points: (N, coordinates).
            names: of derivatives, such as ``("t", "xx")``.
        """
        if points.ndim != 2 or points.shape[1] != len(self.domain):
            raise ShapeError(
                f"{self.name!r} has points (N, {len(self.domain)}) of {', '.join(self.domain)}, got shape "
                f"{tuple(points.shape)}."
            )
        asked = {self._index(name): name for name in (self.derivatives_needed if names is None else names)}
        axes = [i for i in range(len(self.domain)) if any(index[i] for index in asked)]
        at = dict(zip(self.domain, points.split(1, dim=1), strict=True))
        if not axes:
            return Derivatives(f(points), {}, points=at)
        directions = list(torch.eye(len(self.domain), dtype=points.dtype, device=points.device)[axes])
        found = mixed_jet(f, points, directions, [tuple(index[i] for i in axes) for index in asked])
        along: dict[str, list[Tensor]] = {}
        for k, i in enumerate(axes):
            orders = [index[k] for index in found if sum(index) == index[k]]
            rows = [found[tuple(n if j == k else 0 for j in range(len(axes)))] for n in range(1, max(orders) + 1)]
            along[self.coordinates[i]] = rows
        mixed = {name: found[tuple(index[i] for i in axes)] for index, name in asked.items()}
        return Derivatives(found[(0,) * len(axes)], along, mixed, at)

    def _index(self, name: str) -> Index:
        for letter in name:
            if letter not in self.domain:
                raise UnknownNameError("coordinate", letter, self.domain, f"u_{name} needs {', '.join(self.domain)}.")
        return tuple(name.count(coordinate) for coordinate in self.domain)

    def residual(self, u: Derivatives, **coefficients: Any) -> Tensor:
        """The residual at points, (N, equations), in units of the solution over the time; coefficients may be given."""
        for name in coefficients:
            if name not in self.coefficients:
                raise UnknownNameError("coefficient", name, self.coefficients)
        found = self.equation(u, **{**self.coefficients, **coefficients})
        joined = found if isinstance(found, Tensor) else torch.cat(list(found), dim=1)
        return joined * (self.duration / self.scale)

    @property
    def duration(self) -> float:
        """Length of time; 1 if there is none."""
        low, high = self.domain.get(self.time, (0.0, 1.0))
        return high - low

    @cached_property
    def scale(self) -> float:
        """Size of the solution: given, or the largest initial value."""
        if self.size is not None:
            return self.size
        if self.initial is None:
            return 1.0
        return self.initial_values(self.sobol(1024, 0)).abs().max().item() or 1.0

    def initial_values(self, points: Tensor) -> Tensor:
        """u at the start of time above or below points, (N, unknowns)."""
        assert self.initial is not None
        columns = [points[:, i : i + 1] for i, name in enumerate(self.domain) if name != self.time]
        return self.initial(*columns)

    def sobol(self, count: int, seed: int) -> Tensor:
        """Evenly spread points of the domain, (count, coordinates), float64."""
        engine = torch.quasirandom.SobolEngine(len(self.domain), scramble=True, seed=seed)
        return self.placed(engine.draw(count, dtype=torch.float64))

    def placed(self, shares: Tensor) -> Tensor:
        """Points of the unit cube, in the domain."""
        ends = torch.tensor(list(self.domain.values()), dtype=shares.dtype, device=shares.device)
        return ends[:, 0] + shares * (ends[:, 1] - ends[:, 0])

    def grid(self, *counts: int) -> Tensor:
        """Points of a grid with so many along each coordinate, (product of counts, coordinates), float64.

        A periodic coordinate leaves its upper end out.
        """
        axes = []
        for count, (name, (low, high)) in zip(counts, self.domain.items(), strict=True):
            periodic = "periodic" in self.symmetry.get(name, "none")
            axes.append(torch.linspace(low, high, count + periodic, dtype=torch.float64)[:count])
        return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)

    def network_options(self) -> dict[str, Any]:
        """Options of the network ``perceptron`` that follow from the problem."""
        lower, upper = zip(*self.domain.values(), strict=True)
        return {
            "in_features": len(self.domain),
            "num_classes": len(self.unknowns),
            "lower": lower,
            "upper": upper,
            "symmetry": tuple(self.symmetry.get(name, "none") for name in self.domain),
            "scale": self.scale,
        }

    @cached_property
    def solution(self) -> Reference:
        """The reference, computed once."""
        if self.reference is None:
            raise ConfigError(f"problem {self.name!r} has no reference. Give it one, or compare with something else.")
        return self.reference()
