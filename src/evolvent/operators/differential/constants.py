"""Numbers of a module that are neither learned nor stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn


class ConstantsModule(nn.Module):
    """A module with constants that are known in float64, and are always as exact as its precision allows.

    Buffers that are converted to float32 and back lose digits, and those of a module made on the device ``meta`` have
    no numbers. These are filled from their arrays whenever the module changes its precision or device. They are not
    part of the state dictionary.
    """

    def __init__(self) -> None:
        super().__init__()
        self._arrays: dict[str, np.ndarray] = {}

    def add_constant(self, name: str, array: np.ndarray) -> None:
        """Register an array, which is then an attribute: a tensor in the module's precision, on its device."""
        self._arrays[name] = array
        dtype = torch.get_default_dtype() if array.dtype.kind == "f" else None
        self.register_buffer(name, torch.tensor(array, dtype=dtype), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:
        before = {name: getattr(self, name) for name in self._arrays}
        super()._apply(fn, recurse)
        for name, array in self._arrays.items():
            placed = getattr(self, name)
            if placed is not before[name]:
                placed.copy_(torch.tensor(array, device="cpu"))
        return self
