"""Any module or function as a right-hand side."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, ShapeError
from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics


class ModuleDynamics(Dynamics):
    r"""The right-hand side :math:`F(t, u) = f(u)` or :math:`f(t, u)` that a module or function computes.

    Args:
        f: what is computed; the parameters of a module are trained.
        takes_time: whether it is called with the time first.

    Shape: whatever ``f`` maps to the same shape.
    """

    def __init__(self, f: Callable[..., State], takes_time: bool) -> None:
        super().__init__()
        self.f = f  # registered if it is a module
        self.takes_time = takes_time

    def forward(self, t: float, u: State) -> State:
        du = self.f(t, u) if self.takes_time else self.f(u)
        if _shapes(du) != _shapes(u):
            raise ShapeError(
                f"a right-hand side must give a state like its own, {_form(u)}, got {_form(du)}. Let {_name(self.f)} "
                "return the derivative of each number in u."
            )
        return du

    def extra_repr(self) -> str:
        return "f(t, u)" if self.takes_time else "f(u)"


def _shapes(u: Any) -> Any:
    """The shape of a tensor, or those of a tuple of tensors; of anything else its type, which no state has."""
    if isinstance(u, tuple):
        return tuple(map(_shapes, u))
    return u.shape if isinstance(u, Tensor) else type(u)


def _form(u: Any) -> str:
    return f"({', '.join(map(_form, u))})" if isinstance(u, tuple) else described(u)


def _name(f: Callable[..., Any]) -> str:
    return type(f).__name__ if isinstance(f, nn.Module) else getattr(f, "__name__", "it")


def from_module(f: Callable[..., Any], takes_time: bool | None = None) -> ModuleDynamics:
    """A plain ``nn.Module`` or function as dynamics, for :class:`~evolvent.Evolution`.

    Args:
        f: a module or function of the state, or of time and state.
        takes_time: whether it is called as ``f(t, u)``; by default if it has two arguments without defaults.

    Raises:
        ConfigError: if it cannot be called so.

    >>> import torch
    >>> import evolvent as ev
    >>> from evolvent.integrators import RK4
    >>> turn = from_module(lambda u: torch.stack((-u[:, 1], u[:, 0]), dim=1))
    >>> quarter = ev.Evolution(turn, RK4(), steps=20, step_size=torch.pi / 40)
    >>> quarter(torch.tensor([[1.0, 0.0]])).round(decimals=3).abs()
    tensor([[0., 1.]])
    """
    if isinstance(f, type) or not callable(f):
        raise ConfigError(f"from_module takes a module or function, got {type(f).__name__}. Make an object of a class.")
    if takes_time is None:
        takes_time = _takes_time(f)
    return ModuleDynamics(f, takes_time)


def _takes_time(f: Callable[..., Any]) -> bool:
    called = f.forward if isinstance(f, nn.Module) else f
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # functions of PyTorch itself have no signature
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in places if p.default is p.empty]
    if len(needed) > 2:
        names = ", ".join(p.name for p in needed)
        raise ConfigError(f"a right-hand side is f(u) or f(t, u), got one that needs {names}.")
    return len(needed) == 2
