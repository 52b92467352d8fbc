"""Reference solutions of equations, computed when they are asked for."""

from evolvent.equations.references.burgers import ColeHopf
from evolvent.equations.references.deadline import ReferenceTimeError, within
from evolvent.equations.references.etdrk4 import Etdrk4, PeriodicEquation
from evolvent.equations.references.periodic import PeriodicSolution, solve_periodic

__all__ = [
    "ColeHopf",
    "Etdrk4",
    "PeriodicEquation",
    "PeriodicSolution",
    "ReferenceTimeError",
    "solve_periodic",
    "within",
]
