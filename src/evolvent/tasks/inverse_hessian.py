"""A dense approximation of an inverse Hessian, updated by self-scaled formulas of Broyden's family."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

Formula: TypeAlias = Literal["bfgs", "ssbfgs", "ssbroyden"]
_PENDING = 16  # updates that are kept beside the matrix before they are worked into it
_LEAST_SCALE = 1e-3  # of tau, lest one update blow the matrix up


class Scaling(NamedTuple):
    r"""The two free numbers of an update: :math:`\tau` scales the old matrix, :math:`\varphi` chooses the formula."""

    tau: float
    phi: float


def scaling(formula: Formula, b: float, h: float, size: int) -> Scaling:
    r"""The numbers of a self-scaled update (Al-Baali; Urban et al. 2025).

    Args:
        formula: ``bfgs`` scales nothing; ``ssbfgs`` has :math:`\varphi = 1`; ``ssbroyden`` chooses both.
        b: :math:`s^\top H^{-1} s / y^\top s`.
        h: :math:`y^\top H y / y^\top s`.
        size: number of parameters.

    >>> scaling("bfgs", 2.0, 3.0, 10), scaling("ssbfgs", 2.0, 3.0, 10)
    (Scaling(tau=1.0, phi=1.0), Scaling(tau=0.5, phi=1.0))
    """
    a = h * b - 1
    if formula == "bfgs":
        return Scaling(1.0, 1.0)
    if formula == "ssbfgs" or not a > 0:  # a = 0 where s and Hy are parallel, and all formulas agree
        return Scaling(max(min(1.0, 1 / b), _LEAST_SCALE), 1.0)
    c = math.sqrt(a / (a + 1))
    rho = min(1.0, h * (1 - c))
    theta = max((rho - 1) / a, min(1 / rho, (1 - b) / b))
    sigma = 1 + theta * a
    shrunk = sigma ** (-1 / (size - 1)) if size > 1 else 1 / sigma
    first = min(1.0, 1 / b)
    tau = first * min(shrunk, 1 / theta) if theta > 0 else min(first * shrunk, sigma)
    return Scaling(max(tau, _LEAST_SCALE), (1 - theta) / (1 + a * theta))


class InverseHessian:
    r"""The symmetric matrix :math:`H`, which starts as a multiple of the identity.

    An update changes it in the span of :math:`s` and :math:`Hy` alone. Updates wait beside the matrix and are worked
    into it several at a time, since going through the whole matrix costs more than anything else here.

    Args:
        matrix: (n, n), owned by this object.
        formula: of the update.
    """

    def __init__(self, matrix: Tensor, formula: Formula) -> None:
        self.matrix = matrix
        self.formula: Formula = formula
        self._factor = 1.0  # of the matrix
        self._rows = matrix.new_zeros(2 * _PENDING, len(matrix))  # s and Hy of each update that waits
        self._weights = matrix.new_zeros(2 * _PENDING, 2 * _PENDING)
        self._waiting = 0

    @classmethod
    def identity(cls, size: int, like: Tensor, formula: Formula) -> InverseHessian:
        return cls(torch.eye(size, dtype=like.dtype, device=like.device), formula)

    def times(self, vector: Tensor) -> Tensor:
        """:math:`H` times a vector, (n,)."""
        product = torch.mv(self.matrix, vector)
        if self._waiting == 0:
            return product
        used = 2 * self._waiting
        rows, weights = self._rows[:used], self._weights[:used, :used]
        return torch.addmv(product, rows.T, weights @ (rows @ vector), beta=self._factor)

    def scale(self, factor: float) -> None:
        """Multiply a matrix to which nothing waits to be added."""
        self.matrix.mul_(factor)

    def update(self, s: Tensor, hy: Tensor, ys: float, yhy: float, sbs: float, image: Tensor, vector: Tensor) -> Tensor:
        r"""Learn that a step :math:`s` changed the gradient by :math:`y`,

        .. math:: H^+ = \frac 1\tau \Bigl(H - \frac{Hy\,(Hy)^\top}{y^\top H y} + \varphi v v^\top\Bigr)
           + \frac{s s^\top}{y^\top s}, \qquad
           v = \sqrt{y^\top H y} \Bigl(\frac{s}{y^\top s} - \frac{Hy}{y^\top H y}\Bigr).

        Args:
            s, hy: :math:`s` and :math:`Hy`.
            ys, yhy, sbs: :math:`y^\top s`, :math:`y^\top H y` and :math:`s^\top H^{-1} s`.
            image, vector: :math:`Hg` and a vector :math:`g`.

        Returns:
            :math:`H^+ g`, without another pass through the matrix.
        """
        tau, phi = scaling(self.formula, sbs / ys, yhy / ys, len(s))
        both = phi * yhy / ys**2 / tau + 1 / ys
        mixed, other = -phi / (ys * tau), (phi - 1) / (yhy * tau)
        self._factor /= tau
        at = 2 * self._waiting
        self._weights[:at, :at] /= tau
        self._weights[at : at + 2, at : at + 2] = self._weights.new_tensor([[both, mixed], [mixed, other]])
        self._rows[at], self._rows[at + 1] = s, hy
        self._waiting += 1
        sg, hyg = torch.dot(s, vector).item(), torch.dot(hy, vector).item()
        answer = image / tau + (both * sg + mixed * hyg) * s + (mixed * sg + other * hyg) * hy
        if self._waiting == _PENDING:
            self.settle()
        return answer

    def settle(self) -> Tensor:
        """Work the waiting updates into the matrix, and return it."""
        used = 2 * self._waiting
        if used:
            rows = self._rows[:used]
            self.matrix.addmm_(rows.T, self._weights[:used, :used] @ rows, beta=self._factor)
            self._factor, self._waiting = 1.0, 0
            self._weights.zero_()
        return self.matrix
