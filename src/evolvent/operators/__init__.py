"""What acts in space: one file per operator, each with its adjoint or symbol where it exists."""

from evolvent.operators._contract import LinearOperator
from evolvent.operators.convolution import Convolution

__all__ = ["Convolution", "LinearOperator"]
