"""Functions with operations that have no rule: right all the same, and said so."""

import pytest
import torch
from torch import nn
from torch.autograd import Function

from evolvent.equations import JetFallbackWarning, jet, laplacian, mixed_jet, register_rule
from evolvent.equations.expansion import RULES
from evolvent.equations.fallback import nested_derivatives
from evolvent.errors import ConfigError


class Gamma(nn.Module):
    """A module whose operation has no rule."""

    def forward(self, u):
        return torch.lgamma(u) * u


def test_the_warning_names_operation_and_module():
    net = nn.Sequential(nn.Linear(2, 2), nn.Softplus(), Gamma()).double()
    with pytest.warns(JetFallbackWarning, match=r"torch.lgamma has no rule \(in Gamma\).*nested autograd"):
        jet(net, torch.rand(3, 2), torch.ones(2), 1)


def test_answers_and_gradients_are_right():
    x, direction = (torch.rand(3) + 1).requires_grad_(), torch.tensor([1.0, -2.0, 0.5])
    with pytest.warns(JetFallbackWarning):
        found = jet(torch.lgamma, x, direction, 3)
    expected = [torch.lgamma(x), *(torch.polygamma(k, x) * direction ** (k + 1) for k in range(3))]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    grad = torch.autograd.grad(found[2].sum(), x)[0]
    torch.testing.assert_close(grad, torch.polygamma(2, x) * direction**2)


def test_mixed_derivatives_and_laplacians_fall_back_too():
    f = lambda x: torch.lgamma(x[:, 0] * x[:, 1])  # noqa: E731
    g = lambda x: torch.polygamma(0, x[:, 0] * x[:, 1])  # noqa: E731
    x = torch.rand(4, 2) + 1
    with pytest.warns(JetFallbackWarning):
        mixed = mixed_jet(f, x, list(torch.eye(2)), 2)
    product = x.prod(1)
    torch.testing.assert_close(mixed[1, 1], g(x) + product * torch.polygamma(1, product))
    with pytest.warns(JetFallbackWarning):
        found = laplacian(f, x)
    torch.testing.assert_close(found.gradient, g(x)[:, None] * x.flip(1))
    torch.testing.assert_close(found.laplacian, torch.polygamma(1, product) * x.square().sum(1))


def test_attention_has_higher_derivatives():
    attention = nn.MultiheadAttention(6, 2, batch_first=True).double()
    x, direction, h = torch.rand(2, 3, 6, dtype=torch.float64), torch.ones(6, dtype=torch.float64), 1e-3
    f = lambda x: attention(x, x, x, need_weights=False)[0]  # noqa: E731
    with pytest.warns(JetFallbackWarning, match="MultiheadAttention"):
        found = jet(f, x, direction, 2)
    difference = (f(x + h * direction) - 2 * f(x) + f(x - h * direction)) / h**2
    torch.testing.assert_close(found[2], difference, rtol=1e-4, atol=1e-4)


