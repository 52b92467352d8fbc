"""Differential operators whose coefficients differ from pixel to pixel, as sums over the taps of their stencils."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd.forward_ad import unpack_dual
from torch.nn import functional as F
from torch.utils.flop_counter import register_flop_formula

from evolvent._core.errors import ShapeError
from evolvent._core.native import native_library
from evolvent.operators.convolution import channel_major

_SOURCE = Path(__file__).with_suffix(".cpp")
_NATIVE_SIZES = (1, 3, 5, 7)


def apply_derivatives(u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> Tensor:
    r"""Sums of derivatives with a coefficient of its own at every pixel, without ever forming the derivatives.

    .. math:: v_{p m g}(x) = \sum_t \Bigl( \sum_\alpha a_{m \alpha g}(x)\, S_{g \alpha}(t) \Bigr) u_{p m g}(x + t)

    The coefficients are contracted with the stencils first, and all partitions :math:`p` share the result. The backward
    pass computes it again, so nothing but the arguments is kept. On a CPU with a C++ compiler this is one compiled
    pass, which ``torch.compile`` takes whole; elsewhere, in exported programs and under ``torch.func``, it is made of
    torch's operations.

    Args:
        u: features, channels counted by partition p, field m, component g.
        coefficients: channels counted by field m, derivative alpha, component g, at the pixels of the answer.
        stencils: a constant, (components, derivatives, taps), for taps row by row.
        padding: zeros on each side of ``u``.

    Shape: u (B, P M G, H, W), coefficients (B, M D G, H', W'), stencils (G, D, T) to (B, P M G, H', W').
    """
    size = round(stencils.shape[2] ** 0.5)
    expected = tuple(side + 2 * padding - size + 1 for side in u.shape[2:])
    if tuple(coefficients.shape[2:]) != expected or min(expected) < 1:
        raise ShapeError(
            f"features of shape {tuple(u.shape)} with padding {padding} and stencils of {size} x {size} pixels need "
            f"coefficients for {expected} pixels, got shape {tuple(coefficients.shape)}."
        )
    dtype = torch.promote_types(u.dtype, torch.float32)
    wide = u.to(dtype), coefficients.to(dtype), stencils.to(dtype)
    form = window_sum if torch.compiler.is_exporting() or _are_transformed(u, coefficients) else tap_sum
    with torch.autocast(u.device.type, enabled=False):
        return form(*wide, padding).to(u.dtype)


def _are_transformed(*tensors: Tensor) -> bool:
    """Whether ``torch.func`` or forward-mode derivatives follow them, of which a compiled pass knows nothing."""
    if torch.compiler.is_compiling():
        return False
    return any(is_functorch_wrapped_tensor(x) or unpack_dual(x).tangent is not None for x in tensors)


@torch.library.custom_op("evolvent::tap_sum", mutates_args=())
def tap_sum(u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> Tensor:
    """What :func:`apply_derivatives` gives, of arguments of one dtype, as one operation of PyTorch."""
    kernel = _native("forward", u, stencils)
    if kernel is None:
        parts = zip(_chunks(u), _chunks(coefficients), strict=True)
        return torch.cat([_weighted_sum(some, a, stencils, padding) for some, a in parts])
    u, a, s = channel_major(u), channel_major(coefficients), stencils.contiguous()
    answer = torch.empty(len(u), *a.shape[1:], dtype=u.dtype)
    kernel(*map(_address, (a, u, s, answer)), _sizes(u, a, s, padding))
    return answer.transpose(0, 1)


@torch.library.custom_op("evolvent::tap_sum_backward", mutates_args=())
def tap_sum_backward(
    g: Tensor, u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int
) -> tuple[Tensor, Tensor]:
    """Gradients of :func:`tap_sum` for ``u`` and ``coefficients``, given that of the answer."""
    kernel = _native("backward", u, stencils)
    if kernel is None:
        parts = zip(_chunks(g), _chunks(u), _chunks(coefficients), strict=True)
        found = [_gradients(some_g, some, a, stencils, padding) for some_g, some, a in parts]
        to_u, to_a = (torch.cat(part) for part in zip(*found, strict=True))
        return to_u, to_a
    g, u, a = (channel_major(t) for t in (g, u, coefficients))
    to_a, to_u, s = torch.empty_like(a), torch.empty_like(u), stencils.contiguous()
    kernel(*map(_address, (a, u, s, g, to_a, to_u)), _sizes(u, a, s, padding))
    return to_u.transpose(0, 1), to_a.transpose(0, 1)


@tap_sum.register_fake
def _(u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> Tensor:
    shape = (u.shape[0], u.shape[1], *coefficients.shape[2:])
    return _laid_out(u, shape, _native("forward", u, stencils))


@tap_sum_backward.register_fake
def _(g: Tensor, u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    kernel = _native("backward", u, stencils)
    return _laid_out(u, u.shape, kernel), _laid_out(u, coefficients.shape, kernel)


def _laid_out(like: Tensor, shape: Sequence[int], kernel: object) -> Tensor:
    """Memory of a shape in the order in which a compiled pass, or torch's own operations, leave it."""
    if kernel is None:
        return like.new_empty(shape)
    batch, channels, *pixels = shape
    return like.new_empty(channels, batch, *pixels).transpose(0, 1)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.padding = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, None]:
    u, coefficients, stencils = ctx.saved_tensors
    if torch.is_grad_enabled():  # second derivatives are asked for; u and coefficients count as independent
        to_u, to_a = torch.func.vjp(lambda u, a: _weighted_sum(u, a, stencils, ctx.padding), u, coefficients)[1](g)
    else:
        to_u, to_a = tap_sum_backward(g, u, coefficients, stencils, ctx.padding)
    return to_u, to_a, None, None


