"""What acts in space: one file per operator, each with its adjoint or symbol where it exists."""

from evolvent.operators._contract import LinearOperator
from evolvent.operators._kinds import OPERATORS, make_operator
from evolvent.operators.convolution import Convolution
from evolvent.operators.dense import Dense

__all__ = ["OPERATORS", "Convolution", "Dense", "LinearOperator", "make_operator"]
