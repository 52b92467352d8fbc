"""Sums over taps: compiled, eager and naive forms agree."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.nn import functional as F

from evolvent.errors import ShapeError
from evolvent.operators.differential import taps
from evolvent.operators.differential.taps import apply_derivatives


def naive(u, coefficients, stencils, padding):
    """All derivatives first, each by a convolution, then their sum."""
    components, derivatives, count = stencils.shape
    size = round(count**0.5)
    fields = coefficients.shape[1] // (components * derivatives)
    found = torch.zeros(*u.shape[:2], *coefficients.shape[2:], dtype=u.dtype)
    for c in range(u.shape[1]):
        g, m = c % components, c // components % fields
        for d in range(derivatives):
            derivative = F.conv2d(u[:, c : c + 1], stencils[g, d].view(1, 1, size, size), padding=padding)
            found[:, c] += coefficients[:, (m * derivatives + d) * components + g] * derivative[:, 0]
    return found


@st.composite
def arguments(draw):
    size, padding = draw(st.sampled_from([1, 3, 5, 7, 9])), draw(st.integers(0, 4))
    height, width = (draw(st.integers(max(1, size - 2 * padding), 19)) for _ in range(2))
    batch, partitions = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    fields, derivatives, components = (draw(st.integers(1, 3)) for _ in range(3))
    draws = torch.Generator().manual_seed(draw(st.integers(0, 100)))

    def random(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=draws)

    shape = [side + 2 * padding - size + 1 for side in (height, width)]
    u = random(batch, partitions * fields * components, height, width)
    coefficients = random(batch, fields * derivatives * components, *shape)
    return u, coefficients, random(components, derivatives, size**2), padding


def with_gradients(form, u, a, s, padding):
    u, a = u.clone().requires_grad_(), a.clone().requires_grad_()
    v = form(u, a, s, padding)
    return v, *torch.autograd.grad((v * torch.linspace(-1, 1, v.numel(), dtype=v.dtype).view_as(v)).sum(), (u, a))


@given(arguments())
@settings(max_examples=40)
def test_every_form_is_the_naive_one(given_arguments):
    expected = with_gradients(naive, *given_arguments)
    for form in (apply_derivatives, taps._weighted_sum, taps.window_sum):
        for found, right in zip(with_gradients(form, *given_arguments), expected, strict=True):
            torch.testing.assert_close(found, right, atol=1e-10, rtol=1e-10)


@given(arguments())
@settings(max_examples=20)
def test_without_a_compiler_all_is_the_same(given_arguments):
    expected = with_gradients(apply_derivatives, *given_arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(taps, "native_library", lambda _: None)
        found = with_gradients(apply_derivatives, *given_arguments)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def example(dtype=torch.float32):
    return torch.randn(2, 16, 9, 9, dtype=dtype), torch.randn(2, 24, 9, 9, dtype=dtype), torch.randn(4, 3, 25), 2


def test_single_precision_is_near_double():
    u, a, s, padding = example()
    expected = with_gradients(apply_derivatives, u.double(), a.double(), s.double(), padding)
    for found, right in zip(with_gradients(apply_derivatives, u, a, s, padding), expected, strict=True):
        torch.testing.assert_close(found, right.float(), atol=1e-3, rtol=1e-4)


def test_the_number_of_threads_does_not_matter():
    given_arguments, threads = example(), torch.get_num_threads()
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        found.append(with_gradients(apply_derivatives, *given_arguments))
    torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype):
    u, a, s, padding = example()
    v = apply_derivatives(u.to(dtype), a.to(dtype), s, padding)
    assert v.dtype == dtype
    torch.testing.assert_close(v.float(), apply_derivatives(u, a, s, padding), atol=0.5, rtol=0.05)


@pytest.mark.parametrize("compiler", [True, False])
def test_the_operation_keeps_the_rules_of_torch(compiler, monkeypatch):
    if not compiler:
        monkeypatch.setattr(taps, "native_library", lambda _: None)
    u, a, s, padding = example(torch.float64)
    torch.library.opcheck(taps.tap_sum, (u.requires_grad_(), a.requires_grad_(), s.double(), padding))


def test_coefficients_of_another_size_are_refused():
    u, a, s, _ = example()
    with pytest.raises(ShapeError, match="need coefficients"):
        apply_derivatives(u, a, s, 1)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_transforms_of_functions():
    u, a, s = torch.randn(1, 4, 4, 4).double(), torch.randn(1, 6, 4, 4).double(), torch.randn(2, 3, 9).double()

    def form(u):
        return apply_derivatives(u, a, s, 1)

    way = torch.randn_like(u)
    expected = form(way)  # the map is linear
    torch.testing.assert_close(torch.func.jvp(form, (u,), (way,))[1], expected)
    with forward_ad.dual_level():
        torch.testing.assert_close(forward_ad.unpack_dual(form(forward_ad.make_dual(u, way))).tangent, expected)
    back = torch.func.grad(lambda u: (form(u) * expected).sum())(u)
    assert (back * way).sum().item() == pytest.approx(expected.square().sum().item())
    torch.testing.assert_close(
        torch.vmap(lambda u: form(u[None])[0])(torch.cat([u, way])), torch.cat([form(u), expected])
    )


def test_second_derivatives():
    u, a, s, padding = torch.randn(1, 4, 4, 4), torch.randn(1, 6, 4, 4), torch.randn(2, 3, 9), 1

    def form(u, a):
        return apply_derivatives(u, a, s.double(), padding)

    both = u.double().requires_grad_(), a.double().requires_grad_()
    assert torch.autograd.gradgradcheck(form, both)


def test_second_derivatives_where_coefficients_are_made_from_the_features():
    """As in neural ePDOs; gradients must not take the way through the coefficients twice."""
    u, a, s, padding = torch.randn(1, 4, 4, 4).double(), torch.randn(6, 4).double(), torch.randn(2, 3, 9).double(), 1

    def form(u, a):
        return apply_derivatives(u, torch.einsum("kc,bcyx->bkyx", a, u), s, padding)

    def gradients(*, recorded: bool):
        both = u.clone().requires_grad_(), a.clone().requires_grad_()
        return torch.autograd.grad(form(*both).sin().sum(), both, create_graph=recorded)

    for found, expected in zip(gradients(recorded=True), gradients(recorded=False), strict=True):
        torch.testing.assert_close(found, expected)
    assert torch.autograd.gradgradcheck(form, (u.clone().requires_grad_(), a.clone().requires_grad_()))
    assert torch.autograd.gradgradcheck(lambda a: form(u, a), a.clone().requires_grad_())  # none is asked of u
