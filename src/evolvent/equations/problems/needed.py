"""Which derivatives an equation uses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evolvent._core.errors import UnknownNameError
from evolvent.equations.terms import Derivatives

_POINTS = 3


class Needed(Derivatives):
    """Stands for u while an equation is evaluated once, and remembers what was asked for.

    Args:
        coordinates: their names.
        components: of u.
    """

    def __init__(self, coordinates: Sequence[str], components: int) -> None:
        here = {name: self._made(1) for name in coordinates}
        super().__init__(self._made(components), dict.fromkeys(coordinates, ()), points=here)
        self.components, self.asked = components, set[str]()

    @staticmethod
    def _made(columns: int) -> Tensor:
        return torch.rand(_POINTS, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def __getitem__(self, name: str) -> Tensor:
        for letter in name:
            if letter not in self.along:
                raise UnknownNameError("coordinate", letter, self.along, f"There are {', '.join(self.along)}.")
        if name:
            self.asked.add("".join(sorted(name, key=list(self.along).index)))
        return self._made(self.components)

    def of(self, coordinate: str, order: int) -> Tensor:
        return self[coordinate * order]

    def component(self, number: int) -> Derivatives:
        one = Needed(list(self.along), 1)
        one.asked = self.asked
        return one
