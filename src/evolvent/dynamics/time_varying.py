"""Dynamics whose parameters change in time, on a grid of their own."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from evolvent._core.checks import check_positive, check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics

_ON_A_KNOT = 1e-9  # rounding of t must not move a time over a knot


class TimeVarying(Dynamics):
    r"""A right-hand side :math:`F(t, u; \theta(t))` with :math:`\theta` piecewise linear between knots.

    .. math:: \theta(t) = \sum_k \theta_k \, \Lambda_k(t), \qquad
              \Lambda_k \text{ the hat function of } t_k = k T / (K - 1)

    So the number of parameters does not depend on the number of steps, and the gradient of a step reaches the two
    knots beside it with the weights :math:`1 - w` and :math:`w` (B-splines of degree one in Günther, Pazner, Qi 2021).
    Before 0 and after :math:`T` the parameters stay those of the first and last knot.

    Make one with :func:`time_varying`, which keeps the structure of the dynamics it is given. The state_dict holds the
    parameters of the knots.

    Buffers, such as running statistics, are not interpolated: between two knots those of the left one are read and
    updated. The buffers of the last knot are not used; with :math:`K - 1` steps or more, all others are.
    """

    def __init__(self, knots: Sequence[Dynamics], end_time: float) -> None:
        super().__init__()
        _check_alike(knots)
        check_positive(end_time=end_time)
        self.knots = nn.ModuleList(knots)
        self.end_time = float(end_time)
        self._shared: dict[tuple[float, bool], dict[str, Tensor]] | None = None

    @property
    def spacing(self) -> float:
        """Time between knots."""
        return self.end_time / (len(self.knots) - 1)

    def place(self, t: float) -> tuple[int, float]:
        r"""Knot :math:`k` to the left of ``t`` and the weight :math:`w` of the next: :math:`\theta = (1 - w) \theta_k +
        w \theta_{k+1}`."""
        x = min(max(float(t) / self.spacing, 0.0), len(self.knots) - 1.0)
        x = float(round(x)) if abs(x - round(x)) < _ON_A_KNOT * len(self.knots) else x
        left = min(math.floor(x), len(self.knots) - 2)
        return left, x - left

    def knot(self, k: int) -> Dynamics:
        """The dynamics at a knot."""
        found = self.knots[k]
        assert isinstance(found, Dynamics)
        return found

    def snapshot(self, t: float) -> Dynamics:
        """A copy of the dynamics at time ``t``, with parameters of its own; for analysis."""
        left, _ = self.place(t)
        frozen = copy.deepcopy(self.knot(left))
        with torch.no_grad():
            found = self._parameters_at(t)
            for name, p in frozen.named_parameters():
                p.copy_(found[f"dynamics.{name}"])
        return frozen

    def refine(self) -> TimeVarying:
        r"""The same :math:`\theta(t)` with a knot added in the middle of every interval: :math:`2K - 1` knots."""
        last = len(self.knots) - 1
        finer = [self.snapshot(0.5 * k * self.spacing) for k in range(2 * last)]
        return type(self)([*finer, copy.deepcopy(self.knot(last))], self.end_time).train(self.training)

    @contextmanager
    def shared_parameters(self) -> Iterator[None]:
        """Inside, the parameters of a time are interpolated once, however often the right-hand side is evaluated."""
        before, self._shared = self._shared, {}
        try:
            yield
        finally:
            self._shared = before

    @abstractmethod
    def forward(self, t: float, u: State) -> State: ...

    def enter(self, features: Tensor) -> State:
        return self.knot(0).enter(features)

    def leave(self, u: State) -> Tensor:
        return self.knot(-1).leave(u)

    def extra_repr(self) -> str:
        return f"end_time={self.end_time:g}"

    def _call(self, method: str, t: float, *arguments: Any) -> Any:
        """A method of the dynamics at time ``t``."""
        left, _ = self.place(t)
        return functional_call(_Callable(self.knot(left)), self._parameters_at(t), (method, *arguments))

    def _parameters_at(self, t: float) -> dict[str, Tensor]:
        if self._shared is None:
            return self._interpolate(t)
        key = float(t), torch.is_grad_enabled()
        if key not in self._shared:
            self._shared[key] = self._interpolate(t)
        return self._shared[key]

    def _interpolate(self, t: float) -> dict[str, Tensor]:
        left, weight = self.place(t)
        before, after = (self.knots[k].named_parameters("dynamics") for k in (left, left + 1))
        return {name: torch.lerp(p, q, weight) for (name, p), (_, q) in zip(before, after, strict=True)}


class _Callable(nn.Module):
    """Dynamics as a module whose call is a call of any method, which is what ``functional_call`` needs."""

    def __init__(self, dynamics: Dynamics) -> None:
        super().__init__()
        self.dynamics = dynamics

    def forward(self, method: str, *arguments: Any) -> Any:
        return getattr(self.dynamics, method)(*arguments)


class TimeVaryingDynamics(TimeVarying):
    """Time-varying dynamics without further structure."""

    def forward(self, t: float, u: State) -> State:
        return self._call("forward", t, t, u)


class TimeVaryingPartitioned(TimeVarying, PartitionedDynamics):
    """Time-varying dynamics in two parts, for the Verlet methods."""

    def dy(self, t: float, z: Tensor) -> Tensor:
        return self._call("dy", t, t, z)

    def dz(self, t: float, y: Tensor) -> Tensor:
        return self._call("dz", t, t, y)

    def forward(self, t: float, u: State) -> State:
        return PartitionedDynamics.forward(self, t, u)


class TimeVaryingSecondOrder(TimeVarying, SecondOrderDynamics):
    """Time-varying dynamics of second order, for leapfrog."""

    def acceleration(self, t: float, u: Tensor) -> Tensor:
        return self._call("acceleration", t, t, u)

    def forward(self, t: float, u: State) -> State:
        return SecondOrderDynamics.forward(self, t, u)


class TimeVaryingSplit(TimeVarying, SplitDynamics):
    """Time-varying dynamics of a mild and a stiff part, for implicit-explicit methods."""

    def explicit(self, t: float, u: Tensor) -> Tensor:
        return self._call("explicit", t, t, u)

    def stiff(self, t: float, u: Tensor) -> Tensor:
        return self._call("stiff", t, t, u)

    def solve(self, t: float, u: Tensor, h: float) -> Tensor:
        return self._call("solve", t, t, u, h)

    def forward(self, t: float, u: State) -> State:
        return SplitDynamics.forward(self, t, u)


_BY_STRUCTURE: dict[type[Dynamics], type[TimeVarying]] = {
    PartitionedDynamics: TimeVaryingPartitioned,
    SecondOrderDynamics: TimeVaryingSecondOrder,
    SplitDynamics: TimeVaryingSplit,
}


def time_varying(dynamics: Dynamics | Sequence[Dynamics], knots: int | None = None, *, end_time: float) -> TimeVarying:
    r"""Let the parameters of dynamics change in time, piecewise linearly between equidistant knots.

    Args:
        dynamics: one module, which every knot gets a copy of, so that :math:`\theta` is constant at first; or a list
            with the module of each knot.
        knots: number of knots :math:`K \ge 2`; for a list it is the list's length and may be left out.
        end_time: :math:`T`, where the last knot lies; the evolution must end there.

    Returns:
        dynamics of the same structure: partitioned, second order, split or none of these.

    >>> from evolvent.dynamics import Hamiltonian
    >>> f = time_varying(Hamiltonian(2), knots=3, end_time=1.0)
    >>> isinstance(f, PartitionedDynamics), f.place(0.75)
    (True, (1, 0.5))
    """
    if isinstance(dynamics, Dynamics):
        check_whole(2, knots=knots)
        dynamics = [copy.deepcopy(dynamics) for _ in range(knots or 0)]
    elif knots not in (None, len(dynamics)):
        raise ConfigError(f"a list of {len(dynamics)} dynamics makes {len(dynamics)} knots, but knots={knots}.")
    _check_alike(dynamics)
    fitting = (kind for structure, kind in _BY_STRUCTURE.items() if isinstance(dynamics[0], structure))
    return next(fitting, TimeVaryingDynamics)(dynamics, end_time)


def _check_alike(knots: Sequence[Dynamics]) -> None:
    if len(knots) < 2:
        raise ConfigError(f"parameters that vary in time need at least 2 knots, got {len(knots)}.")
    first = {name: p.shape for name, p in knots[0].named_parameters()}
    for k, other in enumerate(knots):
        if type(other) is not type(knots[0]) or {name: p.shape for name, p in other.named_parameters()} != first:
            raise ConfigError(
                f"knots must be dynamics of one kind with the same parameters, but knot {k} ({type(other).__name__}) "
                f"differs from knot 0 ({type(knots[0]).__name__})."
            )
