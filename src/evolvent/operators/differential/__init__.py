"""Differential operators that commute with rotations: stencils, and layers over fields."""

from evolvent.operators.differential.neural import Coefficients, NeuralEPDO, dense
from evolvent.operators.differential.steerable import Basis, FieldLinear, SteerablePDO
from evolvent.operators.differential.stencils import (
    Discretisation,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    rotated_stencils,
)
from evolvent.operators.differential.taps import apply_derivatives

__all__ = [
    "Basis",
    "Coefficients",
    "Discretisation",
    "FieldLinear",
    "FiniteDifferences",
    "FittedGaussian",
    "GaussianDerivatives",
    "NeuralEPDO",
    "SteerablePDO",
    "apply_derivatives",
    "dense",
    "rotated_stencils",
]
