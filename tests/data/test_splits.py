"""A split is a partition, in proportion, and a function of its seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.data import ImageSet, split
from evolvent.data.splits import share, stratified
from evolvent.errors import ConfigError

label_lists = st.lists(st.integers(0, 6), min_size=1, max_size=120)


@settings(max_examples=60, deadline=None)
@given(label_lists, st.floats(0, 1), st.integers(0, 9))
def test_partition_in_proportion(values, fraction, seed):
    labels = torch.tensor(values)
    count = share(len(labels), fraction)
    chosen, rest = stratified(labels, count, seed)
    assert len(chosen) == count
    assert sorted([*chosen.tolist(), *rest.tolist()]) == list(range(len(labels)))
    sizes, taken = torch.bincount(labels, minlength=7), torch.bincount(labels[chosen], minlength=7)
    assert ((taken - sizes * count / len(labels)).abs() < 1).all()


def test_same_seed_same_split(pictures):
    first, second, other = (split(pictures, 0.3, seed)[0] for seed in (4, 4, 5))
    assert torch.equal(first.images, second.images)
    assert not torch.equal(first.images, other.images)
    assert first.class_counts() == (4, 4, 4, 3, 3)


@pytest.mark.parametrize(
    ("total", "fraction", "expected"),
    [(100, 0.29, 29), (100, 0.145, 15), (50000, 0.1, 5000), (10, 0.25, 3), (7, 0.0, 0), (7, 1, 7), (1797, 0.2, 359)],
)
def test_fractions_are_taken_as_written(total, fraction, expected):
    assert share(total, fraction) == expected


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_other_fractions_are_refused(pictures, fraction):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        split(pictures, fraction, 0)


def test_more_than_there_are_is_refused():
    with pytest.raises(ConfigError, match="cannot choose 4 images from 3"):
        stratified(torch.zeros(3, dtype=torch.int64), 4, 0)


def test_nothing_of_nothing():
    assert [len(part) for part in stratified(torch.zeros(0, dtype=torch.int64), 0, 0)] == [0, 0]


def test_images_with_masks_are_drawn_without_strata():
    masks = torch.zeros(20, 2, 2, dtype=torch.uint8)
    images = ImageSet(torch.arange(20, dtype=torch.uint8).view(20, 1, 1, 1).expand(20, 1, 2, 2), masks, ("a",), 1)
    held, rest = split(images, 0.25, seed=0)
    assert (len(held), len(rest), held.ignore) == (5, 15, 1)
    assert sorted([*held.images[:, 0, 0, 0].tolist(), *rest.images[:, 0, 0, 0].tolist()]) == list(range(20))
