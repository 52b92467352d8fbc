"""Numbers of a module that are neither learned nor stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


class ConstantsModule(nn.Module):
    """A module with constants that are known in float64, and are always as exact as its precision allows.

    Buffers that are converted to float32 and back lose digits. These are made again from their arrays whenever the
    module changes its precision or device. They are not part of the state dictionary.
    """

    def __init__(self) -> None:
        super().__init__()
        self._arrays: dict[str, np.ndarray] = {}

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Register an array, which is then an attribute: a tensor in the module's precision, on its device."""
        self._arrays[name] = array
        values = torch.tensor(array)
        self.register_buffer(name, values.float() if values.is_floating_point() else values, persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        for name, array in self._arrays.items():
            placed = getattr(self, name)
            if placed.dtype == torch.float64:
                setattr(self, name, torch.tensor(array, device=placed.device))
        return self
