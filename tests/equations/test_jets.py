"""Jets against nested autograd, polynomials and the chain rule."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import evolvent as ev
from evolvent.equations import (
    JetFallbackWarning,
    composition,
    coordinate_jets,
    jet,
    laplacian,
    mixed_jet,
    register_elementwise,
)
from evolvent.equations.fallback import nested_derivatives
from evolvent.errors import ConfigError, ShapeError

ANYWHERE = (
    torch.tanh, torch.sigmoid, F.softplus, F.logsigmoid, torch.exp, torch.expm1, torch.sin, torch.cos, torch.sinh,
    torch.cosh, torch.atan, torch.erf, F.silu, F.elu, F.celu, F.selu, F.relu, F.relu6, F.leaky_relu, torch.abs,
    F.hardtanh, F.hardswish, F.gelu, F.mish, F.softsign, F.tanhshrink, torch.square,
)  # fmt: skip
POSITIVE = (torch.log, torch.log1p, torch.sqrt, torch.rsqrt, torch.reciprocal)


@pytest.mark.parametrize("function", ANYWHERE, ids=lambda f: f.__name__)
def test_functions_of_one_number(agrees, function):
    agrees(function, 2 * torch.randn(2, 5))


@pytest.mark.parametrize("function", POSITIVE, ids=lambda f: f.__name__)
def test_functions_of_positive_numbers(agrees, function):
    agrees(function, torch.rand(7) + 0.5)


def test_functions_with_arguments(agrees):
    x = 2 * torch.randn(9)
    agrees(lambda u: F.softplus(u, beta=30.0, threshold=10.0), x)
    agrees(lambda u: F.leaky_relu(u, 0.2), x)
    agrees(lambda u: u.clamp(-0.5, 1.0), x)
    agrees(lambda u: u.clamp(torch.tensor(-0.5), torch.tensor([1])), x)
    agrees(lambda u: (u * u).clamp(max=u.exp()), x)
    agrees(lambda u: F.gelu(u, approximate="tanh"), x)
    agrees(F.hardsigmoid, x, like=lambda u: (u / 6 + 0.5).clamp(0, 1))  # torch has no second derivative of it


MODULES = {
    "linear": (nn.Linear(3, 4), (5, 3)),
    "linear of one point": (nn.Linear(3, 4), (3,)),
    "linear of sequences": (nn.Linear(3, 4, bias=False), (2, 5, 3)),
    "convolution": (nn.Conv2d(2, 4, 3, stride=2, padding=1), (2, 2, 5, 5)),
    "grouped convolution, circular": (nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular", groups=2), (2, 2, 4, 4)),
    "convolution in 1d": (nn.Conv1d(2, 3, 3), (2, 2, 6)),
    "transposed convolution": (nn.ConvTranspose2d(3, 2, 3, stride=2), (2, 3, 4, 4)),
    "group normalisation": (nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "layer normalisation": (nn.LayerNorm([4, 5]), (2, 3, 4, 5)),
    "instance normalisation": (nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5)),
    "batch normalisation": (nn.BatchNorm2d(3), (2, 3, 4, 5)),
    "batch normalisation, evaluated": (nn.BatchNorm1d(3).eval(), (4, 3)),
    "root mean square normalisation": (nn.RMSNorm(3), (4, 3)),
    "average pooling": (nn.AvgPool2d(2), (2, 3, 4, 6)),
    "adaptive average pooling": (nn.AdaptiveAvgPool2d(2), (2, 3, 4, 6)),
    "maximum pooling": (nn.MaxPool2d(3, 2, 1), (2, 3, 4, 6)),
    "adaptive maximum pooling": (nn.AdaptiveMaxPool2d(2), (2, 3, 4, 6)),
    "dropout": (nn.Dropout(0.4), (6, 3)),
    "dropout of channels": (nn.Dropout2d(0.4), (3, 4, 2, 2)),
    "in place": (nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 3), nn.SiLU(True)), (4, 3)),
    "prelu": (nn.PReLU(3), (4, 3, 2)),
    "softmax": (nn.Softmax(1), (4, 3)),
    "log softmax": (nn.LogSoftmax(-1), (4, 3)),
    "upsampling": (nn.Upsample(scale_factor=2), (2, 3, 3, 3)),
    "flatten": (nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Tanh()), (2, 3, 4)),
    "padding": (nn.Sequential(nn.ConstantPad2d(1, 2.0), nn.ReflectionPad2d(1), nn.Sigmoid()), (2, 3, 4, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(agrees, name):
    module, shape = MODULES[name]
    agrees(module.double(), torch.randn(shape))


class SqueezeExcite(nn.Module):
    """Channels weighted by what a small network makes of their means."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, u):
        return u * F.sigmoid(self.last(F.silu(self.first(F.adaptive_avg_pool2d(u, 1)))))


