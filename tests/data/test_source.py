"""Every row once, in an order that is a function of seed and epoch, however many processes and wherever it resumes."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent._core import randomness
from evolvent.data import Batches, ImageSet, ImageSource, Material, Source, TensorSource
from evolvent.errors import ConfigError, DataError


def numbered(count: int) -> TensorSource:
    return TensorSource(torch.arange(count))


def steps(batches: Batches, count: int | None = None, first: int = 0) -> list[list[int]]:
    """The rows of the batches of some training steps."""
    return [batches.at(step)[0].tolist() for step in range(first, first + (count or len(batches)))]


def flat(parts) -> list[int]:
    return [row for part in parts for row in part]


class Episodes(Source):
    """Rows that are drawn and belong together."""

    shareable = False

    def __len__(self):
        return 6

    def take(self, rows, seed, epoch):
        return randomness.uniform(rows, seed, epoch)


def test_images_are_served_with_labels_rows_and_epoch(pictures):
    source = ImageSource(pictures)
    batch = Batches(source, 7, seed=1).at(9)  # 8 batches an epoch
    assert batch.epoch == 1
    assert torch.equal(batch.images, pictures.images[batch.rows])
    assert torch.equal(batch.labels, pictures.labels[batch.rows])
    assert batch.images.dtype == torch.uint8


def test_each_pass_has_its_placed_permutation():
    batches = Batches(numbered(50), 10, seed=3)
    for epoch in (0, 1, 7):
        assert flat(steps(batches, 5, 5 * epoch)) == randomness.permutation(50, 3, epoch).tolist()


def test_an_incomplete_batch_is_left_out_of_training():
    batches = Batches(numbered(25), 10)
    assert len(batches) == 2
    assert steps(batches, 4)[2:] == [
        randomness.permutation(25, 0, 1).tolist()[:10],
        randomness.permutation(25, 0, 1).tolist()[10:20],
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.sampled_from([1, 2, 3]))
def test_processes_together_serve_each_batch(count, share, world_size):
    source, size = numbered(count), share * world_size
    if count < size:
        return
    alone = steps(Batches(source, size, seed=5))
    shares = [steps(Batches(source, size, 5, rank, world_size)) for rank in range(world_size)]
    assert [flat(parts) for parts in zip(*shares, strict=True)] == alone


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.sampled_from([1, 2, 3]))
def test_evaluation_serves_every_row_once(count, share, world_size):
    served = []
    for rank in range(world_size):
        batches = Batches(numbered(count), share * world_size, 0, rank, world_size)
        found = [batch[0].tolist() for batch in batches.once()]
        assert flat(found) == list(range(rank, count, world_size))
        assert all(0 < len(rows) <= share for rows in found)
        served += flat(found)
    assert sorted(served) == list(range(count))


def test_rows_that_belong_together_are_taken_whole_by_every_process():
    alone = Batches(Episodes(), 3, seed=2)
    for rank in range(2):
        shared = Batches(Episodes(), 3, 2, rank, 2)  # 3 rows need not be divisible
        assert shared.sharers == 1
        assert all(torch.equal(shared.at(step), alone.at(step)) for step in range(4))
        assert [len(batch) for batch in shared.once()] == [3, 3]


def test_a_source_of_one_row_is_an_epoch_of_one_step():
    batches = Batches(numbered(1), None)
    assert len(batches) == 1
    assert steps(batches, 3) == [[0], [0], [0]]
    assert len(list(batches.once())) == 1


def test_no_batch_size_means_all_rows():
    assert sorted(Batches(numbered(7), None).at(0)[0].tolist()) == list(range(7))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"batch_size": 10, "world_size": 3}, "multiple of their number 3, got 10"),
        ({"batch_size": 0}, "positive multiple"),
        ({"batch_size": 10, "rank": 2, "world_size": 2}, "got 2 of 2"),
    ],
)
def test_impossible_settings_are_refused(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Batches(numbered(50), **options)


def test_batches_are_of_a_source():
    for one in (None, torch.zeros(4)):
        with pytest.raises(ConfigError, match=r"of a source such as ev\.data\.ImageSource, got"):
            Batches(one)


def test_a_batch_that_cannot_be_filled_is_refused_for_training():
    with pytest.raises(ConfigError, match=r"50 rows do not fill one batch of 60.*batch_size to at most 50"):
        Batches(numbered(50), 60).check_training()


def test_masks_are_served_as_indices():
    masks = torch.randint(0, 4, (6, 4, 5), dtype=torch.uint8)
    images = ImageSet(torch.zeros(6, 3, 4, 5, dtype=torch.uint8), masks, tuple("abc"), ignore=3)
    batches = Batches(ImageSource(images), 2)
    for step in range(3):
        batch = batches.at(step)
        assert batch.labels.dtype == torch.int64
        assert torch.equal(batch.labels, masks[batch.rows].long())


def test_columns_have_equally_many_rows():
    with pytest.raises(DataError, match=r"equal numbers of rows, got \[3, 2\]"):
        TensorSource(torch.zeros(3), torch.zeros(2))


def test_material_without_rows_is_refused_and_a_watched_part_of_its_own_is_held_out():
    some, others = numbered(3), numbered(2)
    assert Material("a", some, others, some).held_out
    assert not Material("a", others, some, some).held_out
    with pytest.raises(DataError, match=r"a: there are no points in the watched part. Check the data section"):
        Material("a", some, numbered(0), some, rows="points")
