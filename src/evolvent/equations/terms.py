"""Terms of governing equations: products of powers of u and its derivatives, evaluated and printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError, UnknownNameError

_COORDINATE = re.compile(r"[^\W\d_]\d*")


def coordinates_in(name: str) -> list[str]:
    """Coordinates in which a derivative of that name is taken, one for each time.

    >>> coordinates_in("xxt"), coordinates_in("x1x12")
    (['x', 'x', 't'], ['x1', 'x12'])
    """
    return _COORDINATE.findall(name)


class Derivatives:
    """u and its derivatives at some points.

    Args:
        value: u.
        along: coordinate -> derivatives in it, from the first.
        mixed: derivatives in several coordinates, by names such as ``xy``.
        points: coordinate -> its value at the points, for equations that depend on where they are.
        gradient: in space, (N, d), of a u with one component.
        laplacian: in space.
        function: u itself, of other points (N, coordinates), for equations that are not local.

    >>> import torch
    >>> u = Derivatives(torch.ones(1), {"x": [torch.zeros(1), torch.full((1,), 2.0)]})
    >>> u["xx"].item(), u["x"].item(), u[""].item()
    (2.0, 0.0, 1.0)
    """

    def __init__(
        self,
        value: Tensor,
        along: Mapping[str, Sequence[Tensor]],
        mixed: Mapping[str, Tensor] | None = None,
        points: Mapping[str, Tensor] | None = None,
        gradient: Tensor | None = None,
        laplacian: Tensor | None = None,
        function: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.value, self.along = value, along
        self.mixed, self.points = mixed or {}, points or {}
        self._function = function
        self._gradient, self._laplacian = gradient, laplacian
        self._powers = [torch.ones_like(value), value]

    def __getitem__(self, name: str) -> Tensor:
        """The derivative that ``u_name`` stands for, such as ``xx`` or ``xy``; an empty name is u itself."""
        if name in self.mixed:
            return self.mixed[name]
        coordinates = coordinates_in(name)
        if len(set(coordinates)) > 1:
            raise UnknownNameError("derivative", name, self.mixed, "Ask for it when the derivatives are computed.")
        return self.of(coordinates[0], len(coordinates)) if name else self.value

    @property
    def gradient(self) -> Tensor:
        """The gradient in space, (N, d), of a u with one component."""
        return self._asked_for("gradient", self._gradient)

    @property
    def laplacian(self) -> Tensor:
        """The Laplacian in space, of the shape of u; in many dimensions much cheaper than the sum of its terms."""
        return self._asked_for("laplacian", self._laplacian)

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        """u, of other points (N, coordinates)."""
        return self._asked_for("function", self._function)

    def _asked_for(self, name: str, found: Any) -> Any:
        if found is None:
            raise UnknownNameError("derivative", name, self.mixed, "Ask for it when the derivatives are computed.")
        return found

    def component(self, number: int) -> Derivatives:
        """One component of a u that has several, along the last axis."""
        return Derivatives(
            self.value[..., number : number + 1],
            {name: [u[..., number : number + 1] for u in row] for name, row in self.along.items()},
            {name: u[..., number : number + 1] for name, u in self.mixed.items()},
            self.points,
            laplacian=None if self._laplacian is None else self._laplacian[..., number : number + 1],
        )

    def power(self, exponent: int) -> Tensor:
        """A power of u; powers are computed once."""
        while len(self._powers) <= exponent:
            self._powers.append(self._powers[-1] * self.value)
        return self._powers[exponent]

    def of(self, coordinate: str, order: int) -> Tensor:
        """The derivative in a coordinate; order 0 is u."""
        if coordinate not in self.along:
            raise UnknownNameError("coordinate", coordinate, self.along, f"There are {', '.join(self.along)}.")
        known = len(self.along[coordinate])
        if order > known:
            raise ConfigError(
                f"a term takes derivative {order} in {coordinate}, but only {known} are computed. "
                f"Say what it needs: Term(text, function, {{'{coordinate}': {order}}})."
            )
        return self.along[coordinate][order - 1] if order else self.value


@dataclass(frozen=True)
class Term:
    """One term of an equation.

    Args:
        text: as printed, such as ``u u_x``.
        function: its value from :class:`Derivatives`.
        orders: coordinate -> the highest derivative in it that the term needs.
        latex: as printed in LaTeX; the text, if left out.

    >>> from evolvent.equations import Term
    >>> Term("u_x^2", lambda u: u.of("x", 1) ** 2, {"x": 1}).text
    'u_x^2'
    """

    text: str
    function: Callable[[Derivatives], Tensor]
    orders: Mapping[str, int] = field(default_factory=dict)
    latex: str = ""

    def __call__(self, derivatives: Derivatives) -> Tensor:
        return self.function(derivatives)


def monomial(power: int, coordinate: str = "", order: int = 0, symbol: str = "u") -> Term:
    r"""The term :math:`u^i \, \partial^j u / \partial d^j`, or the power alone for j = 0.

    >>> monomial(2, "x", 2).text, monomial(2, "x", 2).latex, monomial(0).text
    ('u^2 u_xx', 'u^2 u_{xx}', '1')
    """
    factors = [] if power == 0 else [symbol] if power == 1 else [f"{symbol}^{power}"]
    slope = [f"{symbol}_{coordinate * order}"] if order else []
    latex_slope = [f"{symbol}_{{{coordinate * order}}}"] if order else []

    def value(u: Derivatives) -> Tensor:
        if not order:
            return u.power(power)
        return u.power(power) * u.of(coordinate, order) if power else u.of(coordinate, order)

    orders = {coordinate: order} if order else {}
    return Term(" ".join(factors + slope) or "1", value, orders, " ".join(factors + latex_slope) or "1")


def polynomial_terms(
    coordinates: Sequence[str] = ("x",), powers: int = 3, orders: int = 3, symbol: str = "u"
) -> list[Term]:
    r"""All terms :math:`u^i \, \partial^j u / \partial d^j` with i and j from 0, for each coordinate d.

    Pure powers (j = 0) come first and once. Equation (1) of Kim et al., *PR-Net*, has powers and orders up to 3: 16
    terms for one coordinate, 28 for two.

    Args:
        coordinates: names of the coordinates in space.
        powers: the highest power of u.
        orders: the highest derivative.
        symbol: the name of u in print.

    >>> [term.text for term in polynomial_terms(powers=1, orders=2)]
    ['1', 'u', 'u_x', 'u u_x', 'u_xx', 'u u_xx']
    """
    pure = [monomial(i, symbol=symbol) for i in range(powers + 1)]
    return pure + [
        monomial(i, coordinate, j, symbol)
        for coordinate in coordinates
        for j in range(1, orders + 1)
        for i in range(powers + 1)
    ]
