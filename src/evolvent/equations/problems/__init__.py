"""Problems: an equation on a domain with its conditions, symmetries and reference, by name or stated in ten lines."""

from evolvent.equations.problems import allen_cahn, burgers, heat, kdv, kuramoto_sivashinsky, schroedinger
from evolvent.equations.problems.problem import Condition, Problem, Reference
from evolvent.equations.problems.region import Region, box, disc, l_shape
from evolvent.equations.problems.registry import PROBLEMS, create_problem, list_problems, register_problem

__all__ = [
    "PROBLEMS",
    "Condition",
    "Problem",
    "Reference",
    "Region",
    "allen_cahn",
    "box",
    "burgers",
    "create_problem",
    "disc",
    "heat",
    "kdv",
    "kuramoto_sivashinsky",
    "l_shape",
    "list_problems",
    "register_problem",
    "schroedinger",
]
