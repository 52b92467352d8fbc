"""Every image once, in an order that is a function of seed and epoch, however many ranks and wherever it resumes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent._core import randomness
from evolvent.data import BatchLoader, ImageSet
from evolvent.errors import ConfigError


def _numbered(count):
    images = torch.arange(count, dtype=torch.int64).to(torch.uint8).view(-1, 1, 1, 1)
    return ImageSet(images, torch.arange(count) % 10, tuple("0123456789"))


def _rows(loader):
    return [batch.index.tolist() for batch in loader]


def _flat(parts):
    return [row for part in parts for row in part]


def test_batches_hold_what_their_index_says(pictures):
    for batch in BatchLoader(pictures, 7, seed=1, drop_last=False):
        assert torch.equal(batch.images, pictures.images[batch.index])
        assert torch.equal(batch.labels, pictures.labels[batch.index])
        assert batch.images.dtype == torch.uint8


def test_order_is_the_placed_permutation():
    loader = BatchLoader(_numbered(50), 10, seed=3)
    for epoch in (0, 1, 7):
        loader.set_epoch(epoch)
        assert _flat(_rows(loader)) == randomness.permutation(50, 3, epoch).tolist()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.sampled_from([1, 2, 3]), st.booleans())
def test_ranks_together_serve_each_global_batch(count, share, world_size, shuffle):
    images, batch_size = _numbered(count), share * world_size
    if count < batch_size:
        return
    alone = _rows(BatchLoader(images, batch_size, seed=5, shuffle=shuffle))
    loaders = [BatchLoader(images, batch_size, 5, shuffle, True, rank, world_size) for rank in range(world_size)]
    assert [len(loader) for loader in loaders] == [len(alone)] * world_size
    together = [_flat(parts) for parts in zip(*map(_rows, loaders), strict=True)]
    assert together == alone


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 80), st.integers(1, 6), st.sampled_from([1, 2, 3]))
def test_evaluation_serves_every_row_once(count, share, world_size):
    images = _numbered(count)
    served = []
    for rank in range(world_size):
        loader = BatchLoader(images, share * world_size, 0, False, False, rank, world_size)
        batches = _rows(loader)
        assert len(batches) == len(loader)
        assert _flat(batches) == list(range(rank, count, world_size))
        served += _flat(batches)
    assert sorted(served) == list(range(count))


def test_an_incomplete_training_batch_can_be_kept():
    loader = BatchLoader(_numbered(25), 10, drop_last=False)
    assert [len(rows) for rows in _rows(loader)] == [10, 10, 5]
    assert len(loader) == 3


@pytest.mark.parametrize("start", range(6))
def test_resume_inside_an_epoch(start):
    whole = BatchLoader(_numbered(50), 10, seed=2)
    whole.set_epoch(4)
    resumed = BatchLoader(_numbered(50), 10, seed=2)
    resumed.set_epoch(4, start_batch=start)
    resumed.set_epoch(4)
    assert len(resumed) == 5
    assert _rows(resumed) == _rows(whole)[start:]
    resumed.set_epoch(5)
    whole.set_epoch(5)
    assert _rows(resumed) == _rows(whole)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch_size": 10, "world_size": 3}, "multiple of their number 3, got 10"),
        ({"batch_size": 0}, "positive multiple"),
        ({"batch_size": 60}, "50 images do not fill one batch of 60"),
        ({"batch_size": 10, "rank": 2, "world_size": 2}, "got rank 2 of 2"),
        ({"batch_size": 7 * 4, "world_size": 4, "drop_last": False}, "last batch of 22 images"),
    ],
)
def test_impossible_settings_are_refused(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        BatchLoader(_numbered(50), **options)


def test_masks_are_served_as_indices():
    masks = torch.randint(0, 4, (6, 4, 5), dtype=torch.uint8)
    images = ImageSet(torch.zeros(6, 3, 4, 5, dtype=torch.uint8), masks, tuple("abc"), ignore=3)
    for batch in BatchLoader(images, 2):
        assert batch.labels.dtype == torch.int64
        assert torch.equal(batch.labels, masks[batch.index].long())
