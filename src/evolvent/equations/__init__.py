"""Networks as functions that solve equations: derivatives of any order, the Laplacian, governing equations."""

from evolvent.equations import perceptron as perceptron
from evolvent.equations import problems as problems
from evolvent.equations import references as references
from evolvent.equations import rules as rules
from evolvent.equations.derivatives import coordinate_jets, jet, mixed_jet
from evolvent.equations.expansion import register_rule
from evolvent.equations.fallback import JetFallbackWarning
from evolvent.equations.governing import GoverningEquation, Sparsity
from evolvent.equations.jets import Jet
from evolvent.equations.laplacian import Laplacian, laplacian
from evolvent.equations.rules.elementwise import register_elementwise
from evolvent.equations.rules.linear_maps import register_linear
from evolvent.equations.terms import Derivatives, Term, monomial, polynomial_terms

__all__ = [
    "Derivatives",
    "GoverningEquation",
    "Jet",
    "JetFallbackWarning",
    "Laplacian",
    "Sparsity",
    "Term",
    "coordinate_jets",
    "jet",
    "laplacian",
    "mixed_jet",
    "monomial",
    "polynomial_terms",
    "register_elementwise",
    "register_linear",
    "register_rule",
]
