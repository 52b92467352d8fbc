"""Quantities that a solution keeps, or that only fall: mass, energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Kind = Literal["conserved", "decaying"]


@dataclass(frozen=True)
class Invariant:
    r"""An integral over space, :math:`I(t) = \int d(u, u_x, \dots)\, dx`, that stays or falls in time.

    Args:
        density: :math:`d`, of :class:`~evolvent.equations.Derivatives` and the problem's coefficients by name, (N, 1).
        kind: ``conserved``, or ``decaying`` for what never grows.

    >>> mass = Invariant(lambda u, **_: u.value)
    >>> mass.kind
    'conserved'
    """

    density: Callable[..., Tensor]
    kind: Kind = "conserved"
