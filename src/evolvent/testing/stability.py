"""Whether a method stays bounded where it claims to, and only there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import Dynamics, PartitionedDynamics, SecondOrderDynamics
from evolvent.integrators import Integrator
from evolvent.testing._claims import claim, norm

_STEPS = 2000
_GROWN = 1e3
_WITHIN, _BEYOND = 0.98, 1.02
_BEYOND_ZERO = 0.5


class Decay(Dynamics):
    r""":math:`u' = -u`."""

    def forward(self, t: float, u: State) -> State:
        assert isinstance(u, Tensor)
        return -u


class Rotation(Dynamics):
    r""":math:`u_1' = u_2,\; u_2' = -u_1`."""

    def forward(self, t: float, u: State) -> State:
        assert isinstance(u, Tensor)
        u1, u2 = u.unbind(-1)
        return torch.stack([u2, -u1], dim=-1)


class PartitionedRotation(PartitionedDynamics):
    r""":math:`y' = z,\; z' = -y`."""

    def dy(self, t: float, z: Tensor) -> Tensor:
        return z

    def dz(self, t: float, y: Tensor) -> Tensor:
        return -y


class Oscillator(SecondOrderDynamics):
    r""":math:`u'' = -u`."""

    def acceleration(self, t: float, u: Tensor) -> Tensor:
        return -u


def check_stability(integrator: Integrator[Any]) -> None:
    """Measure ``real_stability`` and ``imaginary_stability``: bounded 2 % within, growing 2 % beyond.

    Args:
        integrator: the method; it must be able to make 2000 steps.

    >>> from evolvent.integrators import Euler, RK4
    >>> check_stability(Euler())
    >>> check_stability(RK4())
    """
    for axis in ("real", "imaginary"):
        limit = getattr(integrator, f"{axis}_stability")
        if limit is not None:
            f = _test_equation(integrator, axis)
            within, beyond = limit * _WITHIN, limit * _BEYOND or _BEYOND_ZERO
            said = f"claimed {axis}_stability {limit:g}"
            claim(limit == 0 or not _grows(integrator, f, within), f"{integrator} grows at h={within:g}, {said}.")
            claim(_grows(integrator, f, beyond), f"{integrator} is bounded at h={beyond:g}, {said}.")


def _test_equation(integrator: Integrator[Any], axis: str) -> Dynamics:
    known = {
        (Dynamics, "real"): Decay,
        (Dynamics, "imaginary"): Rotation,
        (PartitionedDynamics, "imaginary"): PartitionedRotation,
        (SecondOrderDynamics, "imaginary"): Oscillator,
    }
    if (integrator.acts_on, axis) in known:
        return known[integrator.acts_on, axis]()
    raise ConfigError(f"{integrator.acts_on.__name__} hold no test equation for {axis}_stability; leave it None.")


def _grows(integrator: Integrator[Any], f: Dynamics, h: float) -> bool:
    one = torch.ones(1, 1, dtype=torch.float64)
    u0 = torch.cat([one, one], dim=1) if type(f) in (Decay, Rotation) else (one, one)
    with torch.no_grad():
        u = integrator.start(f, 0.0, u0, h)
        for j in range(_STEPS):
            u = integrator.step(f, j * h, u, h)
            if not norm(integrator.finish(u, h)) < _GROWN:
                return True
    return False
