"""Networks as functions that solve equations: derivatives of any order, the Laplacian, governing equations."""

from evolvent.equations import perceptron as perceptron
from evolvent.equations import problems as problems
from evolvent.equations import references as references
from evolvent.equations import rules as rules
from evolvent.equations.derivatives import coordinate_jets, jet, mixed_jet
from evolvent.equations.expansion import register_rule
from evolvent.equations.fallback import JetFallbackWarning
from evolvent.equations.fractional import fractional_laplacian
from evolvent.equations.governing import GoverningEquation, Sparsity
from evolvent.equations.high_dimensional import (
    allen_cahn_ball,
    black_scholes_default,
    hamilton_jacobi_bellman,
)
from evolvent.equations.jets import Jet
from evolvent.equations.laplacian import Laplacian, laplacian
from evolvent.equations.mean_field import Congestion, Obstacle, RunningCost
from evolvent.equations.rules.elementwise import register_elementwise
from evolvent.equations.rules.linear_maps import register_linear
from evolvent.equations.semilinear import SEMILINEAR, SemilinearProblem, register_semilinear
from evolvent.equations.sensitivities import parameter_jacobian
from evolvent.equations.terms import Derivatives, Term, monomial, polynomial_terms
from evolvent.equations.transport import Characteristics, Drift, Transported, TransportFlow

__all__ = [
    "SEMILINEAR",
    "Characteristics",
    "Congestion",
    "Derivatives",
    "Drift",
    "GoverningEquation",
    "Jet",
    "JetFallbackWarning",
    "Laplacian",
    "Obstacle",
    "RunningCost",
    "SemilinearProblem",
    "Sparsity",
    "Term",
    "TransportFlow",
    "Transported",
    "allen_cahn_ball",
    "black_scholes_default",
    "coordinate_jets",
    "fractional_laplacian",
    "hamilton_jacobi_bellman",
    "jet",
    "laplacian",
    "mixed_jet",
    "monomial",
    "parameter_jacobian",
    "polynomial_terms",
    "register_elementwise",
    "register_linear",
    "register_rule",
    "register_semilinear",
]
