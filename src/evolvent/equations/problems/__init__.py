"""Problems: an equation on a domain with its conditions, symmetries and reference, by name or stated in ten lines."""

from evolvent.equations.problems import (
    advection_diffusion,
    allen_cahn,
    burgers,
    eigenvalue,
    fractional_poisson,
    heat,
    helmholtz,
    kdv,
    kuramoto_sivashinsky,
    poisson,
    schroedinger,
)
from evolvent.equations.problems.coefficient_field import CoefficientField, with_field
from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.kink import smoothed_kink
from evolvent.equations.problems.problem import Condition, Problem, Reference
from evolvent.equations.problems.region import MANY, Region, box, disc, l_shape
from evolvent.equations.problems.registry import PROBLEMS, create_problem, given, list_problems, register_problem
from evolvent.equations.problems.stored import with_stored_reference

__all__ = [
    "MANY",
    "PROBLEMS",
    "CoefficientField",
    "Condition",
    "Invariant",
    "Problem",
    "Reference",
    "Region",
    "advection_diffusion",
    "allen_cahn",
    "box",
    "burgers",
    "create_problem",
    "disc",
    "eigenvalue",
    "fractional_poisson",
    "given",
    "heat",
    "helmholtz",
    "kdv",
    "kuramoto_sivashinsky",
    "l_shape",
    "list_problems",
    "poisson",
    "register_problem",
    "schroedinger",
    "smoothed_kink",
    "with_field",
    "with_stored_reference",
]
