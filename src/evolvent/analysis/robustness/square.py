"""The Square attack: random squares, no gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from evolvent._core.checks import check_whole
from evolvent.analysis.robustness.attack import ATTACKS, Attack, margin, random_signs, within

_FIRST = 0.8  # share of the pixels that the first squares cover
_HALVINGS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)  # shares of the queries after which squares halve


@dataclass(frozen=True)
class Square(Attack):
    r"""Random search: a square of random place and colour :math:`\pm\varepsilon` is kept if it lowers the margin.

    Andriushchenko et al. 2020, algorithms 1 and 2. It asks for scores alone, so gradients that are hidden do not stop
    it. Begins with vertical stripes; the squares' area shrinks from 0.8 of the image as the queries are used up. Every
    image has squares of its own.

    Args:
        queries: number of tries.
    """

    queries: int = 5000
    name = "square"

    def __post_init__(self) -> None:
        check_whole(queries=self.queries)

    @torch.no_grad()
    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        channels, height, width = images.shape[1:]
        found, least = images.clone(), margin(model(images), labels)
        for query in range(self.queries):
            left = (least >= 0).nonzero()[:, 0]
            if not len(left):
                break
            if query == 0:
                change = eps * random_signs((len(left), channels, 1, width), images, generator)
            else:
                side = math.sqrt(square_share(query / self.queries) * height * width)
                change = 2 * eps * self._squares(images[left], max(1, round(side)), generator)
            tried = within(found[left] + change, images[left], eps)
            value = margin(model(tried), labels[left])
            better = value < least[left]
            found[left[better]], least[left[better]] = tried[better], value[better]
        return found

    def _squares(self, images: Tensor, side: int, generator: Generator) -> Tensor:
        """One square of sign per channel for each image; zero elsewhere."""
        count, channels, height, width = images.shape
        inside = []
        for length in (height, width):
            span = min(side, length)
            start = torch.randint(length - span + 1, (count, 1), generator=generator).to(images.device)
            place = torch.arange(length, device=images.device)
            inside.append((place >= start) & (place < start + span))
        colour = random_signs((count, channels, 1, 1), images, generator)
        return colour * (inside[0][:, None, :, None] & inside[1][:, None, None, :])


def square_share(done: float) -> float:
    """The share of an image that a square covers, when this share of the queries is used up.

    >>> square_share(0.0), square_share(0.03), square_share(0.9)
    (0.8, 0.1, 0.0015625)
    """
    return _FIRST / 2 ** sum(done > limit for limit in _HALVINGS)


ATTACKS.add(Square.name, Square)
