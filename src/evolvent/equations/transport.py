"""Transport along the gradient of a potential: points, densities and costs, forward and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_column, check_whole
from evolvent._core.errors import ConfigError, ShapeError
from evolvent._core.state import State, like, parts
from evolvent.dynamics import Dynamics
from evolvent.equations.derivatives import jet
from evolvent.equations.mean_field import RunningCost
from evolvent.evolution import Evolution
from evolvent.integrators import RK4, Integrator

LogDensity = Callable[[Tensor], Tensor]
"""From points (N, d) to logarithms of a density, (N, 1)."""


@runtime_checkable
class VelocityField(Protocol):
    """What gives points (N, d + 1), time last, a velocity (N, d), such as the network ``velocity``."""

    def velocity(self, s: Tensor) -> Tensor: ...


@runtime_checkable
class Potential(VelocityField, Protocol):
    """A field that is a gradient, with the Laplacian of its potential in space, such as the network ``otflow``."""

    def gradient_and_laplacian(self, s: Tensor) -> tuple[Tensor, Tensor]: ...


class Transported(NamedTuple):
    """Where points are at the end, and what was accumulated on the way; columns are (N, 1).

    ``running`` and ``residual`` are NaN if a running cost needs the density of the points and none was given.
    """

    points: Tensor  # (N, d)
    log_determinant: Tensor
    cost: Tensor
    running: Tensor
    residual: Tensor  # 0 if the field is not known to have a potential


class Drift(Dynamics):
    r"""Points that follow a velocity, :math:`x' = v(x, t)`, alone. Shape: (N, d) to the same."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return cast(VelocityField, self.network).velocity(at_time(u, t))


