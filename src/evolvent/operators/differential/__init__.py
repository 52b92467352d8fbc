"""Differential operators that commute with rotations: stencils, and layers over fields."""

from evolvent.operators.differential.field_activation import FieldActivation, FieldDropout, NormActivation
from evolvent.operators.differential.field_checks import EquivarianceWarning
from evolvent.operators.differential.field_norm import FieldBatchNorm, FieldBias
from evolvent.operators.differential.field_pooling import FieldPooling, GroupRestriction, OrientationPooling
from evolvent.operators.differential.inference import dense
from evolvent.operators.differential.kinds import steerable_operator
from evolvent.operators.differential.neural import Coefficients, GeneratorActivation, NeuralEPDO
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
    "EquivarianceWarning",
    "FieldActivation",
    "FieldBatchNorm",
    "FieldBias",
    "FieldDropout",
    "FieldLinear",
    "FieldPooling",
    "FiniteDifferences",
    "FittedGaussian",
    "GaussianDerivatives",
    "GeneratorActivation",
    "GroupRestriction",
    "NeuralEPDO",
    "NormActivation",
    "OrientationPooling",
    "SteerablePDO",
    "apply_derivatives",
    "dense",
    "rotated_stencils",
    "steerable_operator",
]
