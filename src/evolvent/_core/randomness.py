r"""Random numbers as a function of their place, not of history.

A counter-based generator: the number at an index is a hash of the index and a key, and the key is made of the run's
seed, a :class:`Stream` and a place such as the epoch. A resumed, sharded or reordered run therefore sees exactly the
numbers of the uninterrupted one, on every device, without worker processes. The mixer is SplitMix64 (Steele, Lea, Flood
2014), in wrapping int64 arithmetic.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 2^64 / golden ratio, as a signed 64-bit integer
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
_MASK = (1 << 64) - 1


class Stream(IntEnum):
    """Every use of random numbers that depends on a seed. Values enter the keys: never change or reuse one."""

    ORDER = 0
    CROP_ROW = 1
    CROP_COLUMN = 2
    FLIP = 3
    EXPOSURE = 4
    TEST_NOISE = 5
    SUBSET = 6
    TEST_SPLIT = 7
    WEIGHTS = 8
    STEP = 9
    POINTS = 10
    NODES = 12
    ROTATION = 13
    COEFFICIENTS = 14
    EPISODE_CLASSES = 20
    EPISODE_POINTS = 21
    EPISODE_SIZES = 22
    COLLOCATION = 23
    SAMPLES = 24
    SAMPLE_NOISE = 25
    BROWNIAN = 26
    CORRUPTION = 30
    ATTACK = 31
    DENSITY = 34

    @property
    def place(self) -> tuple[str, ...]:
        """What a key of this stream depends on besides the seed."""
        return _PLACES.get(self, ())

    @property
    def seeds_torch(self) -> bool:
        """Whether a key seeds torch's own generators, which share no numbers with the counter-based one here."""
        return self in _OF_TORCH


_PLACES = {
    Stream.ORDER: ("epoch",),
    Stream.CROP_ROW: ("epoch",),
    Stream.CROP_COLUMN: ("epoch",),
    Stream.FLIP: ("epoch",),
    Stream.EXPOSURE: ("epoch",),
    Stream.ROTATION: ("epoch",),
    Stream.STEP: ("step", "rank"),
    Stream.POINTS: ("part",),
    Stream.EPISODE_CLASSES: ("epoch",),
    Stream.EPISODE_POINTS: ("epoch",),
    Stream.EPISODE_SIZES: ("epoch",),
    Stream.BROWNIAN: ("epoch",),
    Stream.CORRUPTION: ("kind",),
    Stream.ATTACK: ("row",),
    Stream.COLLOCATION: ("part", "epoch"),
    Stream.DENSITY: ("epoch", "part"),
}
_OF_TORCH = frozenset(
    {Stream.WEIGHTS, Stream.STEP, Stream.POINTS, Stream.COEFFICIENTS, Stream.COLLOCATION, Stream.ATTACK}
)
_SPLIT_PLACE = 0x5711
_BARE = frozenset({Stream.ORDER, Stream.WEIGHTS, Stream.STEP})
_STREAM_LAST = frozenset({Stream.CROP_ROW, Stream.CROP_COLUMN, Stream.FLIP, Stream.EXPOSURE, Stream.ROTATION})


def key(stream: Stream, seed: int, *place: int) -> tuple[int, ...]:
    """The integers to draw with; no two streams of one generator share a key.

    Training has short keys: (seed, epoch) for the order, (seed, epoch, stream) for augmentation, (seed,) and
    (seed, step, rank) for torch's generators. Which images of a set without a split are its test images is a constant
    of the set, with a key like that of an epoch which has a longer one instead. Every other key is
    ``(seed, stream, 0, 0, *place)``: longer than those, and distinguished from its like by the second entry.

    Args:
        stream: what the numbers are for.
        seed: of the run.
        place: one integer for each name in ``stream.place``.

    >>> key(Stream.FLIP, 7, 2), key(Stream.TEST_NOISE, 7)
    ((7, 2, 3), (7, 5, 0, 0))
    """
    if len(place) != len(stream.place):
        raise ValueError(f"a key of {stream.name} takes the seed and {stream.place}, got {len(place)} more integers.")
    if stream is Stream.TEST_SPLIT:
        return (seed, _SPLIT_PLACE)
    if stream in _BARE and not (stream is Stream.ORDER and place[0] == _SPLIT_PLACE):
        return (seed, *place)
    if stream in _STREAM_LAST:
        return (seed, *place, int(stream))
    return (seed, int(stream), 0, 0, *place)


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
        key: further integers; in this library what :func:`key` returns.

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
