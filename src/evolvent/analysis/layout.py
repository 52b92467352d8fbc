"""States as rows of numbers, so that linear algebra need not know how a state is built."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.state import State, parts


@dataclass(frozen=True)
class Layout:
    """How the states of one evolution lie in memory: one row per sample.

    The first axis counts independent samples where ``batched`` is set and every part has two axes or more. Otherwise
    the whole state is one sample, as it must be for the nodes of a graph, which act on each other.

    >>> layout = Layout.of((torch.zeros(2, 3, 4), torch.zeros(2, 5)))
    >>> layout.rows((torch.ones(2, 3, 4), torch.ones(2, 5))).shape
    torch.Size([2, 17])
    """

    shapes: tuple[torch.Size, ...]
    is_tuple: bool
    samples: int

    @classmethod
    def of(cls, u: State, batched: bool = True) -> Layout:
        """The layout of states like ``u``."""
        pieces = parts(u)
        counted = batched and all(part.ndim > 1 for part in pieces)
        return cls(tuple(p.shape for p in pieces), isinstance(u, tuple), len(pieces[0]) if counted else 1)

    def rows(self, u: State) -> Tensor:
        """(samples, numbers of one sample)."""
        return torch.cat([part.reshape(self.samples, -1) for part in parts(u)], dim=1)

    def state(self, rows: Tensor) -> State:
        """The state that lies in ``rows``; undoes :meth:`rows`."""
        sizes = [shape.numel() // self.samples for shape in self.shapes]
        pieces = zip(rows.split(sizes, dim=1), self.shapes, strict=True)
        u = tuple(piece.reshape(shape) for piece, shape in pieces)
        return u if self.is_tuple else u[0]


def first_sample(u: State) -> State:
    """The first sample of a batch of states, as a batch of one."""
    return tuple(part[:1] for part in u) if isinstance(u, tuple) else u[:1]