PLAIN = {
    "arithmetic": lambda u: (2 - u) * u / (1 + u * u) - u**3 + 2 ** (0.1 * u) + 1 / (u.square() + 1),
    "shapes": lambda u: torch.cat([u.T.reshape(3, 4), torch.ones(3, 1)], 1).permute(1, 0).flip(0).unsqueeze(0) ** 2,
    "broadcasting": lambda u: u.sum(0) * u + u.mean(1, keepdim=True) * torch.ones(2, 1, 3) + torch.arange(3.0),
    "indexing": lambda u: u[:, :1] * u[:, [2, 0]] + u[u.detach() > -9].view(4, 3)[..., 1:] * u[0, 1],
    "matrices": lambda u: u @ u.T @ torch.eye(4) + torch.einsum("ij,kj->ik", u, u) * torch.eye(4).matmul(u)[:, :1],
    "choices": lambda u: torch.where(u > 0, u**2, u) + torch.maximum(u, u * u) + u.max(1, keepdim=True)[0] * u.max(),
    "pieces": lambda u: sum(a * b for a, b in zip(u.unbind(1), torch.split(u, 1, dim=1), strict=True)),
    "statistics": lambda u: torch.logsumexp(u, 1) * u.var(1) + u.std(0).sum(),
    "in place": lambda u: (u * 1.0).mul_(u).add_(1).tanh_(),
    "constant": lambda u: torch.ones(2, 2),
    "detached": lambda u: u * u.detach(),
    "masked": lambda u: u.masked_fill(torch.eye(4, 3) > 0, 0.0).exp(),
    "powers of each entry": lambda u: u ** torch.arange(3) + u.square() ** torch.tensor([[0.5], [2], [-1], [0]]),
    "axes": lambda u: torch.moveaxis(u**2, 0, 1) @ u.moveaxis(0, -1).T,
    "differences": lambda u: torch.diff(u**2, prepend=torch.full((4, 1), 9.0), append=torch.ones(4, 1)),
    "differences after a constant": lambda u: torch.diff(torch.ones(4, 3), n=2, prepend=u[:, :1] ** 2),
    "bytes": lambda u: (u - torch.tensor([3], dtype=torch.uint8)).sub(torch.tensor([7], dtype=torch.uint8), alpha=99),
    "single precision": lambda u: (u / torch.tensor([3.1], dtype=torch.float32)) ** 2,
    "conversions to whole numbers": lambda u: (9 * u - (9 * u).to(torch.long) - u.type_as(torch.tensor(1))) ** 2,
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_plain_code(agrees, name):
    agrees(PLAIN[name], torch.randn(4, 3))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (2, 3, 1, 2)])
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_softmax_without_an_axis_takes_that_of_torch(agrees, function, shape):
    agrees(function, torch.randn(shape), order=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda u: F.softmax(u, -1, dtype=torch.float64),
        lambda u: torch.softmax(u, 0, torch.float64),
        lambda u: u.log_softmax(-1, torch.float64),
    ],
)
def test_softmax_gives_the_precision_asked_for(function):
    x = torch.randn(5, dtype=torch.float32)
    torch.testing.assert_close(jet(function, x, torch.ones(5), 1)[0], function(x), rtol=1e-14, atol=1e-14)


def test_augmented_assignment_changes_what_the_other_name_sees(agrees):
    def f(u):
        v = w = u * u
        v += u
        return w * u

    agrees(f, torch.randn(5))


def double_column(u):
    u = u * 1
    u[:, 0].mul_(2)
    return u**2


def double_behind_a_slice(u):
    u = u * 1
    column = u[:, 0]
    u.mul_(2)
    return column**2


def add_to_zeros(u):
    total = torch.zeros(4, 3)
    total.add_(u**2)
    return total


def add_to_column(u):
    total = torch.zeros(4, 3)
    column = total[:, 0]
    column += u[:, 0] ** 2
    return total


