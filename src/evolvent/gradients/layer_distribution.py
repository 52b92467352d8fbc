"""Which process owns which layers, and the messages between the owners."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.gradients._contract import Propagator
from evolvent.gradients.mgrit import Levels, Parts


@dataclass(frozen=True)
class Ranks:
    """This process among those that share the layers. Ranks are those inside the group.

    Attributes:
        group: the processes, None for this one alone.
        active: number of processes that own layers; they are the first of the group.
        upstream, downstream: ranks of the neighbours, None at the ends and for processes that own nothing.
    """

    group: dist.ProcessGroup | None = None
    active: int = 1
    upstream: int | None = None
    downstream: int | None = None

    @property
    def at_start(self) -> bool:
        return self.upstream is None

    def reversed(self) -> Ranks:
        """For a solve that runs from the last layer to the first."""
        return replace(self, upstream=self.downstream, downstream=self.upstream)

    def send(self, last: Parts) -> None:
        self._wait(self._post(last))

    def receive(self, first: Parts) -> Parts:
        if self.upstream is None:
            return first
        found = tuple(torch.empty_like(p, memory_format=torch.contiguous_format) for p in first)
        for p in found:
            dist.recv(p, group=self.group, group_src=self.upstream)
        return found

    def shift(self, last: Parts, first: Parts) -> Parts:
        posted = self._post(last)
        received = self.receive(first)
        self._wait(posted)
        return received

    def norm(self, squares: Sequence[Tensor]) -> float:
        summed = torch.stack(list(squares)).sum()
        if self.group is not None:
            dist.all_reduce(summed, group=self.group)
        return math.sqrt(summed.item())

    def from_first(self, u: Parts) -> Parts:
        """The state that the owner of the first layer has, on all processes."""
        return self._broadcast(u, 0)

    def from_last(self, u: Parts) -> Parts:
        """The state that the owner of the last layer has, on all processes."""
        return self._broadcast(u, self.active - 1)

    def sum_gradients(self, gradients: Sequence[Tensor | None], weights: Sequence[Tensor]) -> list[Tensor | None]:
        """The sum over processes in one message, None where no process has a gradient."""
        if self.group is None or not weights:
            return list(gradients)
        flat = [(torch.zeros_like(w) if g is None else g).flatten() for g, w in zip(gradients, weights, strict=True)]
        there = torch.tensor([float(g is not None) for g in gradients], dtype=flat[0].dtype, device=flat[0].device)
        message = torch.cat([*flat, there])
        dist.all_reduce(message, group=self.group)
        *pieces, there = message.split([*(w.numel() for w in weights), len(weights)])
        return [
            p.view_as(w).to(w.dtype) if has else None for p, w, has in zip(pieces, weights, there.tolist(), strict=True)
        ]

    def _broadcast(self, u: Parts, source: int) -> Parts:
        if self.group is None:
            return u
        copies = tuple(p.detach().clone(memory_format=torch.contiguous_format) for p in u)
        for p in copies:
            dist.broadcast(p, group=self.group, group_src=source)
        return copies

    def _post(self, u: Parts) -> list[tuple[dist.Work | None, Tensor]]:
        """Messages under way; a message must stay alive until it has been waited for."""
        if self.downstream is None:
            return []
        messages = [p.contiguous() for p in u]
        return [(dist.isend(p, group=self.group, group_dst=self.downstream), p) for p in messages]

    @staticmethod
    def _wait(posted: Sequence[tuple[dist.Work | None, Tensor]]) -> None:
        for work, _ in posted:
            if work is not None:
                work.wait()


def distribute(
    steps: int, coarsening: int, levels: int, group: dist.ProcessGroup | None = None
) -> tuple[Levels, Ranks]:
    """The layers of this process and its neighbours.

    Every process owns a contiguous block of whole intervals of the coarsest level, so that no message is needed inside
    one. Levels are left out until there is an interval for everyone; with two levels, the last processes may get none.

    >>> levels, ranks = distribute(steps=10, coarsening=4, levels=2)
    >>> len(levels.steps[0]), len(levels.steps[1]), ranks.at_start
    (10, 3, True)
    """
    rank, size = (0, 1) if group is None else (dist.get_rank(group), dist.get_world_size(group))
    while levels > 2 and -(-steps // coarsening ** (levels - 1)) < size:
        levels -= 1
    stride = coarsening ** (levels - 1)
    intervals = max(1, -(-steps // stride))
    active = min(size, intervals)
    begin, end = (min(r * intervals // active * stride, steps) for r in (rank, rank + 1))
    upstream = rank - 1 if 0 < rank < active else None
    downstream = rank + 1 if rank < active - 1 else None
    return Levels.over(range(begin, end), coarsening, levels), Ranks(group, active, upstream, downstream)


@contextmanager
def shared_buffers(evolution: Propagator, group: dist.ProcessGroup | None) -> Iterator[bool]:
    """What the owner of a layer changes in its buffers, all processes get. Tells whether there are buffers."""
    kept = [(b.data, b.clone()) for b in itertools.chain(*(m.buffers(recurse=False) for m in evolution.modules()))]
    if kept and group and not isinstance(getattr(evolution, "dynamics", None), nn.ModuleList):
        raise ConfigError(
            "dynamics that several processes share cannot keep running statistics in layer-parallel training; "
            "use norm='group', or a list of dynamics."
        )
    yield bool(kept)
    for b, before in kept if group else []:
        change = b - before
        dist.all_reduce(change, group=group)
        b.copy_(before + change)
