"""Where the rows of a training come from, and how they are served batch by batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.checks import described
from evolvent._core.errors import ConfigError, DataError


class Source(ABC):
    """Rows that can be taken in any order: images, points, one whole graph, episodes, collocation points.

    A row is a number. What it stands for may be stored (an image) or drawn (an episode, a point of a domain); whatever
    is random in it is a function of (seed, epoch, row). So a resumed, reordered or shared training sees the same rows.
    """

    shareable: bool = True
    """Whether the rows of a batch may be divided between processes; if not, each process takes all of them."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def take(self, rows: Tensor, seed: int, epoch: int) -> Any:
        """The batch made of these rows: a tensor, or tuples, lists and mappings of tensors. Pure.

        Args:
            rows: int64 (B,), each at least 0 and below ``len(self)``.
            seed: of the training.
            epoch: how often all rows were served before; 0 in evaluation.
        """


@dataclass(frozen=True)
class Material:
    """The data of one training: what it trains on, what it is watched on, and what it is tested on.

    Attributes:
        name: of the data set.
        train, watched, test: sources; watched are evaluated after each epoch, test at the end.
        origin: where the data came from, in a few words.
        example: a few inputs as the network takes them, for measurements of cost and stability; None if those do not
            apply.
        options: options of the network that the data determines, such as the number of classes.
        rows: what a row is called, in the plural.
        fingerprint: of data that are not a known set, so that a change of them is noticed; empty for others.
        warning: what the user should know of the data, in one line; else empty.
    """

    name: str
    train: Source
    watched: Source
    test: Source
    origin: str = ""
    example: Tensor | None = None
    options: dict[str, Any] = field(default_factory=dict)
    rows: str = "rows"
    fingerprint: str = ""
    warning: str = ""

    def __post_init__(self) -> None:
        for part in ("train", "watched", "test"):
            if len(getattr(self, part)) == 0:
                raise DataError(f"{self.name}: there are no {self.rows} in the {part} part. Check the data section.")

    def batch_size(self, wanted: int | None) -> int | None:
        """Rows of a step: as many as wanted, but of the user's own data, which may be few, no more than there are."""
        return wanted if wanted is None or not self.fingerprint else min(wanted, len(self.train))

    @property
    def held_out(self) -> bool:
        """Whether the best model may be chosen by the watched part: it is not the test part."""
        return self.watched is not self.test


@dataclass(frozen=True)
class Batches:
    """A source in batches, as one of several processes sees it.

    ``batch_size`` counts the rows that all processes take together; each takes an equal contiguous share, so the rows
    of a step do not depend on the number of processes. A source that is not shareable is taken whole by each.

    Args:
        source: what to serve.
        batch_size: rows of a step over all processes; None for the whole source.
        seed: of the order and of whatever the source draws.
        rank, world_size: which share this process serves.

    >>> points = TensorSource(torch.arange(5.0))
    >>> [batch[0].tolist() for batch in Batches(points, 2).once()]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    source: Source
    batch_size: int | None = None
    seed: int = 0
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.source, Source):
            raise ConfigError(f"batches are of a source such as ev.data.ImageSource, got {described(self.source)}.")
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(f"rank must lie in 0 ... world_size - 1, got {self.rank} of {self.world_size}.")
        if self.size < 1 or self.size % self.sharers:
            raise ConfigError(
                f"batch_size counts the rows of all processes and must be a positive multiple of their number "
                f"{self.sharers}, got {self.size}."
            )

    @property
    def size(self) -> int:
        return len(self.source) if self.batch_size is None else self.batch_size

    @property
    def sharers(self) -> int:
        """Processes among which a batch is divided."""
        return self.world_size if self.source.shareable else 1

    def __len__(self) -> int:
        """Whole batches in one pass over the source; the incomplete one at the end is left out of training."""
        return len(self.source) // self.size

    def check_training(self) -> None:
        """Refuse a batch size that the source cannot fill even once."""
        if len(self) == 0:
            raise ConfigError(
                f"{len(self.source)} rows do not fill one batch of {self.size}, and incomplete batches are left out; "
                f"set data.batch_size to at most {len(self.source)} or use more of the data."
            )

    def at(self, step: int) -> Any:
        """This process's share of the batch of a training step.

        Each pass over the source has an order of its own, ``permutation(N, seed, pass)``.
        """
        epoch, number = divmod(step, len(self))
        if len(self.source) == self.size:
            rows = _all_rows(self.size)  # which need no order
        else:
            rows = _order(len(self.source), self.seed, epoch)[number * self.size : (number + 1) * self.size]
        share = self.size // self.sharers
        first = self.rank * share if self.source.shareable else 0
        return self.source.take(rows[first : first + share], self.seed, epoch)

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of one pass over the source, counted from 0."""
        return map(self.at, range(number * len(self), (number + 1) * len(self)))

    def once(self) -> Iterator[Any]:
        """Every row once, in ascending order and without shuffling, for evaluation.

        Process r takes the rows r, r + world_size, ...: none is left out, padded or taken twice.
        """
        return (batch for k in range(self.pieces) if (batch := self.piece(k)) is not None)

    @property
    def pieces(self) -> int:
        """Batches of :meth:`once`, of the process that has most."""
        return -(-len(self.source) // self.size)

    def piece(self, number: int) -> Any:
        """One batch of :meth:`once`, counted from 0; None where others still have rows and this process has not."""
        start, stride = (self.rank, self.world_size) if self.source.shareable else (0, 1)
        share = self.size // stride
        rows = torch.arange(len(self.source))[start::stride][number * share : (number + 1) * share]
        return self.source.take(rows, self.seed, 0) if len(rows) else None


@lru_cache(maxsize=4)
def _all_rows(count: int) -> Tensor:
    return torch.arange(count)


@lru_cache(maxsize=4)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return randomness.permutation(count, *randomness.key(randomness.Stream.ORDER, seed, epoch))


class TensorSource(Source):
    """Rows of tensors in memory: points with their classes, or whatever else fits into tensors.

    >>> TensorSource(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])).take(torch.tensor([1, 3]), seed=0, epoch=0)[1]
    tensor([1, 1])
    """

    def __init__(self, *columns: Tensor) -> None:
        self.columns = columns
        if not columns or not all(isinstance(column, Tensor) and column.ndim for column in columns):
            given = ", ".join(map(described, columns[:3]))
            raise DataError(f"columns must be tensors with rows, got {given or 'none'}.")
        if len({len(column) for column in columns}) != 1:
            raise DataError(f"columns must have equal numbers of rows, got {[len(column) for column in columns]}.")

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, rows: Tensor, seed: int, epoch: int) -> tuple[Tensor, ...]:
        return tuple(column.index_select(0, rows.to(column.device)) for column in self.columns)