@pytest.mark.parametrize("f", [double_column, double_behind_a_slice, add_to_zeros, add_to_column])
def test_operations_in_place_reach_all_that_share_the_memory(agrees, f):
    with pytest.warns(JetFallbackWarning, match="shares memory|does not depend on the input"):
        agrees(f, torch.randn(4, 3))


def detached_before(u):
    u = u * 2
    before = u.detach()
    u += 1
    return before * u


def detached_after(u):
    u = u * 2
    u += 1
    return u.detach() * u


def test_detached_tensors_share_the_memory(agrees):
    agrees(detached_after, torch.randn(4, 3))
    x = torch.randn(4, 3)
    with pytest.warns(JetFallbackWarning, match="shares memory"):
        found = jet(detached_before, x, torch.ones(3), 1)
    torch.testing.assert_close(found, [(2 * x + 1) ** 2, 2 * (2 * x + 1)])


def test_operations_in_place_keep_the_shape_and_the_precision():
    x = torch.tensor([0.5], dtype=torch.float32)

    def doubled(u):
        u = u * 1
        u *= torch.tensor([2.0], dtype=torch.float64)
        return u

    def widened(u):
        u = u * 1
        u += torch.ones(3, dtype=torch.float32)
        return u

    assert [part.dtype for part in jet(doubled, x, torch.ones(1), 1)] == [torch.float32] * 2
    with pytest.warns(JetFallbackWarning), pytest.raises(RuntimeError, match="broadcast shape"):
        jet(widened, x, torch.ones(1), 1)


def test_constants_are_written_in_place(agrees):
    def steps(u):
        v = u * 1
        v.floor_()
        return v * u

    agrees(steps, torch.randn(5), 2)


@pytest.mark.parametrize("exponent", [torch.tensor([1.0, 2.0]), nn.Parameter(torch.tensor([1.0, 2.0]))])
def test_whole_powers_of_tiny_numbers_are_finite(exponent):
    found = jet(lambda u: u**exponent, torch.tensor([1e-200, 0.0]), torch.ones(2), 4)
    assert [part.tolist() for part in found[1:]] == [[1, 0], [0, 2], [0, 0], [0, 0]]


def test_learnable_powers(agrees):
    """Also of negative numbers, where a logarithm has no value, with gradients in the exponent."""
    x, exponent = torch.tensor([0.3, -1.2, 2.0]), nn.Parameter(torch.tensor(2.0))
    agrees(lambda u: u**exponent, x)
    agrees(lambda u: u ** nn.Parameter(torch.tensor([2.0, 3.0, 0.5])), x)
    positive = x.abs()
    for order in range(4):
        ours = jet(lambda u: u**exponent, positive, torch.ones(3), order)[order]
        power = torch.tensor(2.0, requires_grad=True)
        slope = math.prod([power - k for k in range(order)], start=torch.ones(())) * positive ** (power - order)
        for found, like in ((ours, exponent), (slope, power)):
            like.grad = None
            found.sum().backward()
        torch.testing.assert_close(exponent.grad, power.grad)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("points", [7, composition._WORTH_IT])
@pytest.mark.parametrize("f", [lambda u, p: u.clamp(p, p + 0.5), lambda u, p: (u * u + 1) ** p])
def test_parameters_of_functions_get_their_gradients(f, points, recorded):
    x, p = torch.randn(points, requires_grad=recorded), nn.Parameter(torch.tensor(0.1))
    ours = torch.autograd.grad(jet(lambda u: f(u, p), x, torch.ones(1), 1)[0].sum(), p)
    torch.testing.assert_close(ours, torch.autograd.grad(f(x, p).sum(), p))


@pytest.mark.parametrize("base", [0, torch.zeros(3), torch.tensor([0.0, 1.0, 2.0])])
def test_powers_of_zero_fall_back(base, agrees):
    with pytest.warns(JetFallbackWarning, match="power of a base that is not positive"):
        agrees(lambda u: base**u, torch.rand(3) + 0.5, 2)


def test_exponents_that_depend_on_the_input(agrees):
    agrees(lambda u: u.square() ** (u + 1), torch.randn(5))
    x = torch.tensor([0.3, -1.2])
    with pytest.warns(JetFallbackWarning):
        torch.testing.assert_close(jet(lambda u: u ** (0 * u + 2), x, torch.ones(2), 0)[0], x**2)


