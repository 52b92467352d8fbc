"""Which derivatives an equation uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

import torch
from torch import Tensor

from evolvent._core.errors import UnknownNameError
from evolvent.equations.terms import Derivatives, coordinates_in

_POINTS = 3


class Needed(Derivatives):
    """Stands for u while an equation is evaluated once, and remembers what was asked for.

    Args:
        coordinates: their names.
        components: of u.
        space: number of coordinates without time.
        label: of a component.
    """

    def __init__(self, coordinates: Sequence[str], components: int, space: int = 0, label: str = "") -> None:
        self.label = label
        here = {name: self._made(f"at {name}", 1) for name in coordinates}
        super().__init__(self._made("", components), dict.fromkeys(coordinates, ()), points=here)
        self.components, self.space, self.asked = components, space, set[str]()

    def _made(self, name: str, columns: int) -> Tensor:
        """Numbers that differ from name to name, so that terms cancel only if they are the same."""
        draw = torch.Generator().manual_seed(crc32((self.label + name).encode()))
        return torch.rand(_POINTS, columns, dtype=torch.float64, generator=draw)

    def __getitem__(self, name: str) -> Tensor:
        coordinates = coordinates_in(name)
        for one in coordinates:
            if one not in self.along:
                raise UnknownNameError("coordinate", one, self.along, f"There are {', '.join(self.along)}.")
        ordered = "".join(sorted(coordinates, key=list(self.along).index))
        if name:
            self.asked.add(ordered)
        return self._made(ordered, self.components)

    @property
    def gradient(self) -> Tensor:
        self.asked.add("gradient")
        return self._made("gradient", self.space)

    @property
    def laplacian(self) -> Tensor:
        self.asked.add("laplacian")
        return self._made("laplacian", self.components)

    @property
    def function(self) -> Callable[[Tensor], Tensor]:
        self.asked.add("function")
        return lambda points: torch.sin(points.sum(1, keepdim=True)).expand(-1, self.components)

    def of(self, coordinate: str, order: int) -> Tensor:
        return self[coordinate * order]

    def component(self, number: int) -> Derivatives:
        one = Needed(list(self.along), 1, self.space, f"{number} ")
        one.asked = self.asked
        return one
