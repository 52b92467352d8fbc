r"""Random numbers as a function of their place, not of history.

A counter-based generator: the number for (seed, epoch, index, stream) is a hash of these integers. A resumed, sharded
or reordered run therefore sees exactly the numbers of the uninterrupted one, on every device, without worker processes.
The mixer is SplitMix64 (Steele, Lea, Flood 2014), in wrapping int64 arithmetic.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed 64-bit integer
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
_MASK = (1 << 64) - 1


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift; torch's is arithmetic on signed integers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def derive_seed(*parts: int) -> int:
    """One non-negative 63-bit seed from several integers, for example (run seed, step, rank).

    >>> derive_seed(0, 1) == derive_seed(0, 1), derive_seed(0, 1) == derive_seed(1, 0)
    (True, False)
    """
    state = 0
    for part in parts:
        state = (state + _GOLDEN + part) & _MASK
        state = ((state ^ (state >> 30)) * _MIX_1) & _MASK
        state = ((state ^ (state >> 27)) * _MIX_2) & _MASK
        state ^= state >> 31
    return state >> 1


def uniform(index: Tensor, *key: int) -> Tensor:
    r"""Numbers in :math:`[0, 1)`, one per entry of ``index``, that depend on ``index`` and ``key`` alone.

    Args:
        index: integers, any shape and device.
        key: further integers, for example seed, epoch and stream.

    Shape: the shape of ``index``, float32 (24 random bits).

    >>> uniform(torch.tensor([3, 5]), 0, 7)[1] == uniform(torch.tensor([5]), 0, 7)[0]
    tensor(True)
    """
    bits = _mix(_mix(index.to(torch.int64) + _GOLDEN) ^ derive_seed(*key))
    return _shift_right(bits, 40).to(torch.float32) * 2.0**-24


def normal(index: Tensor, *key: int) -> Tensor:
    r"""Standard normal numbers :math:`\sqrt{-2 \ln u}\,\cos 2 \pi v` (Box and Muller 1958); see :func:`uniform`."""
    radius = (-2 * torch.log1p(-uniform(index, *key, 0))).sqrt_()
    return radius * torch.cos(2 * torch.pi * uniform(index, *key, 1))


def integers(index: Tensor, high: int, *key: int) -> Tensor:
    """Integers in ``0 ... high - 1``, one per entry of ``index``; see :func:`uniform`."""
    return (uniform(index, *key) * high).to(torch.int64).clamp_(max=high - 1)


def permutation(count: int, *key: int) -> Tensor:
    """A permutation of ``0 ... count - 1`` that depends on ``key`` alone."""
    bits = _mix(_mix(torch.arange(count) + _GOLDEN) ^ derive_seed(*key))
    return torch.argsort(bits, stable=True)


def reseed(*parts: int) -> None:
    """Set torch's own generators, on every device in use, to a seed that depends on ``parts`` alone.

    Meant for every step of a training: unlike ``torch.manual_seed`` it queues nothing for devices that are not in use.
    """
    seed = derive_seed(*parts)
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
