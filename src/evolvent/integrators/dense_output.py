"""Values between the grid points of a method, to the method's own order."""

from __future__ import annotations

from typing import Any

from evolvent._core.state import State, combine
from evolvent.dynamics import Dynamics
from evolvent.integrators._contract import Integrator


def has_history(method: Integrator[Any]) -> bool:
    """Whether a method carries more than the value from step to step."""
    kind = type(method)
    return kind.start is not Integrator.start or kind.finish is not Integrator.finish


def value_between(
    method: Integrator[Any], f: Dynamics, t: float, u: State, after: State | None, h: float, share: float
) -> State:
    r"""The value at :math:`t + s h` with :math:`0 < s < 1`, from the method's states at :math:`t` and :math:`t + h`.

    A one-step method makes a step of size :math:`s h`. One with history is interpolated by the cubic with its values
    :math:`u_0, u_1` and slopes :math:`F_0, F_1` at both ends (Hermite), whose error is :math:`O(h^4)`:

    .. math:: u_0 + s^2 (3 - 2 s) (u_1 - u_0) + h s (1 - s) \bigl((1 - s) F_0 - s F_1\bigr)

    Args:
        method: how a step is made.
        f: the right-hand side of the step.
        t, u: where the step begins.
        after: the state at its end; only methods with history need it.
        h: the step size.
        share: :math:`s`.
    """
    if not has_history(method):
        return method.step(f, t, u, share * h)
    assert after is not None
    one, two = method.finish(u, h), method.finish(after, h)
    weight = share**2 * (3 - 2 * share)
    bend = h * share * (1 - share)
    slopes = ((1 - share) * bend, f(t, one)), (-share * bend, f(t + h, two))
    return combine(one, (weight, two), (-weight, one), *slopes)
