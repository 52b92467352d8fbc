"""What acts in space: one file per operator, each with its adjoint or symbol where it exists."""

from evolvent.operators._contract import DiffusionOperator, LinearOperator
from evolvent.operators._kinds import OPERATORS, make_operator
from evolvent.operators.affinity import Affinity, DotProduct, Gaussian, Logarithm, Power
from evolvent.operators.convolution import Convolution
from evolvent.operators.dense import Dense
from evolvent.operators.dense_diffusion import DenseDiffusion
from evolvent.operators.depthwise_diffusion import DepthwiseDiffusion
from evolvent.operators.five_point import FivePointConvolution
from evolvent.operators.fractional_constants import fractional_constant, logarithmic_constant, riesz_constant
from evolvent.operators.fractional_inverse import InverseFractionalLaplacian
from evolvent.operators.fractional_laplacian import FractionalLaplacian
from evolvent.operators.fractional_spatial import SpatialFractionalLaplacian, SpatialInverseLaplacian
from evolvent.operators.haar import HaarTransform
from evolvent.operators.lean import LeanConvolution
from evolvent.operators.multigrid import MultigridConvolution
from evolvent.operators.nonlocal_diffusion import NonlocalDiffusion
from evolvent.operators.nonlocal_operator import FrozenOperator, NonlocalOperator
from evolvent.operators.pointwise import Pointwise

__all__ = [
    "OPERATORS",
    "Affinity",
    "Convolution",
    "Dense",
    "DenseDiffusion",
    "DepthwiseDiffusion",
    "DiffusionOperator",
    "DotProduct",
    "FivePointConvolution",
    "FractionalLaplacian",
    "FrozenOperator",
    "Gaussian",
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
    "fractional_constant",
    "logarithmic_constant",
    "make_operator",
    "riesz_constant",
]
