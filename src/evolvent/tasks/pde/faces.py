"""What is asked of a solution on the faces of its domain: too little to determine it, or more than can hold."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent.equations.problems import Condition, Problem
from evolvent.equations.problems.needed import Needed
from evolvent.equations.terms import Derivatives, coordinates_in

_POINTS = 16
_ROUNDING = 1e-6  # relative to the size of the solution
_DEGENERATE = 1e-9  # effect of the highest derivative on a face over that inside, from which it has none there
_ABSENT = -1e6  # lower than all orders together
_INSIDE = (0.37, 0.71)  # of a coordinate, in no special place

Function = Callable[[Tensor], Tensor]


def check_sides(problem: Problem) -> None:
    """Refuse an equation of second order or higher in space with a side where nothing holds the solution, and one
    that is given too little in time.

    A derivative of first order needs a value on the side of the inflow only, which is not looked at. Neither are
    sides on which the highest derivative has a factor of 0, nor equations that are not local.
    """
    if given_too_little := missing_in_time(problem):
        time, start = problem.time, problem.domain[problem.time][0]
        raise ConfigError(
            f"{problem.name!r} has {given_too_little}: many functions solve it. Give an initial value, and a Condition "
            f'at {time} = {start:g} for each further one, such as lambda u: u["{time}"] for what begins at rest.'
        )
    if problem.boundary is not None or problem.eigenvalue is not None or "function" in problem.derivatives_needed:
        return
    for name in problem.space:
        if open_sides := _open_sides(problem, name):
            raise ConfigError(
                f"nothing is given at {' and '.join(f'{name} = {at:g}' for at in open_sides)} for {problem.name!r}, "
                f"whose equation is of order {problem.order(name)} in {name}: many functions solve it. Add "
                "boundary values, a Condition there, or a symmetry."
            )


def missing_in_time(problem: Problem) -> str:
    """How many conditions in time there are, and should be; empty if there are enough.

    A symmetry in time stands for what is missing at one end. Where the equation is singular at the start, how many
    there should be is not known.
    """
    symmetry = problem.symmetry.get(problem.time, "none")
    conditions = [one for one in problem.conditions if problem.time in one.where]
    if not problem.order(problem.time) or "periodic" in symmetry:
        return ""
    if symmetry != "none" and (conditions or problem.initial is not None):
        return ""
    orders = _orders_at_start(problem)
    needed = _constants(orders)
    held = int((orders.amax(0) > 0).sum()) if problem.initial is not None else 0
    given = held + sum(_columns(problem, one) for one in conditions)
    if given >= needed:
        return ""
    wanted = f"{needed} {'is' if needed == 1 else 'are'} needed"
    return f"{given} condition{'s' * (given != 1)} in {problem.time} where {wanted}"


def _orders_at_start(problem: Problem) -> Tensor:
    """Of the highest derivative in time of each unknown in each equation, (equations, unknowns).

    An equation without an unknown has the order ``_ABSENT`` in it.
    """
    low, high = problem.domain[problem.time]
    inside = low + _INSIDE[0] * (high - low)
    unknowns, highest = range(len(problem.unknowns)), problem.order(problem.time)
    columns = []
    for component in unknowns:
        orders = torch.full((), _ABSENT)
        for order in range(highest + 1):
            there, usual = (_effects(problem, problem.time, at, order, component) for at in (low, inside))
            orders = torch.where(there.isfinite() & (there > _DEGENERATE * usual), float(order), orders)
        columns.append(orders)
    return torch.stack(columns, dim=1)


def _constants(orders: Tensor) -> int:
    r"""How many numbers a solution of ordinary differential equations is free in.

    It is :math:`\max \sum_i \sigma_{i j(i)}` over ways to give each equation i an unknown j(i) of its own, with the
    orders :math:`\sigma_{ij}` (Pryce 2001, equation (2)).
    """
    from scipy.optimize import linear_sum_assignment

    chosen = linear_sum_assignment(orders.numpy(), maximize=True)
    return max(0, int(orders[chosen].sum()))


def _open_sides(problem: Problem, name: str) -> list[float]:
    """Ends of a coordinate where neither a condition nor a symmetry holds the solution."""
    order, symmetry = problem.order(name), problem.symmetry.get(name, "none")
    if order < 2 or "periodic" in symmetry:
        return []
    held = [one.where[name] for one in problem.conditions if name in one.where]
    asked = sum(_columns(problem, one) for one in problem.conditions if name in one.where)
    if asked >= order * len(problem.unknowns) or (held and symmetry != "none"):
        return []  # all on one side, as for an equation that begins there, or on the other one by symmetry
    return [at for at in problem.domain[name] if at not in held and _acts(problem, name, at, order)]


def _columns(problem: Problem, condition: Condition) -> int:
    return condition.violation(_probe(problem)).shape[1]


def _probe(problem: Problem) -> Needed:
    return Needed(problem.coordinates, len(problem.unknowns), len(problem.space))


def _acts(problem: Problem, name: str, at: float, order: int) -> bool:
    """Whether the highest derivative in a coordinate is part of the equation at one of its ends."""
    low, high = problem.domain[name]
    effect = lambda at: _effects(problem, name, at, order).max().item()  # noqa: E731
    inside = max(effect(low + share * (high - low)) for share in _INSIDE)
    return not effect(at) <= _DEGENERATE * inside


def _effects(problem: Problem, name: str, at: float, order: int, component: int | None = None) -> Tensor:
    """How equations change where a coordinate has a value if the derivative of an order in it does, (equations,).

    That of one unknown or of all. Derivatives in other coordinates change too.
    """
    points, bent = _at(problem, {name: at}), _bent(problem, name, at, order, component)
    wave = lambda x: 1.5 + torch.sin(x.sum(1, keepdim=True))  # noqa: E731
    smooth = lambda x: problem.scale * (1.5 + torch.sin(x[:, :1])) + 0 * bent(x)  # noqa: E731
    residual = lambda f: problem.residual(problem.derivatives(f, points))  # noqa: E731
    with torch.no_grad():
        return (residual(lambda x: smooth(x) + wave(x) * bent(x)) - residual(smooth)).abs().amax(0)


def _at(problem: Problem, where: dict[str, float]) -> Tensor:
    points = problem.sobol(_POINTS, seed=1)
    for name, value in where.items():
        points[:, problem.coordinates.index(name)] = value
    return points


def _bent(problem: Problem, name: str, at: float, order: int, component: int | None = None) -> Function:
    r"""The function :math:`(x - a)^k / k!`, whose derivatives at a vanish but for the k-th, in one component or all."""
    column, count = problem.coordinates.index(name), len(problem.unknowns)

    def bent(points: Tensor) -> Tensor:
        away = points[:, column : column + 1] - at
        power = 1 + 0 * away
        for _ in range(order):
            power = power * away
        power = power * (problem.scale / math.factorial(order))
        return torch.cat([power if component in (None, k) else 0 * power for k in range(count)], dim=1)

    return bent


def check_contradictions(problem: Problem) -> None:
    """Refuse conditions on one face that cannot all hold, such as two values of u."""
    for name in problem.domain:
        for at in problem.domain[name]:
            if names := _contradicting(_affine_on(problem, name, at)):
                how = "contradict each other" if len(names) > 1 else "contradicts itself"
                raise ConfigError(
                    f"{' and '.join(map(repr, names))} of {problem.name!r} {how} at {name} = {at:g}: "
                    "no solution meets all of it. Correct or leave out a part."
                )


def _affine_on(problem: Problem, name: str, at: float) -> list[tuple[str, Tensor]]:
    """Conditions on a face by name, as factors of u and its derivatives across it, and what is left without them.

    Shape: (points, columns, derivatives x unknowns + 1). Those that ask for anything else are left out.
    """
    there = [one for one in problem.conditions if dict(one.where) == {name: at}]
    if there and problem.boundary is not None and problem.region is None and name in problem.space:
        there.append(Condition("boundary", {name: at}, lambda u: off_boundary(problem, u)))
    orders = {id(one): _order_across(problem, one, name) for one in there}
    there = [one for one in there if orders[id(one)] is not None]
    highest = max((orders[id(one)] or 0 for one in there), default=0)
    found = [(one.name, _affine(problem, one, name, at, highest)) for one in there]
    return [(said, rows) for said, rows in found if rows is not None]


def off_boundary(problem: Problem, u: Derivatives) -> Tensor:
    """How far u is from the values on the boundary, (N, unknowns)."""
    return u.value - problem.boundary_values(torch.cat([u.points[name] for name in problem.coordinates], dim=1))


def _order_across(problem: Problem, condition: Condition, name: str) -> int | None:
    """The highest derivative across its face that a condition asks for; None if it asks for others."""
    probe = _probe(problem)
    condition.violation(probe)
    if any(set(coordinates_in(one)) != {name} for one in probe.asked):
        return None
    return max((len(coordinates_in(one)) for one in probe.asked), default=0)


def _affine(problem: Problem, condition: Condition, name: str, at: float, highest: int) -> Tensor | None:
    """None if the condition is not affine."""
    points, names = _at(problem, {name: at}), [name * k for k in range(1, highest + 1)]
    unknowns = range(len(problem.unknowns))
    parts = [_bent(problem, name, at, k, component) for k in range(highest + 1) for component in unknowns]
    of = lambda f: condition.violation(problem.derivatives(f, points, names)) / problem.scale  # noqa: E731
    with torch.no_grad():
        left = of(lambda x: 0 * parts[0](x))
        slopes = [of(part) - left for part in parts]
        twice = of(lambda x: 2 * torch.stack([part(x) for part in parts]).sum(0))
    if not torch.allclose(twice, left + 2 * torch.stack(slopes).sum(0), atol=_ROUNDING):
        return None
    return torch.stack([*slopes, left], dim=-1)


def _contradicting(found: list[tuple[str, Tensor]]) -> list[str]:
    """Names of one or two conditions that cannot hold, or of all those up to the first that cannot hold with them."""
    for last in range(len(found)):
        pairs = [[k, last] for k in range(last)]
        for chosen in (*pairs, list(range(last + 1))):
            rows = torch.cat([found[k][1] for k in chosen], dim=1)
            ranks = [torch.linalg.matrix_rank(part, rtol=_ROUNDING) for part in (rows, rows[..., :-1])]
            if (ranks[0] > ranks[1]).any():
                return [found[k][0] for k in chosen]
    return []
