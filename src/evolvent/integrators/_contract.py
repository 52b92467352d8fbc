"""What a time-stepping method is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

from evolvent._core.state import State, parts
from evolvent.dynamics import Dynamics

F = TypeVar("F", bound=Dynamics)


class Integrator(ABC, Generic[F]):
    r"""A one-step method, or a multistep method that carries its history in the state.

    Claims are class attributes, and one test over all methods measures them.

    Attributes:
        order: the error over a fixed time falls like :math:`h^{order}`.
        reversible: whether a step can be undone exactly (up to rounding) from its result.
        adaptive: whether inner steps depend on the values, which no tracer can follow.
        acts_on: the kind of dynamics the method needs.
        real_stability: the largest :math:`h \lambda` with which the steps of :math:`u' = -\lambda u` stay bounded.
        imaginary_stability: the largest :math:`h \omega` with which those of an oscillation :math:`u'' = -\omega^2 u`
            do, as a system of the kind the method acts on. Both are None where no ``h`` is too large (A-stable and
            adaptive methods), where the method's dynamics hold no such equation, or where nothing is claimed.
    """

    order: ClassVar[int]
    reversible: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    acts_on: ClassVar[type[Dynamics]] = Dynamics
    real_stability: ClassVar[float | None] = None
    imaginary_stability: ClassVar[float | None] = None

    def start(self, f: F, t: float, u: State, h: float) -> State:
        """The method's own state for the value ``u``; multistep methods add their history here."""
        return u

    @abstractmethod
    def step(self, f: F, t: float, u: State, h: float) -> State:
        """The state at ``t + h`` from the state ``u`` at ``t``."""

    def finish(self, u: State, h: float) -> State:
        """The value in a method's state."""
        return u

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Coupling(NamedTuple):
    r"""One invertible update of a part of the state, :math:`u_a \leftarrow s\,u_a + g(u_b)` with :math:`s = \pm 1`.

    What :math:`g` gives is a new tensor, which the step takes over: the updated part is made in its memory.
    """

    target: int  # a
    source: int  # b, another part
    sign: int  # s
    g: Callable[[Tensor], Tensor]

    def update(self, part: Tensor, source: Tensor) -> Tensor:
        """The new value of the target ``part``."""
        change = self.g(source)
        fits = change.dtype == part.dtype and change.shape == part.shape  # not so under autocast
        if not fits or _is_transformed(part):
            return change + self.sign * part
        return change.add_(part, alpha=self.sign)


def _is_transformed(part: Tensor) -> bool:
    """Whether ``torch.func`` follows it, so that it may hold more than the memory of a tensor beside it, as in vmap."""
    return not torch.compiler.is_compiling() and is_functorch_wrapped_tensor(part)


class ReversibleIntegrator(Integrator[F]):
    """A method made of couplings, each of which can be undone, so that training need not store the states.

    After its couplings a step may rename the parts: part ``k`` of the new state is part ``arrangement[k]``.
    """

    reversible = True
    arrangement: ClassVar[tuple[int, ...]] = (0, 1)

    @abstractmethod
    def couplings(self, f: F, t: float, h: float) -> list[Coupling]:
        """The updates that make up the step from ``t`` to ``t + h``, in order."""

    def step(self, f: F, t: float, u: State, h: float) -> State:
        state = list(parts(u))
        for coupling in self.couplings(f, t, h):
            state[coupling.target] = coupling.update(state[coupling.target], state[coupling.source])
        return tuple(state[k] for k in self.arrangement)

    def unstep(self, f: F, t: float, u: State, h: float) -> State:
        """The state at ``t`` from the state ``u`` at ``t + h``: the inverse of :meth:`step`."""
        renamed = dict(zip(self.arrangement, parts(u), strict=True))
        state = [renamed[k] for k in range(len(renamed))]
        for target, source, sign, g in reversed(self.couplings(f, t, h)):
            change = g(state[source])
            state[target] = state[target] - change if sign > 0 else change - state[target]
        return tuple(state)
