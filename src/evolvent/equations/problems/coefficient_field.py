"""Coefficients of an equation that depend on coordinates, as a few numbers that can be looked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.equations.problems.problem import Problem
from evolvent.equations.terms import Derivatives
from evolvent.networks.perceptron import Symmetry


@dataclass(frozen=True)
class CoefficientField:
    r"""A coefficient :math:`c(x) = c_0 \left(1 + \sum_{k=1}^m c_k \varphi_k(x)\right)`.

    The functions are products over the coordinates of Chebyshev polynomials, or of cosines and sines in a periodic
    coordinate; of these only even ones where the solution is even or odd.

    Args:
        name: of :math:`c_0`; the others are ``name_1`` and so on.
        along: coordinates it depends on, with their ends and symmetries.
        functions: how many along each of them, the constant included.
    """

    name: str
    along: Mapping[str, tuple[float, float, Symmetry]]
    functions: int

    @property
    def shape_names(self) -> list[str]:
        r"""Names of :math:`c_1, \dots, c_m`."""
        return [f"{self.name}_{k}" for k in range(1, self.functions ** len(self.along))]

    def basis(self, points: Mapping[str, Tensor]) -> Tensor:
        r"""All :math:`\varphi_k` at points, the constant first, (N, m + 1); coordinates are columns (N, 1)."""
        found = None
        for name, (low, high, kind) in self.along.items():
            one = _functions((points[name] - low) * (2 / (high - low)) - 1, kind, self.functions)
            found = one if found is None else (found[:, :, None] * one[:, None]).flatten(1)
        assert found is not None
        return found

    def __call__(self, points: Mapping[str, Tensor], coefficients: Mapping[str, Any]) -> Tensor:
        """c at points, (N, 1), of the coefficients by name, each a number or (N, 1)."""
        shape = self.basis(points)[:, 1:]
        total = torch.ones_like(shape[:, :1])
        for k, name in enumerate(self.shape_names):
            total = total + coefficients[name] * shape[:, k : k + 1]
        return coefficients[self.name] * total

    def slopes(self, points: Mapping[str, Tensor], coefficients: Mapping[str, float]) -> Tensor:
        r""":math:`\partial c / \partial c_k` at points, (N, m + 1)."""
        lead, found = coefficients[self.name], self.basis(points)
        shape = found.new_tensor([1.0, *(coefficients[name] for name in self.shape_names)])
        return torch.cat([found @ shape[:, None], lead * found[:, 1:]], dim=1)


def _functions(s: Tensor, kind: Symmetry, count: int) -> Tensor:
    """Functions of s from -1 to 1, (N, 1) to (N, count)."""
    even = "even" in kind or "odd" in kind
    if "periodic" in kind:
        waves = [k if even else (k + 1) // 2 for k in range(count)]
        shifts = [0.0 if even or k % 2 else -math.pi / 2 * (k > 0) for k in range(count)]  # cosines, then sines
        return torch.cat([torch.cos(math.pi * n * s + shift) for n, shift in zip(waves, shifts, strict=True)], dim=1)
    polynomials = [torch.ones_like(s), s]
    while len(polynomials) < (2 * count if even else count):
        polynomials.append(2 * s * polynomials[-1] - polynomials[-2])
    return torch.cat(polynomials[:: 2 if even else 1][:count], dim=1)


def with_field(problem: Problem, name: str, along: str | Sequence[str], functions: int = 6) -> Problem:
    """The same problem with a coefficient that depends on coordinates, constant to begin with.

    It has no reference, energy or conserved quantities, which belong to the constant coefficient. Derivatives of the
    coefficient do not enter the equation, which is the one that was stated for a constant.

    Args:
        problem: that has the coefficient, which must not be 0.
        name: of the coefficient.
        along: coordinates it depends on.
        functions: how many along each of them, the constant included.

    >>> from evolvent.equations.problems import create_problem
    >>> list(with_field(create_problem("heat"), "diffusion", along="x", functions=3).coefficients)
    ['diffusion', 'diffusion_1', 'diffusion_2']
    """
    along = [along] if isinstance(along, str) else list(along)
    check_whole(2, functions=functions)
    if name not in problem.coefficients or name in problem.fields:
        raise UnknownNameError("coefficient", name, problem.coefficients, f"{problem.name!r} has no such constant.")
    if not problem.coefficients[name]:
        raise ConfigError(f"coefficient {name!r} of {problem.name!r} is 0. Give it a size to begin with.")
    for one in along:
        if one not in problem.domain:
            raise UnknownNameError("coordinate", one, problem.domain, f"There are {', '.join(problem.domain)}.")
    kinds: dict[str, Symmetry] = {one: problem.symmetry.get(one, "none") for one in along}
    field = CoefficientField(name, {one: (*problem.domain[one], kinds[one]) for one in along}, functions)

    def equation(u: Derivatives, **given: Any) -> Tensor | Sequence[Tensor]:
        parts = {key: given.pop(key) for key in (name, *field.shape_names)}
        return problem.equation(u, **given, **{name: field(u.points, parts)})

    return replace(
        problem,
        name=f"{problem.name} with {name} of {', '.join(along)}",
        equation=equation,
        energy=None,
        coefficients={**problem.coefficients, **dict.fromkeys(field.shape_names, 0.0)},
        fields={**problem.fields, name: field},
        easier={key: value for key, value in problem.easier.items() if key != name},
        reference=None,
        invariants={},
    )