def test_numbers_keep_the_precision_of_the_tensor():
    torch.set_default_dtype(torch.float32)
    found = jet(lambda u: 2**u, torch.zeros(1, dtype=torch.float64), torch.ones(1), 1)
    assert found[1].item() == pytest.approx(math.log(2), rel=1e-14)


@pytest.mark.parametrize("f", [lambda u, n: u / n, lambda u, n: n**u, lambda u, n: u.sub(n, alpha=0.1)])
def test_whole_numbers_are_taken_in_the_precision_of_the_tensor(f):
    torch.set_default_dtype(torch.float32)
    u, n = torch.tensor([0.3], dtype=torch.float64), torch.tensor([3, 7])
    torch.testing.assert_close(jet(lambda u: f(u, n), u, torch.ones(1), 0)[0], f(u, n.double()), rtol=1e-15, atol=1e-15)


def test_sums_of_whole_numbers_have_no_derivatives():
    value, slope = jet(lambda u: u**2 - u.sum(dtype=torch.long), torch.tensor([1.5, 2.5]), torch.ones(2), 1)
    assert value.tolist() == [-0.75, 3.25]
    assert slope.tolist() == [3, 5]


def test_maximum_pooling_with_places(agrees):
    pool, undo = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    u = torch.randn(3, 2, 4, 4)
    agrees(lambda u: pool(u)[0], u)
    assert torch.equal(jet(lambda u: u * undo(*pool(u.detach())), u, u, 0)[0], u * undo(*pool(u)))


@pytest.mark.parametrize(
    ("pool", "axes"),
    [
        (torch.adaptive_max_pool1d, 1),
        (torch._C._nn.adaptive_max_pool2d, 2),
        (torch._C._nn.adaptive_max_pool3d, 3),
    ],
)
def test_adaptive_pools_of_torch_give_places_too(agrees, pool, axes):
    agrees(lambda u: torch.mul(*pool(u, 2)), torch.randn(2, 3, *(4,) * axes), 2)


def test_squeeze_and_excite(agrees):
    agrees(SqueezeExcite(), torch.randn(2, 4, 3, 3))


