r"""Deterministic stratified splits: a validation hold-out, a fraction of the training images, a test set.

Of :math:`n` images, :math:`m` are chosen; class :math:`c` with :math:`n_c` images contributes
:math:`\lfloor m n_c / n \rfloor` or one more, the remaining ones going to the largest remainders (Hamilton's method,
ties to the lower class). Chosen are the first images of the class in a permutation that depends on the seed alone.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.errors import ConfigError, shortened
from evolvent._core.randomness import Stream, key
from evolvent.data.image_set import ImageSet


def split(images: ImageSet, fraction: float, seed: int) -> tuple[ImageSet, ImageSet]:
    """A stratified share of ``images`` and the rest, each in the order of ``images``.

    The share has the whole number of images nearest to ``fraction`` of all, where ``fraction`` is taken as the decimal
    that was written (0.145 of 100 is 15, although the binary number 0.145 is smaller). Images with a label for every
    pixel have no class, so that their share is drawn without strata.

    >>> images = ImageSet(torch.zeros(100, 1, 2, 2, dtype=torch.uint8), torch.arange(100) % 4, tuple("abcd"))
    >>> held, rest = split(images, 0.29, seed=0)
    >>> held.class_counts(), rest.class_counts()
    ((8, 7, 7, 7), (17, 18, 18, 18))
    """
    strata = images.labels.new_zeros(len(images)).long() if images.has_masks else images.labels
    chosen, rest = stratified(strata, share(len(images), fraction), seed)
    return images.subset(chosen), images.subset(rest)


def share(total: int, fraction: float) -> int:
    """The whole number nearest to ``fraction`` of ``total``; halves are rounded up.

    >>> share(100, 0.145), share(50000, 0.1), share(7, 1.0)
    (15, 5000, 7)
    """
    if not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:  # also refuses nan
        raise ConfigError(f"a fraction of the images must lie between 0 and 1, got {shortened(repr(fraction))}.")
    return math.floor(total * Fraction(str(float(fraction))) + Fraction(1, 2))


def stratified(labels: Tensor, count: int, seed: int, stream: Stream = Stream.SUBSET) -> tuple[Tensor, Tensor]:
    """Ascending rows of ``count`` images, the classes in proportion, and of the other images."""
    if not 0 <= count <= len(labels):
        raise ConfigError(f"cannot choose {count} images from {len(labels)}.")
    order = randomness.permutation(len(labels), *key(stream, seed)).to(labels.device)
    chosen = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    for label, quota in enumerate(_quotas(torch.bincount(labels).tolist(), count)):
        chosen[order[labels[order] == label][:quota]] = True
    return chosen.nonzero()[:, 0], (~chosen).nonzero()[:, 0]


def _quotas(sizes: list[int], count: int) -> list[int]:
    """Hamilton's apportionment of ``count`` to classes of the given sizes, in exact integers."""
    total = max(sum(sizes), 1)
    quotas = [count * size // total for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda c: (-(count * sizes[c] % total), c))
    for label in by_remainder[: count - sum(quotas)]:
        quotas[label] += 1
    return quotas
