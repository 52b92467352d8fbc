"""The potential of OT-Flow against automatic differentiation, the forward Laplacian and its own formula."""

import pytest
import torch

import evolvent as ev
from evolvent.equations import laplacian
from evolvent.errors import ShapeError
from evolvent.networks.otflow import antiderivative

SIZES = [(1, 4, 1), (2, 8, 2), (3, 16, 4), (20, 6, 3), (100, 8, 2)]  # dimension, width, layers


def potential(dimension, width, layers):
    model = ev.create_model("otflow", in_features=dimension, width=width, layers=layers).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


@pytest.mark.parametrize(("dimension", "width", "layers"), SIZES)
def test_gradient_is_that_of_automatic_differentiation(dimension, width, layers):
    model, s = potential(dimension, width, layers), torch.randn(5, dimension + 1, dtype=torch.float64)
    s.requires_grad_()
    (expected,) = torch.autograd.grad(model(s).sum(), s)
    found = model.gradient_and_laplacian(s).gradient
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(model.velocity(s), -expected[:, :-1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("dimension", "width", "layers"), SIZES)
def test_laplacian_is_the_trace_of_the_hessian_in_space(dimension, width, layers):
    model, s = potential(dimension, width, layers), torch.randn(3, dimension + 1, dtype=torch.float64)
    hessian = torch.stack([torch.autograd.functional.hessian(lambda row: model(row[None]).sum(), row) for row in s])
    expected = hessian.diagonal(dim1=1, dim2=2)[:, :-1].sum(1, keepdim=True)
    found = model.gradient_and_laplacian(s).laplacian
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("dimension", "width", "layers"), SIZES)
def test_laplacian_is_the_forward_laplacian(dimension, width, layers):
    model, x = potential(dimension, width, layers), torch.randn(5, dimension, dtype=torch.float64)
    t = torch.full((5, 1), 0.3, dtype=torch.float64)
    expected = laplacian(lambda points: model(torch.cat([points, t], 1)), x)
    found = model.gradient_and_laplacian(torch.cat([x, t], 1))
    torch.testing.assert_close(found.laplacian, expected.laplacian, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found.gradient[:, :-1], expected.gradient[:, 0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dimension", [2, 9])  # fewer and more coordinates than the width
def test_gradients_of_the_closed_form_are_right(dimension):
    model, s = potential(dimension, 4, 3), torch.randn(2, dimension + 1, dtype=torch.float64)
    names, values = zip(*model.named_parameters(), strict=True)

    def answers(*weights):
        named = dict(zip(names, weights, strict=True))
        return tuple(torch.func.functional_call(_Slopes(model), {f"model.{k}": v for k, v in named.items()}, (s,)))

    assert torch.autograd.gradcheck(answers, values)


class _Slopes(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, s):
        return self.model.gradient_and_laplacian(s)


def test_activation_is_the_antiderivative_of_tanh():
    z = torch.linspace(-300, 300, 10_001, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(antiderivative(z), z.abs() + torch.log1p(torch.exp(-2 * z.abs())), atol=1e-12, rtol=0)
    (slope,) = torch.autograd.grad(antiderivative(z).sum(), z)
    torch.testing.assert_close(slope, z.tanh(), atol=1e-12, rtol=0)


def test_shapes_that_do_not_fit_are_refused():
    for name in ("otflow", "velocity"):
        model = ev.create_model(name, in_features=3)
        with pytest.raises(ShapeError, match="3 coordinates and then a time"):
            model.velocity(torch.zeros(2, 3))
