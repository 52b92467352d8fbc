"""Differential operators that commute with rotations: stencils, and layers over fields."""

from evolvent.operators.differential.field_activation import FieldActivation, FieldDropout, NormActivation
from evolvent.operators.differential.field_norm import FieldBatchNorm
from evolvent.operators.differential.field_pooling import (
    EquivarianceWarning,
    FieldPooling,
    GroupRestriction,
    OrientationPooling,
)
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
    "EquivarianceWarning",
    "FieldActivation",
    "FieldBatchNorm",
    "FieldDropout",
    "FieldLinear",
    "FieldPooling",
    "FiniteDifferences",
    "FittedGaussian",
    "GaussianDerivatives",
    "GroupRestriction",
    "NormActivation",
    "OrientationPooling",
    "SteerablePDO",
    "rotated_stencils",
]
