"""The check must find what is wrong."""

import pytest
import torch
from torch import nn

from evolvent.operators import Convolution, LinearOperator
from evolvent.testing import check_operator


class Scaling(LinearOperator):
    """c u, whose parts the cases below spoil one at a time."""

    space_axes = 0

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Parameter(torch.tensor(2.0))

    def forward(self, u):
        return self.c * u

    def adjoint(self, v):
        return self.c * v


class Affine(Scaling):
    def forward(self, u):
        return self.c * u + 1


class WrongAdjoint(Scaling):
    def adjoint(self, v):
        return -self.c * v


class NonlinearAdjoint(Scaling):
    def adjoint(self, v):
        return self.c * v.abs()


class WrongShape(Scaling):
    def adjoint(self, v):
        return self.c * v[:, :1]


class Detached(Scaling):
    def forward(self, u):
        return self.c.detach() * u


class AdjointDetached(Scaling):
    def adjoint(self, v):
        return self.c.detach() * v


class Unused(Scaling):
    def __init__(self) -> None:
        super().__init__()
        self.idle = nn.Parameter(torch.ones(2))


class OneSided(Scaling):
    """Right values, but only half of the adjoint's weight learns."""

    def adjoint(self, v):
        return (0.5 * self.c + 0.5 * self.c.detach()) * v


class NotFinite(Scaling):
    def forward(self, u):
        return self.c * u + 0 * torch.sqrt(self.c - self.c.detach())


def test_good_operators_pass():
    check_operator(Scaling(), (2, 3), (2, 3))
    check_operator(Scaling(), (4,))


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (Affine, r"L\(2u - 3v\) differs .* claimed linear"),
        (WrongAdjoint, r"<Lu, v> = .* and <u, L\^T v> = "),
        (NonlinearAdjoint, r"L\^T\(2u - 3v\) differs"),
        (WrongShape, r"L\^T v has shape \(2, 1\), an adjoint gives \(2, 3\)"),
        (Detached, "no gradient flows"),
        (AdjointDetached, "no gradient flows"),
        (Unused, "'idle' gets no gradient"),
        (OneSided, "'c' has gradients .* that differ"),
        (NotFinite, "not finite"),
    ],
)
def test_faults_are_found(kind, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_operator(kind(), (2, 3))


def test_wrong_output_shape_is_found():
    with pytest.raises(AssertionError, match=r"has shape \(1, 3, 4, 4\), claimed \(1, 2, 4, 4\)"):
        check_operator(Convolution(2, 3), (1, 2, 4, 4), (1, 2, 4, 4))


def test_operator_itself_is_left_alone():
    operator = Convolution(1, 1).train()
    check_operator(operator, (1, 1, 3, 3))
    assert operator.weight.dtype == torch.float32
    assert operator.weight.grad is None
    assert operator.training
