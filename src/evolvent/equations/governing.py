"""Governing equations: a sum of terms whose coefficients are learned, and that can be read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.equations.derivatives import coordinate_jets
from evolvent.equations.terms import Derivatives, Term, polynomial_terms


class Sparsity(NamedTuple):
    """Which terms of an equation survive a threshold."""

    kept: int  # terms at or above the threshold
    total: int
    largest: float  # of the absolute coefficients
    dropped: tuple[str, ...]  # terms below the threshold

    def __str__(self) -> str:
        return f"{self.kept} of {self.total} terms, largest coefficient {self.largest:.3g}"


class GoverningEquation(nn.Module):
    r"""An evolution equation with learned coefficients,

    .. math:: u_t = \sum_k \alpha_k \, T_k(u, u_x, u_{xx}, \dots),

    and its residual :math:`g = u_t - \sum_k \alpha_k T_k` (Kim et al., *PR-Net*, eq. 1).

    Args:
        terms: :math:`T_k`; those of :func:`polynomial_terms` for one coordinate ``x`` unless given.
        coefficients: term as printed -> first value of its :math:`\alpha_k`; the others are 0.
        time: the name of the time coordinate.
        symbol: the name of u in print.

    >>> from evolvent.equations import GoverningEquation
    >>> allen_cahn = GoverningEquation(coefficients={"u_xx": 1e-4, "u^3": -5, "u": 5})
    >>> print(allen_cahn)
    u_t = 5 u - 5 u^3 + 0.0001 u_xx
    >>> print(allen_cahn.sparsity())
    3 of 16 terms, largest coefficient 5
    """

    def __init__(
        self,
        terms: Sequence[Term] | None = None,
        coefficients: Mapping[str, float] | None = None,
        time: str = "t",
        symbol: str = "u",
    ) -> None:
        super().__init__()
        self.terms = list(polynomial_terms(symbol=symbol) if terms is None else terms)
        self.time, self.symbol = time, symbol
        names = [term.text for term in self.terms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(f"term {twice[0]!r} occurs twice. Every term needs a text of its own.")
        self.alpha = nn.Parameter(torch.zeros(len(names)))
        with torch.no_grad():
            for name, number in (coefficients or {}).items():
                if name not in names:
                    raise UnknownNameError("term", name, names)
                if not math.isfinite(number):
                    raise ConfigError(f"the coefficient of {name!r} must be a finite number, got {number}.")
                self.alpha[names.index(name)] = number

    def orders(self) -> dict[str, int]:
        """Coordinate -> the highest derivative in it that the equation needs."""
        found = {self.time: 1}
        for term in self.terms:
            for coordinate, order in term.orders.items():
                found[coordinate] = max(order, found.get(coordinate, 0))
        return found

    def derivatives(self, f: Callable[..., Tensor], points: Mapping[str, Tensor]) -> Derivatives:
        """Everything that the terms need of ``f``, in one pass.

        Args:
            f: takes the coordinates in the order of ``points``, and returns u.
            points: coordinate -> tensor; all of the shape that ``f`` takes.
        """
        orders = self.orders()
        for coordinate in orders:
            if coordinate not in points:
                raise UnknownNameError("coordinate", coordinate, points, f"Points have {', '.join(points)}.")
        value, along = coordinate_jets(f, list(points.values()), [orders.get(name, 0) for name in points])
        return Derivatives(value, dict(zip(points, along, strict=True)))

    def right_hand_side(self, u: Derivatives, fixed: bool = False) -> Tensor:
        r""":math:`\sum_k \alpha_k T_k`, of the shape of u.

        Args:
            u: u and its derivatives.
            fixed: take the coefficients for constants; terms whose coefficient is 0 cost nothing then.
        """
        total = torch.zeros_like(u.value)
        numbers = self.alpha.tolist() if fixed else self.alpha.to(u.value.dtype).unbind()
        for alpha, term in zip(numbers, self.terms, strict=True):
            if isinstance(alpha, Tensor) or alpha != 0:
                total = total + alpha * term(u)
        return total

    def residual_of(self, u: Derivatives, fixed: bool = False) -> Tensor:
        r""":math:`g = u_t - \sum_k \alpha_k T_k` from derivatives that are known; see :meth:`right_hand_side`."""
        return u.of(self.time, 1) - self.right_hand_side(u, fixed)

    def forward(self, f: Callable[..., Tensor], points: Mapping[str, Tensor]) -> Tensor:
        """The residual of ``f`` at points; see :meth:`derivatives`."""
        return self.residual_of(self.derivatives(f, points))

    residual = forward

    def l1(self) -> Tensor:
        r""":math:`\sum_k |\alpha_k|`, which drives coefficients to 0 if it is added to a loss."""
        return self.alpha.abs().sum()

    def text(self, threshold: float = 0.0, digits: int = 4) -> str:
        """The equation in one line.

        Args:
            threshold: terms with smaller coefficients are left out, and so are zeros.
            digits: significant digits of coefficients.
        """
        pairs = [(number, term.text) for number, term in self._kept(threshold)]
        return f"{self.symbol}_{self.time} = {_signed_sum(pairs, lambda number: f'{number:.{digits}g}')}"

    def latex(self, threshold: float = 0.0, digits: int = 4) -> str:
        r"""The same for LaTeX.

        >>> from evolvent.equations import GoverningEquation
        >>> print(GoverningEquation(coefficients={"u u_x": -1, "u_xx": 1e-6}).latex())
        u_{t} = -u u_{x} + 1 \times 10^{-6} \, u_{xx}
        """
        pairs = [(number, _latex_of(term)) for number, term in self._kept(threshold)]
        shown = _signed_sum(pairs, lambda number: _latex_number(number, digits), r" \, ")
        return f"{self.symbol}_{{{self.time}}} = {shown}"

    def _kept(self, threshold: float) -> list[tuple[float, Term]]:
        pairs = zip(self.alpha.tolist(), self.terms, strict=True)
        return [(number, term) for number, term in pairs if number != 0 and abs(number) >= threshold]

    def sparsity(self, threshold: float = 0.0) -> Sparsity:
        """How many terms survive, the largest coefficient, and what is dropped."""
        kept = {term.text for _, term in self._kept(threshold)}
        dropped = tuple(term.text for term in self.terms if term.text not in kept)
        largest = self.alpha.detach().abs().max().item() if len(self.terms) else 0.0
        return Sparsity(len(kept), len(self.terms), largest, dropped)

    def __str__(self) -> str:
        return self.text()


def _signed_sum(pairs: Sequence[tuple[float, str]], shown: Callable[[float], str], gap: str = " ") -> str:
    """``5 u - u^3``: signs between terms, no coefficient 1."""
    line = ""
    for number, name in pairs:
        size = shown(abs(number))
        factor = size if name == "1" else name if size == "1" else f"{size}{gap}{name}"
        sign = "-" if number < 0 else "+"
        line += f" {sign} {factor}" if line else f"{'-' if number < 0 else ''}{factor}"
    return line or "0"


def _latex_of(term: Term) -> str:
    return term.latex or term.text


def _latex_number(number: float, digits: int) -> str:
    mantissa, _, exponent = f"{number:.{digits}g}".partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}" if exponent else mantissa
