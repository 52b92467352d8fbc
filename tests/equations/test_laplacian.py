"""The forward Laplacian against the trace of Hessians."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from evolvent.equations import laplacian
from evolvent.errors import ShapeError


class Residual(nn.Module):
    """A ResNet of points that concatenates its input to its features."""

    def __init__(self, dims: int, width: int, out: int) -> None:
        super().__init__()
        self.first, self.middle, self.last = (
            nn.Linear(dims, width),
            nn.Linear(width, width),
            nn.Linear(width + dims, out),
        )

    def forward(self, x):
        u = torch.tanh(self.first(x))
        u = u + F.gelu(self.middle(u))
        return self.last(torch.cat([u, x], dim=1))


FUNCTIONS = {
    "residual network": Residual(3, 5, 2).double(),
    "wide": nn.Sequential(nn.Linear(3, 6), nn.Softplus(), nn.Linear(6, 1), nn.Sigmoid()).double(),
    "products": lambda x: (x[:, :1] * x[:, 1:]).exp() * x.sum(1, keepdim=True) ** 3 + x[:, 0:1] / (1 + x[:, 1:] ** 2),
    "a norm": lambda x: (x * x).sum(1).sqrt(),
    "constant": lambda x: torch.ones(len(x)),
    "affine": lambda x: 2 * x - torch.ones(3),
    "normalised": lambda x: F.layer_norm(torch.sin(x), (3,)),
    "matrices": lambda x: torch.einsum("ni,nj->nij", x, x) @ torch.ones(3, 2) * (x[:, None, :2] + torch.ones(1, 3, 1)),
}


def written_out(f):
    """One point instead of many; PyTorch's own normalisations have wrong second derivatives."""
    if f is not FUNCTIONS["normalised"]:
        return lambda x: f(x[None])[0]
    return lambda x: (torch.sin(x) - torch.sin(x).mean()) / (torch.sin(x).var(unbiased=False) + 1e-5).sqrt()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_laplacian_is_the_trace_of_the_hessian(name):
    f, x = FUNCTIONS[name], torch.randn(4, 3)
    value, gradient, found = laplacian(f, x)
    one = written_out(f)
    for k, point in enumerate(x):
        hessian = torch.func.jacrev(torch.func.jacrev(one))(point)
        torch.testing.assert_close(value[k], one(point), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(gradient[k], torch.func.jacrev(one)(point), rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found[k], hessian.diagonal(dim1=-2, dim2=-1).sum(-1), rtol=1e-10, atol=1e-10)


@given(dims=st.integers(1, 5), width=st.integers(1, 4), points=st.integers(1, 4), seed=st.integers(0, 99))
def test_gradients_of_losses_agree_with_nested_autograd(dims, width, points, seed):
    torch.manual_seed(seed)
    net, x = Residual(dims, width, 1), torch.randn(points, dims, requires_grad=True)
    value, gradient, found = laplacian(net, x)
    ours = torch.autograd.grad((value * found).sum() + gradient.square().sum(), [x, *net.parameters()])
    u = net(x)
    slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    total = sum(torch.autograd.grad(slope[:, i].sum(), x, create_graph=True)[0][:, i] for i in range(dims))
    theirs = torch.autograd.grad((u[:, 0] * total).sum() + slope.square().sum(), [x, *net.parameters()])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_harmonic_functions_have_none():
    x = torch.randn(20, 2)
    found = laplacian(lambda x: torch.exp(x[:, 0]) * torch.sin(x[:, 1]), x).laplacian
    torch.testing.assert_close(found, torch.zeros(20), rtol=0, atol=1e-14)


def test_points_only():
    with pytest.raises(ShapeError, match=r"\(points, coordinates\), got shape \(3,\)"):
        laplacian(torch.tanh, torch.ones(3))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
@pytest.mark.parametrize("first", ["any", "a unit twice", "nothing"])
def test_few_units_see_few_directions(first):
    """More variables than units: gradients go through a smaller basis, unless the units do not span one."""
    seen = nn.Linear(12, 4)
    net = nn.Sequential(seen, nn.Tanh(), nn.Linear(4, 5), nn.Softplus(), nn.Linear(5, 1)).double()
    with torch.no_grad():
        if first == "a unit twice":
            seen.weight[1] = seen.weight[0]
        if first == "nothing":
            seen.weight.zero_()
    x = torch.randn(6, 12)
    value, gradient, found = laplacian(net, x)
    one = lambda p: net(p[None])[0, 0]  # noqa: E731
    slopes, bends = torch.vmap(torch.func.grad(one))(x), torch.vmap(torch.func.hessian(one))(x)
    total = bends.diagonal(dim1=1, dim2=2).sum(1)
    torch.testing.assert_close(gradient[:, 0], slopes, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found[:, 0], total, rtol=1e-10, atol=1e-12)
    weights = list(net.parameters())
    ours = torch.autograd.grad(found.square().sum() + (value * gradient[:, 0]).sin().sum(), weights)
    theirs = torch.autograd.grad(total.square().sum() + (net(x) * slopes).sin().sum(), weights)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("net", [nn.Linear(3, 1), nn.Sequential(nn.Linear(3, 1), nn.Tanh()), FUNCTIONS["wide"]])
def test_no_points(net):
    value, gradient, found = laplacian(net.double(), torch.randn(0, 3))
    assert (value.shape, gradient.shape, found.shape) == ((0, 1), (0, 1, 3), (0, 1))


@pytest.mark.parametrize("width", [2, 6])
def test_gradients_of_each_point(width):
    net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1)).double()
    x = torch.randn(5, 3, requires_grad=True)
    found = torch.vmap(torch.func.grad(lambda point: laplacian(net, point[None]).laplacian[0, 0]))(x)
    torch.testing.assert_close(found, torch.autograd.grad(laplacian(net, x).laplacian.sum(), x)[0])


def test_in_a_vectorised_call():
    net, x = nn.Sequential(nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 1)).double(), torch.randn(2, 5, 8)
    found = torch.vmap(lambda points: laplacian(net, points).laplacian)(x)
    torch.testing.assert_close(found.flatten(0, 1), laplacian(net, x.flatten(0, 1)).laplacian)
