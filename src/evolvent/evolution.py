"""Evolution = dynamics x integrator x gradient: the layer that all networks are made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_choice, check_positive, check_whole, described, explaining_misfits
from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import Dynamics, TimeVarying
from evolvent.gradients import Backprop, GradientStrategy, make_strategy
from evolvent.integrators import Integrator
from evolvent.integrators.dense_output import value_between

_SAME_TIME = 1e-9  # relative distance below which a time is that of a grid point
_OUTSIDE = 4 * torch.finfo(torch.float32).eps  # share of T by which rounding may put a time outside


class Evolution(nn.Module):
    r"""Solves :math:`u' = F(t, u; \theta(t))`, :math:`u(0) = u_0`, up to :math:`T = h \cdot steps`.

    Args:
        dynamics: :math:`F`. One module keeps :math:`\theta` constant in time; a list gives each step its own, so
            :math:`\theta` is piecewise constant; :func:`~evolvent.dynamics.time_varying` dynamics interpolate it
            between knots of their own, up to the same :math:`T`.
        integrator: how a step is made.
        steps: number of steps; for a list it is the list's length and may be left out.
        step_size: :math:`h`.
        gradient: how gradients are computed, a strategy or its text such as ``"checkpoint:4"``;
            :class:`~evolvent.gradients.Backprop` unless given.

    Shape: the state that the dynamics take, in and out. Partitioned dynamics take a pair, or one tensor
    (B, 2C, ...) whose two channel halves are the pair.

    >>> from evolvent.dynamics import Hamiltonian
    >>> from evolvent.integrators import Verlet
    >>> flow = Evolution([Hamiltonian(4) for _ in range(6)], Verlet(), step_size=0.1)
    >>> flow(torch.randn(2, 8, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    >>> len(flow.trajectory(torch.randn(2, 8, 16, 16)))
    7
    """

    def __init__(
        self,
        dynamics: Dynamics | Sequence[Dynamics],
        integrator: Integrator[Any],
        steps: int | None = None,
        step_size: float = 1.0,
        gradient: GradientStrategy | str | None = None,
    ) -> None:
        super().__init__()
        _check_kinds(dynamics, integrator)
        self.dynamics = dynamics if isinstance(dynamics, Dynamics) else nn.ModuleList(dynamics)
        self.integrator = integrator
        self.steps = _count_steps(self.dynamics, steps)
        check_positive(step_size=step_size)
        self.step_size = float(step_size)
        self.gradient = Backprop() if gradient is None else gradient
        _check_fit(self.dynamics, integrator)
        _check_end(self.dynamics, self.steps * self.step_size)

    @property
    def gradient(self) -> GradientStrategy:
        """How gradients are computed; a strategy that cannot serve the method is refused when it is set."""
        return self._gradient

    @gradient.setter
    def gradient(self, strategy: GradientStrategy | str) -> None:
        chosen = strategy if isinstance(strategy, GradientStrategy) else make_strategy(strategy)
        chosen.check_method(self.integrator)
        self._gradient = chosen

    def forward(self, u0: State) -> State:
        if self.steps == 0:
            return u0
        if torch.compiler.is_compiling():
            return self._propagated(u0)
        with explaining_misfits("this evolution", u0):
            return self._propagated(u0)

    def _propagated(self, u0: State) -> State:
        return self._finish(self.gradient.propagate(self, self._start(u0)), u0)

    def step(self, j: int, u: State, stride: int = 1) -> State:
        """Advance the method's state ``u`` over step ``j``, or over ``stride`` steps at once by one long one."""
        f, t, h = self.dynamics_at(j), j * self.step_size, stride * self.step_size
        with f.shared_parameters() if isinstance(f, TimeVarying) else nullcontext():
            return self.integrator.step(f, t, u, h)

    def trajectory(self, u0: State) -> list[State]:
        """The values at all times ``0, h, ..., T``, for analysis; differentiable by backpropagation."""
        values = [u0]
        with explaining_misfits("this evolution", u0):
            u = self._start(u0) if self.steps else u0
            for j in range(self.steps):
                u = self.step(j, u)
                values.append(self._finish(u, u0))
        return values

    def at(self, u0: State, times: Sequence[float] | Tensor) -> list[State]:
        r"""The values at any times between 0 and :math:`T`, to the order of the method; in the order of the times.

        Between two grid points a one-step method makes a shorter step, and a method with history is interpolated by a
        cubic; see :func:`~evolvent.integrators.dense_output.value_between`. Differentiable by backpropagation.

        >>> from evolvent.dynamics import from_module
        >>> from evolvent.integrators import RK4
        >>> decay = Evolution(from_module(lambda u: -u), RK4(), steps=4, step_size=0.5)
        >>> [round(u.item(), 3) for u in decay.at(torch.ones(1), [0.0, 0.7, 2.0])]
        [1.0, 0.497, 0.136]
        """
        wanted = _checked_times(times, self.steps * self.step_size)
        places = {t: _place(t, self.step_size, self.steps) for t in wanted}
        found = {t: u0 for t, (_, share) in places.items() if share == 0}
        with explaining_misfits("this evolution", u0):
            u = self._start(u0) if len(found) < len(places) else u0
            for j in range(max((j for j, _ in places.values()), default=-1) + 1):
                after, mine = self.step(j, u), [(t, share) for t, (k, share) in places.items() if k == j]
                for t, share in mine:
                    found[t] = self._finish(after, u0) if share == 1 else self._between(j, u, after, share, u0)
                u = after
        return [found[t] for t in wanted]

    def _between(self, j: int, u: State, after: State, share: float, u0: State) -> State:
        f = self.dynamics_at(j)
        with f.shared_parameters() if isinstance(f, TimeVarying) else nullcontext():
            value = value_between(self.integrator, f, j * self.step_size, u, after, self.step_size, share)
        return f.leave(value) if isinstance(u0, Tensor) else value

    def dynamics_at(self, j: int) -> Dynamics:
        """The right-hand side of step ``j``."""
        found = self.dynamics[j] if isinstance(self.dynamics, nn.ModuleList) else self.dynamics
        assert isinstance(found, Dynamics)
        return found

    def roughness(self) -> Tensor:
        r"""How fast the weights change in time,
        :math:`h \sum_j \bigl\|\tfrac{\theta_{j+1} - \theta_j}{h}\bigr\|_F^2`.

        Eq. 4.8 of Bohn, Griebel, Kannan 2021 without its factor; the sum is over weights with two or more axes. It is
        zero for dynamics that are constant in time; for time-varying ones :math:`j` counts the knots and :math:`h` is
        the time between them.
        """
        return _roughness(*self._in_time())

    def roughness_to(self, following: Evolution) -> Tensor:
        """What the step from the last weights to the first of the ``following`` evolution adds to :meth:`roughness`."""
        weights, spacing = self._in_time()
        return _roughness([weights[-1], following._in_time()[0][0]], spacing)

    def _in_time(self) -> tuple[list[nn.Module], float]:
        """The dynamics one after the other in time, and the time between them."""
        if isinstance(self.dynamics, TimeVarying):
            return list(self.dynamics.knots), self.dynamics.spacing
        return list(self.dynamics) if isinstance(self.dynamics, nn.ModuleList) else [self.dynamics], self.step_size

    def refine(
        self, interpolation: Literal["constant", "linear"] = "constant", knots: Literal["kept", "doubled"] = "kept"
    ) -> Evolution:
        r"""A new evolution with twice the steps of half the size, for multilevel training (Chang et al. 2017).

        :math:`T` stays, and with it the equation that is solved, so values change by :math:`O(h)` only. Parameters and
        buffers are copied; integrator and gradient strategy are shared. Dynamics that are constant in time stay as
        they are.

        Args:
            interpolation: of a list. ``"constant"`` gives both halves of a step its parameters, so
                :math:`\theta(t)` is the same function. ``"linear"`` takes parameters as values at the middle of steps
                and interpolates between them,
                :math:`\theta_{2j} = \tfrac34 \theta_j + \tfrac14 \theta_{j-1}` and
                :math:`\theta_{2j+1} = \tfrac34 \theta_j + \tfrac14 \theta_{j+1}`, constant at both ends; buffers
                are those of step :math:`j`.
            knots: of time-varying dynamics. ``"doubled"`` adds one in the middle of every interval, which leaves
                :math:`\theta(t)` the same function, too.

        >>> from evolvent.dynamics import Residual
        >>> from evolvent.integrators import Euler
        >>> Evolution([Residual(4), Residual(4)], Euler(), step_size=0.5).refine().steps
        4
        """
        check_choice("interpolation", interpolation, ("constant", "linear"))
        check_choice("knots", knots, ("kept", "doubled"))
        if isinstance(self.integrator, nn.Module) and any(True for _ in self.integrator.parameters()):
            raise ConfigError(f"{self.integrator} learns parameters of its own steps, which cannot be refined.")
        finer, steps = _refined(self.dynamics, interpolation, knots), 2 * self.steps
        return Evolution(finer, self.integrator, steps, self.step_size / 2, self.gradient).train(self.training)

    def _start(self, u0: State) -> State:
        f = self.dynamics_at(0)
        return self.integrator.start(f, 0.0, f.enter(u0) if isinstance(u0, Tensor) else u0, self.step_size)

    def _finish(self, u: State, u0: State) -> State:
        value = self.integrator.finish(u, self.step_size)
        return self.dynamics_at(-1).leave(value) if isinstance(u0, Tensor) else value

    def extra_repr(self) -> str:
        return f"{self.integrator}, steps={self.steps}, step_size={self.step_size:g}, gradient={self.gradient}"


def evolutions(module: nn.Module) -> Iterator[tuple[str, Evolution]]:
    """All evolutions inside a module, with their names, in order."""
    if not isinstance(module, nn.Module):
        raise ConfigError(f"a network is expected, such as ev.create_model gives, got {described(module)}.")
    return ((name, m) for name, m in module.named_modules() if isinstance(m, Evolution))


def set_gradient(module: nn.Module, strategy: str | GradientStrategy) -> None:
    """Let every evolution inside ``module`` compute its gradients by ``strategy``, a strategy or its text.

    From a text each evolution gets a strategy of its own, with its own records, such as residuals of parallel solves.

    Raises:
        ConfigError: if the strategy cannot serve the method of one of them; then none is changed.
    """
    found = [evolution for _, evolution in evolutions(module)]
    shared = strategy if isinstance(strategy, GradientStrategy) else None
    chosen = [shared or make_strategy(cast(str, strategy)) for _ in found]
    for evolution, own in zip(found, chosen, strict=True):
        own.check_method(evolution.integrator)
    for evolution, own in zip(found, chosen, strict=True):
        evolution.gradient = own


def refine_evolutions(
    module: nn.Module,
    interpolation: Literal["constant", "linear"] = "constant",
    knots: Literal["kept", "doubled"] = "kept",
) -> nn.Module:
    """A copy of ``module`` whose evolutions are all refined; see :meth:`Evolution.refine`.

    A registered network's ``spec`` does not follow; use :func:`evolvent.networks.refine` for networks.
    """
    twin = copy.deepcopy(module)
    if isinstance(twin, Evolution):
        return twin.refine(interpolation, knots)
    for name, evolution in list(evolutions(twin)):
        parent, _, child = name.rpartition(".")
        setattr(twin.get_submodule(parent), child, evolution.refine(interpolation, knots))
    return twin


def _roughness(dynamics: Sequence[nn.Module], spacing: float) -> Tensor:
    in_time = zip(*([p for p in f.parameters() if p.ndim >= 2] for f in dynamics), strict=True)
    changes = [torch.stack(p).diff(dim=0).square().sum() for p in in_time]
    return torch.stack(changes).sum() / spacing if changes else torch.zeros(())


def _refined(
    dynamics: nn.Module, interpolation: Literal["constant", "linear"], knots: Literal["kept", "doubled"]
) -> Dynamics | list[Dynamics]:
    if isinstance(dynamics, nn.ModuleList):
        coarse = list(dynamics)
        finer = [copy.deepcopy(f) for f in coarse for _ in range(2)]
        for j, f in enumerate(finer if interpolation == "linear" else []):
            beside = min(max(j // 2 + (1 if j % 2 else -1), 0), len(coarse) - 1)
            with torch.no_grad():
                for p, q in zip(f.parameters(), coarse[beside].parameters(), strict=True):
                    p.lerp_(q, 0.25)
        return finer  # pyright: ignore[reportReturnType]
    if isinstance(dynamics, TimeVarying) and knots == "doubled":
        return dynamics.refine()
    return copy.deepcopy(dynamics)  # pyright: ignore[reportReturnType]


def _count_steps(dynamics: nn.Module, steps: int | None) -> int:
    if isinstance(dynamics, nn.ModuleList):
        if steps not in (None, len(dynamics)):
            raise ConfigError(f"a list of {len(dynamics)} dynamics makes {len(dynamics)} steps, but steps={steps}.")
        return len(dynamics)
    check_whole(0, steps=steps)
    return steps or 0


def _checked_times(times: Sequence[float] | Tensor, end: float) -> list[float]:
    try:
        wanted = [float(t) for t in times]
    except (TypeError, ValueError):
        raise ConfigError(f"times must be a list of numbers such as [0.5], got {described(times)}.") from None
    for t in wanted:
        if not -_OUTSIDE * end <= t <= (1 + _OUTSIDE) * end:
            raise ConfigError(f"times must lie between 0 and T = steps * step_size = {end:g}, got {t:.9g}.")
    return [min(max(t, 0.0), end) for t in wanted]


def _place(t: float, h: float, steps: int) -> tuple[int, float]:
    """The step in which a time lies, and the share of it that has passed: above 0, at most 1; of the start (-1, 0)."""
    if abs(t / h - round(t / h)) <= _SAME_TIME * steps:
        return round(t / h) - 1, min(round(t / h), 1)
    return int(t / h), t / h - int(t / h)


def _check_end(dynamics: nn.Module, end: float) -> None:
    if isinstance(dynamics, TimeVarying) and end and not math.isclose(dynamics.end_time, end, rel_tol=1e-6):
        raise ConfigError(
            f"the time-varying dynamics have knots up to T = {dynamics.end_time:g}, but steps * step_size = {end:g}. "
            "Make both the same."
        )


def _check_kinds(dynamics: Any, integrator: Any) -> None:
    if not isinstance(integrator, Integrator):
        raise ConfigError(
            f"an evolution needs a method such as Euler() or Verlet(), with brackets, got {integrator!r}."
        )
    members = [dynamics] if isinstance(dynamics, Dynamics) or not isinstance(dynamics, Iterable) else dynamics
    for f in members:
        if not isinstance(f, Dynamics):
            raise ConfigError(
                f"an evolution needs dynamics, one or a list of them, got {type(f).__name__}. Wrap it by "
                "evolvent.dynamics.from_module, or derive its class from evolvent.dynamics.Dynamics."
            )


def _check_fit(dynamics: nn.Module, integrator: Integrator[Any]) -> None:
    for f in dynamics if isinstance(dynamics, nn.ModuleList) else [dynamics]:
        if not isinstance(f, integrator.acts_on):
            raise ConfigError(
                f"{integrator} acts on {integrator.acts_on.__name__}, but {type(f).__name__} does not belong to them. "
                "`evolvent.integrators` has methods for every kind of dynamics, and Euler() takes all."
            )
