"""How time advances: one file per method. Methods know the step size and nothing of networks."""

from evolvent.integrators._contract import Coupling, Integrator, ReversibleIntegrator
from evolvent.integrators.adams_bashforth import AdamsBashforth2
from evolvent.integrators.dopri5 import Dopri5
from evolvent.integrators.euler import Euler, ProjectedEuler
from evolvent.integrators.heun import Heun
from evolvent.integrators.imex_euler import ImexEuler
from evolvent.integrators.implicit_midpoint import ImplicitMidpoint
from evolvent.integrators.leapfrog import Leapfrog
from evolvent.integrators.linear_multistep import LinearMultistep
from evolvent.integrators.rk4 import RK4
from evolvent.integrators.splitting import LieTrotter, Strang
from evolvent.integrators.stoermer_verlet import StoermerVerlet
from evolvent.integrators.verlet import Verlet

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
    "StoermerVerlet",
    "Strang",
    "Verlet",
]
