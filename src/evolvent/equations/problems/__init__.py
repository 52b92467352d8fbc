"""Problems: an equation on a domain with its conditions, symmetries and reference, by name or stated in ten lines."""

from evolvent.equations.problems import allen_cahn, burgers, heat, kdv, kuramoto_sivashinsky, schroedinger
from evolvent.equations.problems.invariants import Invariant
from evolvent.equations.problems.problem import Condition, Problem, Reference
from evolvent.equations.problems.registry import PROBLEMS, create_problem, given, list_problems, register_problem
from evolvent.equations.problems.stored import with_stored_reference

__all__ = [
    "PROBLEMS",
    "Condition",
    "Invariant",
    "Problem",
    "Reference",
    "allen_cahn",
    "burgers",
    "create_problem",
    "given",
    "heat",
    "kdv",
    "kuramoto_sivashinsky",
    "list_problems",
    "register_problem",
    "schroedinger",
    "with_stored_reference",
]