class Characteristics(Dynamics):
    r"""Points on the way down a potential, with the change of their density and their costs.

    .. math:: x' = -\nabla_x \Phi, \quad \ell' = -\Delta_x \Phi, \quad c' = \tfrac 12 |\nabla_x \Phi|^2, \quad
              q' = f(x, \varrho), \quad r' = |\partial_t \Phi - \tfrac 12 |\nabla_x \Phi|^2 + \delta f(x, \varrho)|

    The density of the points is :math:`\varrho(x(t), t) = \varrho_0(x(0))\, e^{-\ell(t)}` if :math:`\ell(0) = 0`; with
    running costs that depend on it, :math:`\ell(0) = -\ln \varrho_0(x(0))`, so that :math:`\ln \varrho = -\ell`.

    A velocity that is not a gradient, :math:`x' = v`, has the divergence :math:`\ell' = \nabla \cdot v`, which takes d
    derivatives, and no residual.

    Args:
        network: :math:`\Phi`, or v.
        running: costs whose sum is :math:`f`, and the sum of their variations :math:`\delta f`.

    Shape: (N, d + 4) to the same: coordinates, :math:`\ell, c, q, r`.
    """

    def __init__(self, network: nn.Module, running: Sequence[RunningCost] = ()) -> None:
        super().__init__()
        if not isinstance(network, VelocityField):
            raise ConfigError(
                f"a flow needs a network with velocity(s), such as otflow or velocity, got {type(network).__name__}."
            )
        self.network, self.running = network, tuple(running)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        x, log_density = u[:, :-4], -u[:, -4:-3]
        velocity, divergence, slope = self._along(at_time(x, t))
        cost = velocity.square().sum(1, keepdim=True) / 2
        running = variation = torch.zeros_like(cost)
        for term in self.running:
            name = type(term).__name__
            running = running + check_column(term(x, log_density), len(x), f"the running cost {name}")
            variation = variation + check_column(term.variation(x, log_density), len(x), f"the variation of {name}")
        residual = torch.zeros_like(cost) if slope is None else (slope - cost + variation).abs()
        return torch.cat([velocity, divergence, cost, running, residual], 1)

    def _along(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Velocity, divergence, and the slope of the potential in time, if there is one."""
        if isinstance(self.network, Potential):
            gradient, laplacian = self.network.gradient_and_laplacian(s)
            return -gradient[:, :-1], -laplacian, gradient[:, -1:]
        field = cast(VelocityField, self.network).velocity
        axes = torch.eye(s.shape[1], dtype=s.dtype, device=s.device)[:-1]
        slopes = [jet(field, s, axis, 1)[1][:, k] for k, axis in enumerate(axes)]
        return field(s), torch.stack(slopes).sum(0)[:, None], None


class Backward(Dynamics):
    """The same equation run from an end time to 0: :math:`u'(t) = -F(T - t, u)`."""

    def __init__(self, dynamics: Dynamics, until: float = 1.0) -> None:
        super().__init__()
        self.dynamics, self.until = dynamics, until

    def forward(self, t: float, u: State) -> State:
        return like(u, [-part for part in parts(self.dynamics(self.until - t, u))])


class TransportFlow(nn.Module):
    r"""The map :math:`x(0) \mapsto x(1)` of :class:`Characteristics`, its inverse, and densities both ways.

    Ruthotto et al. 2020; Onken et al. 2021. The inverse runs the equation backward by the same method, so it undoes the
    map up to the method's error.

    Args:
        network: a potential such as ``otflow``, or a velocity such as ``velocity``.
        steps: of time from 0 to 1.
        running: costs of the way besides the kinetic energy.
        integrator: how a step is made, :class:`~evolvent.integrators.RK4` unless given.

    >>> import evolvent as ev
    >>> from evolvent.equations import TransportFlow
    >>> flow = TransportFlow(ev.create_model("otflow", in_features=2), steps=4)
    >>> end = flow(torch.zeros(3, 2))
    >>> end.points.shape, end.cost.shape
    (torch.Size([3, 2]), torch.Size([3, 1]))
    >>> bool(flow.inverse(end.points).points.abs().max() < 1e-4)
    True
    """

    def __init__(
        self,
        network: nn.Module,
        steps: int = 8,
        running: Sequence[RunningCost] = (),
        integrator: Integrator[Dynamics] | None = None,
    ) -> None:
        super().__init__()
        check_whole(1, steps=steps)
        method, way = integrator or RK4(), Characteristics(network, running)
        self.drift = Evolution(Drift(network), method, steps, 1 / steps)
        self.ahead = Evolution(way, method, steps, 1 / steps)
        self.back = Evolution(Backward(way), method, steps, 1 / steps)

    def forward(self, x: Tensor, log_density: Tensor | None = None) -> Transported:
        """Follow points from 0 to 1.

        Args:
            x: (N, d).
            log_density: of the points at the start, (N, 1), for costs that depend on the density; then
                ``log_determinant`` ends as the negative logarithm of the density.
        """
        return self._transported(self.ahead(_start(x, log_density)), log_density)

    def inverse(self, x: Tensor, log_density: Tensor | None = None) -> Transported:
        """Follow points back from 1 to 0; the logarithm of the determinant is that of the inverse map.

        Costs and residual are integrals from 1 to 0: those of the way ahead with the other sign.

        Args:
            x: (N, d).
            log_density: of the points at 1, (N, 1), as in :meth:`forward`.
        """
        return self._transported(self.back(_start(x, log_density)), log_density)

    def path(self, x: Tensor) -> Tensor:
        """Points at all steps of time, (steps + 1, N, d)."""
        return torch.stack([cast(Tensor, u) for u in self.drift.trajectory(x)])

    def pulled_back(self, target: LogDensity) -> LogDensity:
        r"""The density at time 0 that the flow carries to ``target``: the model of a normalising flow.

        .. math:: \ln p_0(x) = \ln p_1(x(1)) + \ell(1)
        """

        def density(x: Tensor) -> Tensor:
            end = self(x)
            return check_column(target(end.points), len(x), "the log-density") + end.log_determinant

        return density

    def pushed_forward(self, source: LogDensity) -> LogDensity:
        r"""The density at time 1 of points that have the density ``source`` at time 0.

        .. math:: \ln p_1(x(1)) = \ln p_0(x(0)) - \ell(1)
        """

        def density(x: Tensor) -> Tensor:
            start = self.inverse(x)
            return check_column(source(start.points), len(x), "the log-density") + start.log_determinant

        return density

    def _transported(self, u: State, log_density: Tensor | None) -> Transported:
        way = self.ahead.dynamics
        assert isinstance(u, Tensor)
        assert isinstance(way, Characteristics)
        found = Transported(u[:, :-4], *u[:, -4:].split(1, dim=1))
        if log_density is not None or not any(cost.needs_density for cost in way.running):
            return found
        unknown = torch.full_like(found.running, math.nan)
        return found._replace(running=unknown, residual=unknown)


def at_time(x: Tensor, t: float | Tensor) -> Tensor:
    """Points with a time in the last column; (N, d) to (N, d + 1)."""
    times = t if isinstance(t, Tensor) else x.new_full((len(x), 1), t)
    return torch.cat([x, times], 1)


def _start(x: Tensor, log_density: Tensor | None) -> Tensor:
    if x.ndim != 2:
        raise ShapeError(f"a flow takes points as (points, coordinates), got shape {tuple(x.shape)}.")
    none = x.new_zeros(len(x), 1)
    given = none if log_density is None else -check_column(log_density, len(x), "log_density")
    return torch.cat([x, given, none, none, none], 1)
