"""The compiled pass of series through layers of tanh against nested autograd, layer by layer, in value and gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent._core.native import native_library
from evolvent.equations import coordinate_jets, laplacian, mixed_jet, perceptron
from evolvent.equations.algebra import algebra
from evolvent.equations.fallback import nested_derivatives
from evolvent.networks.perceptron import CoordinateInputs, Perceptron, tanh_layers

KERNEL = native_library(perceptron._SOURCE)
needs_kernel = pytest.mark.skipif(KERNEL is None, reason="no C++ compiler")


def network(*symmetry: str, widths=(6, 5), out=1) -> Perceptron:
    torch.manual_seed(0)
    net = Perceptron(CoordinateInputs((-1,) * len(symmetry), (1,) * len(symmetry), symmetry), widths, out)
    for layer in net.layers:
        torch.nn.init.normal_(layer.bias)
    return net.double()


def loss_and_gradient(found, net):
    weights = torch.linspace(1, 2, len(found))
    loss = sum(w * u.square().sum() + u.sum() for w, u in zip(weights, found, strict=True))
    return torch.autograd.grad(loss, list(net.parameters()))


def close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10 * (1 + b.abs().max().item()))


@needs_kernel
@pytest.mark.parametrize("points", [1, 31, 32, 100])
@pytest.mark.parametrize("orders", [(2, 1), (4, 1), (3, 3), (0, 0)])
def test_derivatives_and_gradients_are_those_of_nested_autograd(points, orders):
    net, (x, t) = network("periodic", "none"), torch.rand(2, points, 1)
    u, along = coordinate_jets(lambda x, t: net(torch.cat([x, t], 1)), [x, t], orders)
    found = [u, *along[0], *along[1]]
    indices = [(0, 0), *((k + 1, 0) for k in range(orders[0])), *((0, k + 1) for k in range(orders[1]))]
    e1, e2 = torch.ones_like(x), torch.zeros_like(x)
    nested = nested_derivatives(lambda x, t: net(torch.cat([x, t], 1)), [x, t], [[e1, e2], [e2, e1]], indices)
    close(found, list(nested.values()))
    close(loss_and_gradient(found, net), loss_and_gradient(list(nested.values()), net))


@needs_kernel
@settings(max_examples=20, deadline=None)
@given(
    indices=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=3),
    widths=st.lists(st.integers(1, 9), min_size=0, max_size=3),
    out=st.integers(1, 5),
)
def test_any_algebra_and_any_widths(indices, widths, out):
    net, x = network("none", "none", widths=widths, out=out), torch.rand(7, 2)
    e1, e2 = torch.eye(2)
    found = mixed_jet(net, x, [e1, e2], indices)
    parameters = [p for layer in net.layers for p in (layer.weight, layer.bias)]
    slow = mixed_jet(lambda x: perceptron._one_by_one(x, parameters), x, [e1, e2], indices)
    assert list(found) == list(slow)
    close(list(found.values()), list(slow.values()))
    close(loss_and_gradient(list(found.values()), net), loss_and_gradient(list(slow.values()), net))


@needs_kernel
def test_inputs_that_are_trained_get_their_gradient():
    net, x = network("none", "none"), torch.rand(9, 2)
    turn = torch.randn(2, 2, requires_grad=True)
    parameters = [p for layer in net.layers for p in (layer.weight, layer.bias)]
    e1 = torch.eye(2)[:1]
    fast, slow = (
        torch.autograd.grad(sum(u.sum() for u in mixed_jet(f, x, [e1], 2).values()), turn)[0]
        for f in (lambda x: net(x @ turn), lambda x: perceptron._one_by_one(x @ turn, parameters))
    )
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)


@needs_kernel
def test_gradients_can_be_differentiated_again():
    net, x = network("none", "none", widths=(3,)), torch.rand(4, 2)

    def value(*weights):
        found = mixed_jet(lambda x: tanh_layers(x, list(weights)), x, [torch.ones(2)], 2)
        return sum(u.square().sum() for u in found.values())

    parameters = tuple(p for layer in net.layers for p in (layer.weight, layer.bias))
    assert torch.autograd.gradgradcheck(value, parameters)


@needs_kernel
def test_threads_give_the_same_answer():
    net, x = network("none", "none"), torch.rand(200, 2)

    def both():
        found = list(mixed_jet(net, x, [torch.ones(2)], 2).values())
        return found, loss_and_gradient(found, net)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = both()
        torch.set_num_threads(2)
        two = both()
    finally:
        torch.set_num_threads(before)
    close(one[0], two[0])
    close(one[1], two[1])


@needs_kernel
def test_tanh_is_right_to_the_last_digits():
    x = torch.cat([torch.linspace(-25, 25, 4001), torch.logspace(-12, 0, 500)])[:, None]
    one, zero = torch.ones(1, 1), torch.zeros(1)
    y = mixed_jet(lambda x: tanh_layers(x, [one, zero, one, zero]), x, [torch.ones(1)], 0)[0,]
    torch.testing.assert_close(y, torch.tanh(x), rtol=1e-15, atol=1e-300)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_precisions_and_other_expansions_go_layer_by_layer(dtype):
    net, x = network("none", "none").to(dtype), torch.rand(5, 2, dtype=dtype)
    u = mixed_jet(net, x, list(torch.eye(2, dtype=dtype)), [(2, 0), (0, 2)])
    found = laplacian(net, x)
    torch.testing.assert_close(found.laplacian, u[2, 0] + u[0, 2])


def test_vectorised_gradients_go_layer_by_layer():
    net, x = network("none", "none", widths=(3,)), torch.rand(5, 2)
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def bend(weights, x):
        found = mixed_jet(lambda x: torch.func.functional_call(net, weights, (x,)), x[None], [torch.ones(2)], 2)
        return found[2,][0, 0]

    rows = torch.func.vmap(torch.func.grad(bend), (None, 0))(weights, x)
    total = torch.autograd.grad(mixed_jet(net, x, [torch.ones(2)], 2)[2,].sum(), list(net.parameters()))
    close([row.sum(0) for row in rows.values()], total)


def test_programme_of_a_heat_equation_is_short():
    steps, slopes, products = perceptron._programme(algebra((1, 0), (0, 2)))
    assert (len(steps), len(slopes), len(products)) == (5, 4, 12)


def test_without_a_compiler_layers_go_one_by_one(monkeypatch):
    net, x = network("periodic", "odd"), torch.rand(9, 2)
    fast = mixed_jet(net, x, [torch.ones(2)], 2)
    monkeypatch.setattr(perceptron, "native_library", lambda source: None)
    close(list(mixed_jet(net, x, [torch.ones(2)], 2).values()), list(fast.values()))
