"""Brownian paths, drawn anew in every epoch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from evolvent._core.randomness import Stream, key, normal
from evolvent.data.source import Source


class BrownianPaths(Source):
    r"""Increments :math:`\Delta W` of independent Brownian motions over equal steps of time.

    Args:
        count: of paths.
        steps: of time.
        dimension: of each motion.
        until: end of time.
        part: sources of different parts share no path.

    >>> paths = BrownianPaths(8, steps=5, dimension=3, until=1.0)
    >>> paths.take(torch.tensor([2, 4]), seed=0, epoch=0).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, count: int, steps: int, dimension: int, until: float, part: int = 0) -> None:
        self.count, self.steps, self.dimension, self.until, self.part = count, steps, dimension, until, part

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Tensor, seed: int, epoch: int) -> Tensor:
        """Shape: rows (B,) to (B, steps, dimension)."""
        numbers = self.steps * self.dimension
        first = (self.part << 40) + rows * numbers
        index = first[:, None] + torch.arange(numbers, device=rows.device)
        drawn = normal(index, *key(Stream.BROWNIAN, seed, epoch)).view(len(rows), self.steps, self.dimension)
        return drawn * math.sqrt(self.until / self.steps)
