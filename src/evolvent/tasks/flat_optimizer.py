"""Optimisers that see all their parameters as one vector."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError


class FlatOptimizer(torch.optim.Optimizer):
    """A base for methods that need a closure and minimise over one vector of numbers.

    Args:
        params: what is minimised over, all in one group.
        defaults: settings of the method.

    Attributes:
        stopped: why the method could do no more in the last step; empty if it could.
    """

    needs_closure = True

    def __init__(self, params: Iterable[nn.Parameter], defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ConfigError(
                f"{type(self).__name__} takes its parameters in one group, got {len(self.param_groups)} groups."
            )
        self._params: list[nn.Parameter] = self.param_groups[0]["params"]
        self.stopped = ""

    @property
    def _size(self) -> int:
        return sum(p.numel() for p in self._params)

    @property
    def _dtype(self) -> torch.dtype:
        return self._params[0].dtype

    def _flat(self) -> Tensor:
        """The parameters as one vector."""
        return torch.cat([p.detach().flatten() for p in self._params])

    def _place(self, x: Tensor) -> None:
        """Write a vector into the parameters."""
        for p, part in zip(self._params, x.split([p.numel() for p in self._params]), strict=True):
            p.copy_(part.view_as(p))

    def _why_no_descent(self, value: float, gradient: Tensor) -> str:
        """Why there is no direction in which to descend; empty if there is one."""
        if not (math.isfinite(value) and gradient.isfinite().all()):
            return f"the objective or its gradient is not finite, {value:.3g}; begin with other weights, or correct it"
        return "" if gradient.any() else "the gradient vanishes"

    def _rounded_away(self, value: float, iterations: int) -> str:
        """The reason for stopping where a decrease of the objective is lost in rounding."""
        dtype = str(self._dtype).removeprefix("torch.")
        return f"after {iterations} iterations no step lowers {value:.3g} by more than {dtype} rounds it"
