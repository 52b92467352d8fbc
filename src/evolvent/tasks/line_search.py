"""A step along a direction that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

ENOUGH_DECREASE, ENOUGH_CURVATURE = 1e-4, 0.9


class Place(NamedTuple):
    """A point on the way: how far, the objective there, and its gradient."""

    step: float
    value: float
    gradient: Tensor


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    direction: Tensor,
    value: float,
    slope: float,
    value_before: float | None = None,
) -> Place | None:
    r"""A step length :math:`\alpha` with

    .. math:: f(x + \alpha p) \le f(x) + c_1 \alpha\, p^\top g(x), \qquad
       |p^\top g(x + \alpha p)| \le c_2 |p^\top g(x)|,

    by SciPy's search after Moré and Thuente, and by its other one (Nocedal and Wright) where that fails.

    Args:
        evaluate: objective and gradient at a step length.
        direction: :math:`p`, (n,).
        value, slope: :math:`f(x)` and :math:`p^\top g(x)`.
        value_before: the objective one iteration earlier, for the first trial.

    Returns:
        The place that was found, or None.
    """
    from scipy.optimize._linesearch import LineSearchWarning, scalar_search_wolfe1, scalar_search_wolfe2

    seen: dict[float, Place] = {}

    def place(step: float) -> Place:
        step = float(step)
        if step not in seen:
            seen[step] = Place(step, *evaluate(step))
        return seen[step]

    def phi(step: float) -> float:
        return place(step).value

    def derivative(step: float) -> float:
        return direction.dot(place(step).gradient).item()

    given = (phi, derivative, value, value_before, slope, ENOUGH_DECREASE, ENOUGH_CURVATURE)
    step = scalar_search_wolfe1(*given, amax=50, amin=1e-10)[0]
    if step is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LineSearchWarning)  # the caller goes on without a step
            step = scalar_search_wolfe2(*given, amax=50)[0]
    found = None if step is None else seen.get(float(step))
    return found if found is not None and found.value < value else None
