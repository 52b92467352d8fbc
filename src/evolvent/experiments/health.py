"""Whether a training is exploding: its objective against that of its beginning."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_WINDOW = 20  # steps of the beginning at most
_GROWTH = 2.0  # an objective that has grown by more than this share of its first value is exploding


class Health:
    """The mean objective since the last checkpoint, against that of the first steps.

    Args:
        first: mean objective of the first steps, if it is known from a checkpoint.
        exploding: whether the training was exploding when the last checkpoint was written.
    """

    def __init__(self, first: float | None = None, exploding: bool = False) -> None:
        self.first, self.exploding = first, exploding
        self._sum: Tensor | float = 0.0
        self._count = 0

    def add(self, objective: Tensor) -> None:
        """One more evaluation of an objective; nothing is copied from its device."""
        self._sum, self._count = self._sum + objective.double(), self._count + 1
        if self.first is None and self._count == _WINDOW:
            self.first = self._mean()

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds; a new mean begins."""
        mean = self._mean()
        self.first = mean if self.first is None and self._count else self.first
        self._sum, self._count = 0.0, 0
        self.exploding = is_exploding(mean, self.first)
        return {"first_objective": self.first, "exploding": self.exploding}

    def _mean(self) -> float:
        return float(torch.as_tensor(self._sum)) / self._count if self._count else math.nan


def is_exploding(mean: float, first: float | None) -> bool:
    """Whether a mean objective is far above the first; means that were not measured do not count.

    >>> is_exploding(2.3, 2.4), is_exploding(80.0, 2.4), is_exploding(-1.0, -3.0)
    (False, True, False)
    """
    if first is None or math.isnan(mean):
        return False
    return not math.isfinite(mean) or mean > first + _GROWTH * abs(first)
