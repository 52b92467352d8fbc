"""Nonlocal operators: integrals over all pairs of pixels, with a kernel of their features or of their distance."""

from evolvent.operators.integral.affinity import Affinity, DotProduct, Gaussian, Logarithm, Power
from evolvent.operators.integral.diffusion import NonlocalDiffusion
from evolvent.operators.integral.fractional import (
    FractionalLaplacian,
    InverseFractionalLaplacian,
    fractional_constant,
    logarithmic_constant,
    riesz_constant,
)
from evolvent.operators.integral.operator import FrozenOperator, NonlocalOperator
from evolvent.operators.integral.spatial import SpatialFractionalLaplacian, SpatialInverseLaplacian

__all__ = [
    "Affinity",
    "DotProduct",
    "FractionalLaplacian",
    "FrozenOperator",
    "Gaussian",
    "InverseFractionalLaplacian",
    "Logarithm",
    "NonlocalDiffusion",
    "NonlocalOperator",
    "Power",
    "SpatialFractionalLaplacian",
    "SpatialInverseLaplacian",
    "fractional_constant",
    "logarithmic_constant",
    "riesz_constant",
]
