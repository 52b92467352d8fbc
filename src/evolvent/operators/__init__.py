"""What acts in space: one file per operator, each with its adjoint or symbol where it exists."""

from evolvent.operators._contract import DiffusionOperator, LinearOperator
from evolvent.operators._kinds import OPERATORS, make_operator
from evolvent.operators.convolution import Convolution
from evolvent.operators.dense import Dense
from evolvent.operators.dense_diffusion import DenseDiffusion
from evolvent.operators.depthwise_diffusion import DepthwiseDiffusion
from evolvent.operators.five_point import FivePointConvolution
from evolvent.operators.haar import HaarTransform
from evolvent.operators.lean import LeanConvolution
from evolvent.operators.multigrid import MultigridConvolution

__all__ = [
    "OPERATORS",
    "Convolution",
    "Dense",
    "DenseDiffusion",
    "DepthwiseDiffusion",
    "DiffusionOperator",
    "FivePointConvolution",
    "HaarTransform",
    "LeanConvolution",
    "LinearOperator",
    "MultigridConvolution",
    "make_operator",
]
