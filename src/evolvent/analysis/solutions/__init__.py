"""Whether a computed solution of an equation is right, without a reference; how well its coefficients are known."""

from evolvent.analysis.solutions.linearised import LinearisedProblem, why_not
from evolvent.analysis.solutions.ordinary import LinearisedOrdinary, why_not_ordinary
from evolvent.analysis.solutions.tangent import TangentProblem
from evolvent.analysis.solutions.trust import Check, Trust, check_trust
from evolvent.analysis.solutions.uncertainty import Estimate, Estimates, estimate_coefficients

__all__ = [
    "Check",
    "Estimate",
    "Estimates",
    "LinearisedOrdinary",
    "LinearisedProblem",
    "TangentProblem",
    "Trust",
    "check_trust",
    "estimate_coefficients",
    "why_not",
    "why_not_ordinary",
]