NETWORKS = {
    "resnet": ({"blocks": (1, 1), "channels": (4, 8)}, (2, 3, 8, 8)),
    "hamiltonian": ({"channels": (4, 8), "blocks": 1, "image_size": 8}, (2, 3, 8, 8)),
    "point_resnet": ({"layers": 3}, (4, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_the_library(agrees, name):
    options, shape = NETWORKS[name]
    agrees(ev.create_model(name, **options).double(), torch.randn(shape), order=2)


@pytest.mark.parametrize("gradient", ["reversible", "checkpoint:2", "checkpoint:binomial:2", "adjoint"])
@pytest.mark.parametrize("recorded", [True, False])
def test_gradient_strategies_let_jets_through(gradient, recorded):
    flow = ev.Evolution([ev.dynamics.Hamiltonian(2) for _ in range(3)], ev.integrators.Verlet(), 3, 0.1).double()
    x, direction = torch.randn(2, 4, 3, 3), torch.randn(4, 3, 3)
    expected = jet(flow, x, direction, 1)
    flow.gradient = gradient
    with torch.set_grad_enabled(recorded):
        found = jet(flow, x, direction, 1)
    for a, b in zip(found, expected, strict=True):
        assert a.requires_grad == recorded
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("recorded", [True, False])
def test_fixed_points_have_jets(recorded):
    flow = ev.Evolution(ev.dynamics.Hamiltonian(2), ev.integrators.ImplicitMidpoint(), 2, 0.1).double()
    x, direction, h = torch.randn(2, 4, 3, 3), torch.randn(4, 3, 3), 1e-4
    with torch.set_grad_enabled(recorded):
        found = jet(flow, x, direction, 1)[1]
    difference = (flow(x + h * direction) - flow(x - h * direction)) / (2 * h)
    torch.testing.assert_close(found, difference, rtol=1e-6, atol=1e-6)


@given(degree=st.integers(0, 5), order=st.integers(0, 4), shape=st.lists(st.integers(1, 3), max_size=3))
def test_polynomials_are_exact(degree, order, shape):
    x, direction = torch.randn(shape), torch.randn(shape)
    found = jet(lambda u: u**degree, x, direction, order)
    for k, u in enumerate(found):
        expected = math.perm(degree, k) * x ** max(degree - k, 0) * direction**k
        torch.testing.assert_close(u, expected, rtol=1e-12, atol=1e-12)


@given(order=st.integers(1, 4), width=st.integers(1, 5), points=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_jet_of_a_composition_is_the_jet_along_a_curve(order, width, points, seed):
    torch.manual_seed(seed)
    inner, outer = nn.Sequential(nn.Linear(2, width), nn.Tanh()), nn.Sequential(nn.Linear(width, 3), nn.SiLU())
    x, direction = torch.randn(points, 2), torch.randn(points, 2)
    whole = jet(nn.Sequential(inner, outer), x, direction, order)
    bends = [u / math.factorial(k) for k, u in enumerate(jet(inner, x, direction, order))]
    curve = lambda s: outer(sum(u * s**k for k, u in enumerate(bends)))  # noqa: E731
    along = jet(curve, torch.zeros(1), torch.ones(1), order)
    for a, b in zip(whole, along, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@given(dims=st.integers(1, 3), order=st.integers(1, 3), seed=st.integers(0, 99))
def test_mixed_derivatives_agree_with_nested_autograd_and_are_symmetric(dims, order, seed):
    torch.manual_seed(seed)
    f, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(2, 3)
    directions = list(torch.randn(dims, 3))
    found = mixed_jet(f, x, directions, order)
    theirs = nested_derivatives(f, [x], [[d] for d in directions], list(found))
    backwards = mixed_jet(f, x, directions[::-1], order)
    assert all(sum(index) <= order for index in found)
    for index, u in found.items():
        torch.testing.assert_close(u, theirs[index], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(u, backwards[index[::-1]], rtol=1e-10, atol=1e-10)


def test_coordinate_derivatives_in_one_pass():
    x, t = torch.randn(2, 6, 1)
    u, [[u_x, u_xx], [u_t]] = coordinate_jets(lambda x, t: torch.sin(2 * x) * torch.exp(t * x), [x, t], [2, 1])
    s, c, e = torch.sin(2 * x), torch.cos(2 * x), torch.exp(t * x)
    torch.testing.assert_close(u, s * e)
    torch.testing.assert_close(u_x, (2 * c + t * s) * e)
    torch.testing.assert_close(u_xx, (-4 * s + 4 * t * c + t * t * s) * e)
    torch.testing.assert_close(u_t, x * s * e)


def loss_of(derivatives):
    return sum((u * (k + 1)).square().mean() for k, u in enumerate(derivatives))


def residual_network():
    body = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 6), nn.GELU(), nn.Linear(6, 2))
    return lambda u: u + body(u) * torch.sigmoid(u), list(body.parameters())


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_gradients_of_losses_through_derivatives(order):
    f, weights = residual_network()
    x, direction = torch.randn(5, 2, requires_grad=True), torch.randn(2, requires_grad=True)
    places = [x, direction, *weights] if order else [x, *weights]
    theirs = nested_derivatives(f, [x], [[direction.expand(5, 2)]], [(k,) for k in range(order + 1)])
    ours = torch.autograd.grad(loss_of(jet(f, x, direction, order)), places)
    for a, b in zip(ours, torch.autograd.grad(loss_of(theirs.values()), places), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_second_derivatives_of_losses():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x, direction = torch.randn(4, 2), torch.ones(2)
    theirs = loss_of(nested_derivatives(net, [x], [[direction.expand(4, 2)]], [(0,), (1,), (2,)]).values())
    found = []
    for loss in (loss_of(jet(net, x, direction, 2)), theirs):
        first = torch.autograd.grad(loss, net[0].weight, create_graph=True)[0]
        found.append(torch.autograd.grad(first.square().sum(), net[0].weight)[0])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_under_torch_func():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    x, weights = torch.randn(4, 2), dict(net.named_parameters())

    def loss(weights, x):
        return loss_of(jet(lambda u: torch.func.functional_call(net, weights, (u,)), x[None], torch.ones(2), 2))

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for name, found in each.items():
        for row, point in zip(found, x, strict=True):
            torch.testing.assert_close(row, torch.autograd.grad(loss(weights, point), weights[name])[0])


@pytest.mark.parametrize("activation", [torch.tanh, torch.sin], ids=["tanh", "sin"])
@pytest.mark.parametrize("indices", [((1, 0), (0, 2)), ((4, 0),), ((2, 1), (1, 2)), ((0, 0),)])
def test_compiled_and_plain_compositions_agree(activation, indices, dtype, tolerance, monkeypatch):
    x, directions = torch.randn(700, 3, dtype=dtype, requires_grad=True), list(torch.randn(2, 3))
    found = {}
    for least in (1, 10**9):
        monkeypatch.setattr(composition, "_WORTH_IT", least)
        derivatives = mixed_jet(lambda u: activation(u * u), x, directions, indices)
        loss = sum(u.square().mean() for u in derivatives.values())
        with torch.no_grad():
            values = mixed_jet(lambda u: activation(u * u), x, directions, indices)
        found[least] = [*derivatives.values(), *values.values(), *torch.autograd.grad(loss, x)]
    for a, b in zip(*found.values(), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance["rtol"], atol=tolerance["atol"] * (1 + b.abs().max().item()))


def test_precision_and_tape_follow_the_input(dtype):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh()).to(dtype)
    found = jet(net, torch.randn(4, 2, dtype=dtype), torch.ones(2), 3)
    assert {u.dtype for u in found} == {dtype}
    with torch.no_grad():
        assert not any(u.requires_grad for u in jet(net, torch.randn(4, 2, dtype=dtype), torch.ones(2), 3))


def test_running_statistics_are_updated_once():
    ours, plain = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    x = torch.randn(5, 3)
    jet(ours, x, torch.ones(3), 2)
    plain(x)
    torch.testing.assert_close(ours.state_dict(), plain.state_dict())


class Remembering(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, u):
        self.mean.mul_(0.9).add_(0.1 * self.weight)
        return u * self.weight + self.mean


def test_buffers_keep_no_graph_where_none_is_recorded():
    module, x = Remembering(), torch.randn(5, 3)
    with torch.no_grad():
        for _ in range(2):
            jet(module, x, torch.ones(3), 1)
    assert not module.mean.requires_grad
    torch.testing.assert_close(module.mean, torch.full((3,), 0.19))


def test_what_cannot_be_asked_is_refused():
    x = torch.randn(4, 2)
    with pytest.raises(ShapeError, match=r"shape of x, \(4, 2\)"):
        jet(torch.tanh, x, torch.ones(3), 1)
    with pytest.raises(ConfigError, match="order must be a whole number"):
        jet(torch.tanh, x, torch.ones(2), -1)
    with pytest.raises(ConfigError, match="must return one tensor"):
        jet(lambda u: {"u": u}, x, torch.ones(2), 1)
    with pytest.raises(ConfigError, match="no directions"):
        mixed_jet(torch.tanh, x, [], 1)
    for wrong in ([(1,)], [2], [(1, 1.5)], [], 2.0, torch.tensor(1.5)):
        with pytest.raises(ConfigError, match=r"indices|whole number"):
            mixed_jet(torch.tanh, x, [torch.ones(2)] * 2, wrong)
    for indices in ({(1, 0)}, {(1, 0): "u_x"}, (index for index in [(1, 0)])):
        assert set(mixed_jet(torch.tanh, x, [torch.ones(2)] * 2, indices)) == {(0, 0), (1, 0)}
    with pytest.raises(ShapeError, match="direction must be a tensor like x, got list"):
        jet(torch.tanh, x, [1.0, 0.0], 1)
    with pytest.raises(ShapeError, match="taken at a tensor, got list"):
        jet(torch.tanh, [1.0, 0.0], torch.ones(2), 1)
    with pytest.raises(ConfigError, match="as many orders"):
        coordinate_jets(torch.tanh, [x], [1, 2])


def test_a_function_with_too_few_derivatives_says_so():
    register_elementwise(torch.special.erfcx, lambda u: 2 * u * torch.special.erfcx(u) - 2 / math.sqrt(math.pi))
    jet(torch.special.erfcx, torch.ones(1), torch.ones(1), 1)
    with pytest.raises(ConfigError, match=r"registered with 1 derivatives, and order 2"):
        jet(torch.special.erfcx, torch.ones(1), torch.ones(1), 2)


@pytest.mark.parametrize("x", [torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.int64)])
def test_points_of_another_precision_are_refused(x):
    net = ev.create_model("perceptron", width=4, layers=1).double()
    with pytest.raises(ShapeError, match=r"got (float32|int64) of shape \(3, 2\)"):
        jet(net, x, torch.ones(2), 1)
    with pytest.raises(ShapeError, match=r"got (float32|int64) of shape \(3, 2\)"):
        laplacian(net, x)