def test_normalisations_are_right_in_the_fallback(agrees):
    """PyTorch takes their statistics for constants from the second derivative on."""
    x, direction = torch.randn(4, 3), torch.randn(3)
    written = lambda u: (u - u.mean(1, keepdim=True)) / (u.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()  # noqa: E731
    expected = jet(lambda u: torch.exp(written(u)), x, direction, 3)
    with pytest.warns(JetFallbackWarning):
        found = jet(
            lambda u: torch.exp2(nn.functional.layer_norm(u, (3,)) / torch.log(torch.tensor(2.0))), x, direction, 3
        )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_hard_sigmoids_are_differentiated_in_the_fallback():
    net = nn.Sequential(nn.Hardsigmoid(), Gamma())
    x = torch.tensor([0.6])
    with pytest.warns(JetFallbackWarning):
        found = jet(net, x, torch.ones(1), 2)
    expected = nested_derivatives(lambda u: Gamma()(u / 6 + 0.5), [x], [[torch.ones(1)]], [(0,), (1,), (2,)])
    for k, u in enumerate(found):
        torch.testing.assert_close(u, expected[k,])


def test_hard_sigmoids_in_place_are_kept_in_the_fallback():
    def f(u):
        u = u * 1
        nn.functional.hardsigmoid(u, inplace=True)
        return torch.cumprod(u, 0)

    x = torch.tensor([0.3, -1.2])
    with pytest.warns(JetFallbackWarning, match="cumprod"):
        found = jet(f, x, torch.ones(2), 1)
    torch.testing.assert_close(found[0], f(x))
    shares = x / 6 + 0.5
    torch.testing.assert_close(found[1], torch.stack([torch.tensor(1 / 6), shares.sum() / 6]))


def test_derivatives_that_nobody_has_are_named():
    with (
        pytest.warns(JetFallbackWarning),
        pytest.raises(
            ConfigError, match=r"fewer derivatives in PyTorch than were asked for.*cdist.*lower order"
        ) as caught,
    ):
        jet(lambda u: torch.cdist(u, u), torch.randn(3, 2), torch.ones(2), 2)
    assert len(str(caught.value)) < 300


class Cube(Function):
    """A custom function, whose inside autograd does not see."""

    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return u * u * u

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad * ctx.saved_tensors[0] ** 2


def test_custom_functions_keep_their_gradients():
    weight = torch.tensor([0.5], requires_grad=True)
    with pytest.warns(JetFallbackWarning, match="custom autograd function"):
        found = jet(lambda u: Cube.apply(u * weight), torch.tensor([2.0]), torch.ones(1), 2)
    assert [u.item() for u in found] == pytest.approx([1.0, 1.5, 1.5])
    assert torch.autograd.grad(found[2], weight)[0].item() == pytest.approx(18 * 0.25 * 2)


class Rounded(Function):
    """Whole numbers, with the derivative of the identity."""

    @staticmethod
    def forward(ctx, u):
        return u.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


def rounded(u):
    return Rounded.apply(u) * u


def over_its_size(u):
    with torch.no_grad():
        size = u.abs().max()
    return u * size


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("f", "slope"), [(rounded, 2.3), (over_its_size, 1.3)])
def test_answers_are_the_same_where_no_gradients_are_recorded(f, slope, mode):
    with mode():
        x = torch.tensor([[1.3]])
        with pytest.warns(JetFallbackWarning, match=r"inside torch.no_grad or a custom autograd function"):
            found = jet(f, x, torch.ones(1), 1)[1], laplacian(f, x).gradient
    assert [u.item() for u in found] == pytest.approx([slope, slope])


def test_nothing_is_recorded_where_no_gradients_are():
    net, kept = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double(), []
    functions = lambda u: net(u) * net[0].weight.square().sum(), lambda u: net[0].bias.exp()
    keep = lambda t: kept.append(t.shape) or t  # noqa: E731
    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        found = [(*jet(f, torch.ones(7, 3), torch.ones(3), 2), *laplacian(f, torch.ones(7, 3))) for f in functions]
    assert not any(u.requires_grad for row in found for u in row)
    assert not any(7 in shape for shape in kept)  # no features of the points


def test_conditions_on_values_fall_back():
    with pytest.warns(JetFallbackWarning, match="torch.Tensor.__bool__"):
        found = jet(lambda u: u**2 if u.sum() > u.mean() * 0 and bool(u.max()) else u, torch.ones(1), torch.ones(1), 2)
    assert [u.item() for u in found] == [1, 2, 2]


def test_numbers_taken_out_of_tensors_fall_back():
    with pytest.warns(JetFallbackWarning, match="torch.Tensor.item has no rule"):
        found = jet(lambda u: u * u.sum().item() + u.exp(), torch.zeros(1), torch.ones(1), 2)
    assert [u.item() for u in found] == [1, 1, 1]


def test_running_statistics_count_once():
    net, plain = (nn.Sequential(nn.BatchNorm1d(3), nn.Softplus(), Gamma()).double() for _ in range(2))
    x = torch.rand(5, 3)
    with pytest.warns(JetFallbackWarning):
        jet(net, x, torch.ones(3), 2)
    plain(x)
    torch.testing.assert_close(net.state_dict(), plain.state_dict())


def test_an_error_of_the_function_is_its_own():
    with (
        pytest.warns(JetFallbackWarning),
        pytest.raises(TypeError, match="unsupported operand"),
    ):
        jet(lambda u: "a" - u, torch.ones(1), torch.ones(1), 1)


def test_a_rule_can_be_taught(monkeypatch):
    monkeypatch.setitem(RULES, torch.exp2, None)
    register_rule(torch.exp2, lambda u: torch.exp(u * 0.6931471805599453))
    assert jet(torch.exp2, torch.ones(1), torch.ones(1), 1)[0].item() == pytest.approx(2)
