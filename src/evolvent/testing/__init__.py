"""Conformance checks that anybody can run on their own classes: each measures what a class claims.

A check returns nothing if the claim holds and raises :class:`AssertionError`, with what was measured and what was
claimed, if it does not.

>>> from evolvent.operators import Convolution
>>> from evolvent.integrators import Verlet
>>> check_operator(Convolution(2, 3), (1, 2, 5, 5))
>>> check_integrator(Verlet())
"""

from evolvent.testing.compilation import check_compiles, check_exports
from evolvent.testing.gradients import check_gradient
from evolvent.testing.integrators import all_integrators, check_integrator, observed_order
from evolvent.testing.networks import check_network
from evolvent.testing.operators import check_operator
from evolvent.testing.problems import Problem, problem_for
from evolvent.testing.stability import check_stability

__all__ = [
    "Problem",
    "all_integrators",
    "check_compiles",
    "check_exports",
    "check_gradient",
    "check_integrator",
    "check_network",
    "check_operator",
    "check_stability",
    "observed_order",
    "problem_for",
]
