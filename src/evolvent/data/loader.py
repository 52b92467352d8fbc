"""Batches from memory, in an order that is a function of (seed, epoch): resumable, shardable, without workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from evolvent._core import randomness
from evolvent._core.errors import ConfigError
from evolvent.data.image_set import ImageSet


class Batch(NamedTuple):
    """Images uint8 (B, C, H, W), labels int64 (B,) or (B, H, W), and their rows in the image set, int64 (B,)."""

    images: Tensor
    labels: Tensor
    index: Tensor  # pyright: ignore[reportIncompatibleMethodOverride]


class BatchLoader:
    """Serves an :class:`ImageSet` batch by batch.

    The order of an epoch is ``randomness.permutation(N, seed, epoch)``. ``batch_size`` counts the images that all ranks
    take together. In training each such batch is cut into equal contiguous shares, one per rank, so the images of a
    step do not depend on the number of ranks. In evaluation (neither shuffle nor drop_last) rank r takes the rows
    r, r + world_size, ...: every row is served once, none is padded or doubled.

    Args:
        images: what to serve.
        batch_size: images per step over all ranks; a multiple of ``world_size``.
        seed: of the order.
        shuffle: permute the rows anew in every epoch.
        drop_last: leave out the incomplete batch at the end.
        rank, world_size: which share this process serves.
        start_batch: first batch of the present epoch, to go on inside it; another epoch starts at 0 again.

    >>> images = ImageSet(torch.zeros(5, 1, 2, 2, dtype=torch.uint8), torch.zeros(5, dtype=torch.int64), ("a",))
    >>> [batch.index.tolist() for batch in BatchLoader(images, 2, shuffle=False, drop_last=False)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        images: ImageSet,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        rank: int = 0,
        world_size: int = 1,
        start_batch: int = 0,
    ) -> None:
        _check(len(images), batch_size, shuffle, drop_last, rank, world_size)
        self.images = images
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self.start_batch = start_batch

    def set_epoch(self, epoch: int, start_batch: int | None = None) -> None:
        """Choose the epoch to serve next; moving to another epoch starts it at its first batch unless told."""
        if start_batch is not None:
            self.start_batch = start_batch
        elif epoch != self.epoch:
            self.start_batch = 0
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of a whole epoch on this rank, also when the present one starts later."""
        rows = self._rows_of_rank()
        return rows // self._share if self.drop_last else -(-rows // self._share)

    def __iter__(self) -> Iterator[Batch]:
        rows = self._order()
        for number in range(self.start_batch, len(self)):
            yield self._serve(self._cut(rows, number))

    @property
    def _share(self) -> int:
        """Images per batch on this rank."""
        return self.batch_size // self.world_size

    @property
    def _evaluation(self) -> bool:
        return not self.shuffle and not self.drop_last

    def _rows_of_rank(self) -> int:
        if self._evaluation:
            return len(range(self.rank, len(self.images), self.world_size))
        return len(self.images) // self.world_size

    def _order(self) -> Tensor:
        """Rows in the order of the epoch; in evaluation only those of this rank."""
        if self.shuffle:
            return randomness.permutation(len(self.images), self.seed, self.epoch)
        rows = torch.arange(len(self.images))
        return rows[self.rank :: self.world_size] if self._evaluation else rows

    def _cut(self, rows: Tensor, number: int) -> Tensor:
        """This rank's rows of one batch."""
        if self._evaluation:
            return rows[number * self._share : (number + 1) * self._share]
        whole = rows[number * self.batch_size : (number + 1) * self.batch_size]
        share = len(whole) // self.world_size
        return whole[self.rank * share : (self.rank + 1) * share]

    def _serve(self, index: Tensor) -> Batch:
        index = index.to(self.images.images.device)
        labels = self.images.labels.index_select(0, index).long()
        return Batch(self.images.images.index_select(0, index), labels, index)


def _check(count: int, batch_size: int, shuffle: bool, drop_last: bool, rank: int, world_size: int) -> None:
    if not 0 <= rank < world_size:
        raise ConfigError(f"rank lies in 0 ... world_size - 1, got rank {rank} of {world_size}.")
    if batch_size < 1 or batch_size % world_size:
        raise ConfigError(
            f"batch_size counts the images of all ranks and must be a positive multiple of their number {world_size}, "
            f"got {batch_size}."
        )
    if drop_last and count < batch_size:
        raise ConfigError(
            f"{count} images do not fill one batch of {batch_size}, and incomplete batches are dropped; "
            f"set batch_size to at most {count} or use more of the images."
        )
    if shuffle and not drop_last and count % batch_size % world_size:
        raise ConfigError(
            f"the last batch of {count % batch_size} images cannot be shared equally by {world_size} ranks; "
            f"set drop_last."
        )
