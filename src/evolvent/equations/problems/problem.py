"""A problem: an equation on a box or a part of it, with conditions, symmetries, scales and a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, get_args

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, described
from evolvent._core.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.equations.problems.evaluation import derivatives_at
from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.magnitude import balance
from evolvent.equations.problems.needed import Needed
from evolvent.equations.problems.region import Region, box
from evolvent.equations.problems.shapes import Value, check_residual, check_value, joined, value_at
from evolvent.equations.terms import Derivatives, coordinates_in
from evolvent.networks.perceptron import Symmetry

if TYPE_CHECKING:
    from evolvent.equations.problems.coefficient_field import CoefficientField

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
        residual: of u and its derivatives there; zero where the condition holds. A list is as many conditions.
    """

    name: str
    where: Mapping[str, float]
    residual: Callable[[Derivatives], Tensor | Sequence[Tensor]]

    def violation(self, u: Derivatives) -> Tensor:
        """What is off at points, (N, conditions)."""
        return joined(self.residual(u))


@dataclass(frozen=True, kw_only=True)
class Problem:
    r"""An equation :math:`R(u, u_t, u_x, u_{xx}, \dots) = 0` on a box, or a part of it.

    Args:
        name: of the problem.
        domain: coordinate -> lower and upper end, in the order in which points have them. A name is a letter, perhaps
            with a number: ``x``, ``x12``.
        equation: the residual, of :class:`~evolvent.equations.Derivatives` (``u["t"]``, ``u["xx"]``, ``u.value``,
            ``u.laplacian``, ``u.gradient``, ``u.points["x"]``) and the coefficients by name; a list of residuals for a
            system.
        coefficients: name -> value, of what a solver may continue in, or an inverse problem looks for.
        initial: u at the start of time, of the other coordinates as columns (N, 1), or a number, or one for
            each unknown.
        boundary: u on the boundary of space, of all coordinates as columns (N, 1), or numbers as for ``initial``.
        region: the part of space where the equation holds; the whole box if left out.
        conditions: further conditions on faces; what ``symmetry`` builds in needs none.
        energy: the density whose integral the solution minimises, of the same arguments as ``equation``.
        eigenvalue: the equation is that of the smallest eigenvalue, which is this one; the integral of ``energy`` is
            minimised over that of :math:`u^2`, and any multiple of u is a solution.
        symmetry: coordinate -> periodic, even, odd, ... of the solution about the middle of the domain, built into
            networks exactly.
        unknowns: names of the components of u.
        time: the coordinate of time, if there is one of that name.
        reference: computes a solution to compare with.
        profile: a function of all coordinates, as columns (N, 1), that is as rough as the solution, such as the
            smoothed kink of its initial value; with ``task.profile`` networks represent only what is left.
        size: of the solution, about; that of ``initial`` if left out.
        invariants: name -> a quantity that is conserved or decays, by which a solution can be checked.
        easier: coefficients with which a training may begin, since the solution is then easier to find.
        fields: name -> how a coefficient depends on coordinates; made by
            :func:`~evolvent.equations.problems.with_field`.

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
    initial: Value | None = None
    boundary: Value | None = None
    region: Region | None = None
    conditions: Sequence[Condition] = ()
    energy: Callable[..., Tensor] | None = None
    eigenvalue: float | None = None
    symmetry: Mapping[str, Symmetry] = field(default_factory=dict)
    unknowns: Sequence[str] = ("u",)
    time: str = "t"
    reference: Callable[[], Reference] | None = None
    profile: Callable[..., Tensor] | None = None
    size: float | None = None
    title: str = ""
    invariants: Mapping[str, Invariant] = field(default_factory=dict)
    easier: Mapping[str, float] = field(default_factory=dict)
    fields: Mapping[str, CoefficientField] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.domain:
            raise ConfigError(f'problem {self.name!r} has no coordinates. Give a domain such as {{"x": (0, 1)}}.')
        if not callable(self.equation):
            raise ConfigError(f"the equation of {self.name!r} is a function of u, got {described(self.equation)}.")
        check_value(self.initial, len(self.unknowns), self._called("initial value"))
        check_value(self.boundary, len(self.unknowns), self._called("boundary value"))
        for name, (low, high) in self.domain.items():
            if coordinates_in(name) != [name] or not -math.inf < low < high < math.inf:
                raise ConfigError(
                    f"problem {self.name!r}: a coordinate is one letter, perhaps with a number, with a finite lower "
                    f"and a larger upper end, got {name!r} from {low} to {high}."
                )
        for name, kind in self.symmetry.items():
            if name not in self.domain:
                raise UnknownNameError("coordinate", name, self.domain, f"There are {', '.join(self.domain)}.")
            check_choice("symmetry", kind, get_args(Symmetry))
        if self.initial is not None and self.time not in self.domain:
            raise ConfigError(f"problem {self.name!r} has an initial value but no coordinate {self.time!r}.")
        self._with(self.easier)
        for one in self.conditions:
            self._check_face(one)

    def _called(self, what: str) -> str:
        return f"the {what} of {self.name!r}"

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
        len(self._needed_by_conditions)  # what is wrong with them is said first
        asked, found = self._probed(self.equation, "equation", (1, len(self.unknowns)), self.coefficients)
        if not asked:
            raise ConfigError(f"the equation of {self.name!r} uses no derivative of u, so there is nothing to solve.")
        if not any(part.any() for part in ([found] if isinstance(found, Tensor) else found)):
            raise ConfigError(
                f"the residual of {self.name!r} is 0 whatever u is, so that anything solves it. Look for terms that "
                "cancel, or a coefficient that is 0."
            )
        return asked

    def order(self, coordinate: str) -> int:
        """Of the highest derivative in a coordinate that the equation uses."""
        whole = {"gradient": 1, "laplacian": 2} if coordinate in self.space else {}
        orders = (
            whole.get(name, 0)
            if name in ("gradient", "laplacian", "function")
            else coordinates_in(name).count(coordinate)
            for name in self.derivatives_needed
        )
        return max(orders, default=0)

    @cached_property
    def energy_derivatives_needed(self) -> tuple[str, ...]:
        """Names of the derivatives that the energy uses."""
        if self.energy is None:
            raise ConfigError(
                f"problem {self.name!r} has no energy that its solution minimises. State one (Problem.energy) if there "
                "is one, or take method pinn or galerkin."
            )
        return self._probed(self.energy, "energy", (1,), self.coefficients)[0]

    @cached_property
    def _needed_by_conditions(self) -> dict[int, tuple[str, ...]]:
        """Names of the derivatives that each condition uses."""
        widths = (1, len(self.unknowns))
        return {
            id(one): self._probed(one.residual, f"condition {one.name!r}", widths, {})[0] for one in self.conditions
        }

    def _probed(
        self, function: Callable[..., Any], what: str, widths: Sequence[int], coefficients: Mapping[str, float]
    ) -> tuple[tuple[str, ...], Any]:
        """Names of the derivatives that a function of u asks for, and what it gives on made-up numbers."""
        probe = Needed(self.coordinates, len(self.unknowns), len(self.space))
        try:
            found = function(probe, **coefficients)
        except TypeError as error:
            raise ConfigError(
                f"the {what} of {self.name!r} must take u and the coefficients {list(coefficients)} by name: {error}."
            ) from error
        except AttributeError as error:
            told = str(error).replace("'Needed' object", "u")
            raise ConfigError(
                f"the {what} of {self.name!r} asks for what is not there: {told}. There are u.value, "
                'u["x"], u["xx"], u.gradient, u.laplacian, u.points["x"] and u.component(0).'
            ) from error
        check_residual(found, len(probe.value), widths, self._called(what))
        return tuple(sorted(probe.asked)), found

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
        names = list(self.derivatives_needed if names is None else names)
        return derivatives_at(f, points, names, self.coordinates, self.space)

    @property
    def _space_columns(self) -> list[int]:
        return [i for i, name in enumerate(self.domain) if name != self.time]

    def residual(self, u: Derivatives, **coefficients: Any) -> Tensor:
        """The residual at points, (N, equations), in units of the solution over the time; coefficients may be given.

        Equations that are written in other units, so that they are very large or small, are brought to order one.
        """
        values = self._with(coefficients)
        found = joined(self.equation(u, **values)) * (self.duration / self.scale)
        factors = self._factors(values)
        return found if factors is None else found * found.new_tensor(factors)

    def _factors(self, coefficients: Mapping[str, Any]) -> tuple[float, ...] | None:
        """Of the equations with these coefficients; of those that are being looked for, with the stated ones."""
        numbers = {k: v if isinstance(v, int | float) else self.coefficients[k] for k, v in coefficients.items()}
        key = tuple(numbers.values())
        if key not in self._balances:
            self._balances[key] = balance(self, numbers)
        return self._balances[key]

    @cached_property
    def _balances(self) -> dict[tuple[float, ...], tuple[float, ...] | None]:
        return {}

    def violation(self, condition: Condition, f: Function, points: Tensor) -> Tensor:
        """What is off of a condition of this problem for a function, at points of its face, (N, columns)."""
        return condition.violation(self.derivatives(f, points, self._needed_by_conditions[id(condition)]))

    def energy_density(self, u: Derivatives, **coefficients: Any) -> Tensor:
        """The density of the energy at points, (N, 1), in units of the square of the solution."""
        assert self.energy is not None
        return self.energy(u, **self._with(coefficients)) / self.scale**2

    def _with(self, coefficients: Mapping[str, Any]) -> dict[str, Any]:
        for name in coefficients:
            if name not in self.coefficients:
                known = f"{self.name!r} has {', '.join(self.coefficients) or 'none'}."
                raise UnknownNameError("coefficient", name, self.coefficients, known)
        return {**self.coefficients, **coefficients}

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
        values = self.initial_values(self.spread(1024, 0))
        return (values.abs().max().item() if len(values) else 0.0) or 1.0

    def initial_values(self, points: Tensor) -> Tensor:
        """u at the start of time above or below points, (N, unknowns)."""
        assert self.initial is not None
        columns = {name: points[:, i : i + 1] for name, i in zip(self.space, self._space_columns, strict=True)}
        return value_at(self.initial, points, columns, len(self.unknowns), self._called("initial value"))

    def boundary_values(self, points: Tensor) -> Tensor:
        """u on the boundary of space, (N, unknowns); elsewhere the same formula."""
        assert self.boundary is not None
        columns = {name: points[:, i : i + 1] for i, name in enumerate(self.domain)}
        return value_at(self.boundary, points, columns, len(self.unknowns), self._called("boundary value"))

    def profile_values(self, points: Tensor) -> Tensor:
        """The known profile at points, (N, unknowns)."""
        assert self.profile is not None
        return self.profile(*(points[:, i : i + 1] for i in range(len(self.domain))))

    @cached_property
    def space_region(self) -> Region:
        """The part of space where the equation holds."""
        return self.region or box([self.domain[name] for name in self.space])

    def contains(self, points: Tensor) -> Tensor:
        """Whether points (N, coordinates) lie in the domain, bool (N,)."""
        ends = torch.tensor(list(self.domain.values()), dtype=points.dtype, device=points.device)
        in_box = ((points >= ends[:, 0]) & (points <= ends[:, 1])).all(1)
        return in_box & self.space_region.contains(points[:, self._space_columns])

    def inside(self, points: Tensor) -> Tensor:
        """A function of points that vanishes on the boundary of space and is positive inside, (N, 1)."""
        space = self._space_columns
        if len(space) == len(self.domain):
            return self.space_region.inside(points)
        return self.space_region.inside(torch.cat([points[:, i : i + 1] for i in space], dim=1))

    def on_boundary(self, shares: Tensor) -> Tensor:
        """Points of the boundary of space, at any time, from numbers of the unit cube (N, coordinates)."""
        points, space = self.placed(shares), self._space_columns
        points[:, space] = self.space_region.boundary(shares[:, space]).to(points)
        ends = torch.tensor(list(self.domain.values()), dtype=points.dtype, device=points.device)
        slack = 1e-9 * (ends[:, 1] - ends[:, 0])
        outside = (points < ends[:, 0] - slack) | (points > ends[:, 1] + slack)
        if not points.isfinite().all() or outside.any():
            raise ConfigError(
                f"the boundary of region {self.space_region.name!r} of {self.name!r} gave points outside of the box of "
                "the domain. Give a larger box, or correct Region.boundary."
            )
        return points

    def sobol(self, count: int, seed: int) -> Tensor:
        """Evenly spread points of the domain, (count, coordinates), float64."""
        engine = torch.quasirandom.SobolEngine(len(self.domain), scramble=True, seed=seed)
        return self.placed(engine.draw(count, dtype=torch.float64))

    def spread(self, count: int, seed: int) -> Tensor:
        """Those of so many evenly spread points of the box that lie in the domain."""
        points = self.sobol(count, seed)
        return points if self.region is None else points[self.contains(points)]

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
            "lower": tuple(map(float, lower)),
            "upper": tuple(map(float, upper)),
            "symmetry": tuple(self.symmetry.get(name, "none") for name in self.domain),
            "scale": float(self.scale),
        }

    @cached_property
    def solution(self) -> Reference:
        """The reference, computed once."""
        if self.reference is None:
            raise ConfigError(f"problem {self.name!r} has no reference. Give it one, or compare with something else.")
        return self.reference()
