"""How time advances: one file per method. Methods know the step size and nothing of networks."""

from evolvent.integrators._contract import Coupling, Integrator, ReversibleIntegrator
from evolvent.integrators.euler import Euler, ProjectedEuler
from evolvent.integrators.verlet import Verlet

__all__ = ["Coupling", "Euler", "Integrator", "ProjectedEuler", "ReversibleIntegrator", "Verlet"]
