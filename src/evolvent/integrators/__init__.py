"""How time advances. Methods know the step size and nothing about networks."""

from evolvent._core.state import State, axpy, combine, like, parts
from evolvent.integrators._contract import Coupling, Integrator, ReversibleIntegrator
from evolvent.integrators.dopri5 import Dopri5
from evolvent.integrators.implicit_midpoint import ImplicitMidpoint
from evolvent.integrators.multistep import AdamsBashforth2, LinearMultistep
from evolvent.integrators.runge_kutta import RK4, Euler, Heun, ProjectedEuler
from evolvent.integrators.splitting import ImexEuler, LieTrotter, Strang
from evolvent.integrators.verlet import Leapfrog, StoermerVerlet, Verlet

__all__ = [
    "RK4",
    "AdamsBashforth2",
    "Coupling",
    "Dopri5",
    "Euler",
    "Heun",
    "ImexEuler",
    "ImplicitMidpoint",
    "Integrator",
    "Leapfrog",
    "LieTrotter",
    "LinearMultistep",
    "ProjectedEuler",
    "ReversibleIntegrator",
    "State",
    "StoermerVerlet",
    "Strang",
    "Verlet",
    "axpy",
    "combine",
    "like",
    "parts",
]
