"""Differential operators that commute with rotations: stencils, and layers over fields."""

from evolvent.operators.differential.steerable import Basis, FieldLinear, SteerablePDO
from evolvent.operators.differential.stencils import (
    Discretisation,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    rotated_stencils,
)

__all__ = [
    "Basis",
    "Discretisation",
    "FieldLinear",
    "FiniteDifferences",
    "FittedGaussian",
    "GaussianDerivatives",
    "SteerablePDO",
    "rotated_stencils",
]