tap_sum.register_autograd(_backward, setup_context=_keep)


@register_flop_formula(torch.ops.evolvent.tap_sum)
def _forward_flops(u: torch.Size, a: torch.Size, stencils: torch.Size, *_: object, **__: object) -> int:
    """Two for each multiply-add: weights of the taps, and the sums over them."""
    return 2 * stencils[2] * (a.numel() + u[:2].numel() * a[2:].numel())


@register_flop_formula(torch.ops.evolvent.tap_sum_backward)
def _backward_flops(g: torch.Size, u: torch.Size, a: torch.Size, stencils: torch.Size, *_: object, **__: object) -> int:
    """The weights again, and the gradients of both."""
    return 2 * _forward_flops(u, a, stencils)


def _native(name: str, u: Tensor, stencils: Tensor) -> Any:
    """The compiled pass, if there is one for these arguments."""
    size = round(int(stencils.shape[2]) ** 0.5)  # a number also while PyTorch traces
    if u.device.type != "cpu" or u.dtype not in (torch.float32, torch.float64) or size not in _NATIVE_SIZES:
        return None
    library = native_library(_SOURCE)
    return library and getattr(library, f"{str(u.dtype).removeprefix('torch.')}_{name}_{size}")


def _address(t: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(t.data_ptr())


def _sizes(u: Tensor, a: Tensor, s: Tensor, padding: int) -> Any:
    components, derivatives, _ = s.shape
    fields = len(a) // (components * derivatives)
    partitions = len(u) // (components * fields)
    threads = torch.get_num_threads()
    values = (u.shape[1], fields, derivatives, components, partitions, *u.shape[2:], padding, threads)
    return (ctypes.c_long * len(values))(*values)


def _chunks(t: Tensor) -> tuple[Tensor, ...]:
    """Sample by sample on a CPU, where tap weights of one sample stay in the cache; all at once elsewhere."""
    return t.split(1) if t.device.type == "cpu" and len(t) else (t,)


def _tap_weights(coefficients: Tensor, stencils: Tensor) -> tuple[Tensor, ...]:
    """For each tap, its weights (B, 1, M, G, H', W')."""
    components, derivatives, _ = stencils.shape
    a = coefficients.unflatten(1, (-1, derivatives, components))
    return torch.einsum("bmdgyx,gdt->tbmgyx", a, stencils).unsqueeze(2).unbind(0)


def _windows(padded: Tensor, coefficients: Tensor, stencils: Tensor) -> list[Tensor]:
    """For each tap, the padded features it meets, (B, P, M, G, H', W'), as views."""
    components, derivatives, taps = stencils.shape
    size, fields = round(taps**0.5), coefficients.shape[1] // (components * derivatives)
    planes, (rows, columns) = padded.unflatten(1, (-1, fields, components)), coefficients.shape[2:]
    return [planes[..., y : y + rows, x : x + columns] for y in range(size) for x in range(size)]


def _weighted_sum(u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> Tensor:
    weights = _tap_weights(coefficients, stencils)
    seen = _windows(F.pad(u, (padding,) * 4), coefficients, stencils)
    products = (w * v for w, v in zip(weights, seen, strict=True))
    found = next(products)
    for product in products:
        found = found + product
    return found.flatten(1, 3)


def window_sum(u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> Tensor:
    """The same in few operations, for programs that others compile and run: one product of windows and weights."""
    components, derivatives, taps = stencils.shape
    size = round(taps**0.5)
    a = coefficients.unflatten(1, (-1, derivatives, components))
    weights = torch.einsum("bmdgyx,gdt->bmgyxt", a, stencils).unsqueeze(1)
    seen = F.pad(u, (padding,) * 4).unfold(2, size, 1).unfold(3, size, 1).flatten(4)
    return (weights * seen.unflatten(1, (-1, a.shape[1], components))).sum(-1).flatten(1, 3)


def _gradients(g: Tensor, u: Tensor, coefficients: Tensor, stencils: Tensor, padding: int) -> tuple[Tensor, Tensor]:
    """Of the features and of the coefficients."""
    padded = F.pad(u, (padding,) * 4)
    seen, to_padded = _windows(padded, coefficients, stencils), torch.zeros_like(padded)
    targets = _windows(to_padded, coefficients, stencils)
    g = g.reshape(seen[0].shape)
    to_weights = []
    for weight, v, target in zip(_tap_weights(coefficients, stencils), seen, targets, strict=True):
        target.addcmul_(weight.expand_as(g), g)
        to_weights.append((g * v).sum(1))
    to_a = torch.einsum("tbmgyx,gdt->bmdgyx", torch.stack(to_weights), stencils).flatten(1, 3)
    height, width = u.shape[2:]
    return to_padded[:, :, padding : padding + height, padding : padding + width].contiguous(), to_a
