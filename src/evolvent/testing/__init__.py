"""Conformance checks that you can run on your own classes: each measures what a class claims.

A check returns nothing if the claim holds and raises :class:`AssertionError`, with what was measured and what was
claimed, if it does not.

>>> from evolvent.operators import Convolution
>>> from evolvent.integrators import Verlet
>>> check_operator(Convolution(2, 3), (1, 2, 5, 5))
>>> check_integrator(Verlet())
"""

from typing import TYPE_CHECKING

from evolvent._core.lazy import attach
from evolvent.testing.compilation import check_compiles, check_exports, check_onnx
from evolvent.testing.equivariance import check_equivariance
from evolvent.testing.gradients import check_gradient
from evolvent.testing.integrators import all_integrators, check_integrator, observed_order
from evolvent.testing.networks import check_network
from evolvent.testing.operators import check_operator
from evolvent.testing.problems import Problem, problem_for
from evolvent.testing.stability import check_stability

if TYPE_CHECKING:
    from evolvent.testing.tasks import check_task

__all__ = [
    "Problem",
    "all_integrators",
    "check_compiles",
    "check_equivariance",
    "check_exports",
    "check_gradient",
    "check_integrator",
    "check_network",
    "check_onnx",
    "check_operator",
    "check_stability",
    "check_task",
    "observed_order",
    "problem_for",
]

# loads the engine and the report, which the other checks do not need
__getattr__, _ = attach(__name__, modules=[], names={"evolvent.testing.tasks": ["check_task"]})
