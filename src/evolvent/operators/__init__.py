"""What acts in space: one file per operator, each with its adjoint or symbol where it exists."""

from evolvent.operators._contract import OPERATORS, DiffusionOperator, FieldOperator, LinearOperator, make_operator
from evolvent.operators.convolution import Convolution, Pointwise
from evolvent.operators.dense import Dense
from evolvent.operators.diffusion import DenseDiffusion, DepthwiseDiffusion
from evolvent.operators.graph_diffusion import FlowMethod, GraphDiffusion, UnstableDiffusionWarning
from evolvent.operators.haar import HaarTransform
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
from evolvent.operators.lean import FivePointConvolution, LeanConvolution
from evolvent.operators.multigrid import MultigridConvolution

__all__ = [
    "OPERATORS",
    "Affinity",
    "Convolution",
    "Dense",
    "DenseDiffusion",
    "DepthwiseDiffusion",
    "DiffusionOperator",
    "DotProduct",
    "FieldOperator",
    "FivePointConvolution",
    "FlowMethod",
    "FractionalLaplacian",
    "FrozenOperator",
    "Gaussian",
    "GraphDiffusion",
    "HaarTransform",
    "InverseFractionalLaplacian",
    "LeanConvolution",
    "LinearOperator",
    "Logarithm",
    "MultigridConvolution",
    "NonlocalDiffusion",
    "NonlocalOperator",
    "Pointwise",
    "Power",
    "SpatialFractionalLaplacian",
    "SpatialInverseLaplacian",
    "UnstableDiffusionWarning",
    "fractional_constant",
    "logarithmic_constant",
    "make_operator",
    "riesz_constant",
]
