"""Episodes: which points they have is a function of the seed and their number, and they are fair draws."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.data import Episodes
from evolvent.data.episodes import _apportioned
from evolvent.errors import ConfigError, DataError

CLASSES = torch.arange(8).repeat_interleave(torch.tensor([20, 20, 25, 30, 20, 22, 20, 40]))
POINTS = torch.stack((CLASSES.double(), torch.arange(len(CLASSES)).double()), 1)  # class and row


@given(
    st.integers(2, 6), st.integers(1, 3), st.integers(1, 8), st.sampled_from([None, 0.3, 2.0]), st.integers(0, 10**6)
)
def test_an_episode_is_what_it_says(way, shot, query, alpha, row):
    batch = Episodes(POINTS, CLASSES, 10**6 + 1, way=way, shot=shot, query=query, alpha=alpha).take(
        torch.tensor([row, row // 2]), seed=3, epoch=0
    )
    assert batch.points.shape == (2, way * (shot + query), 2)
    for points, labels in zip(batch.points, batch.labels, strict=True):
        assert labels[: batch.support].tolist() == [c for c in range(way) for _ in range(shot)]
        assert len(points[:, 1].unique()) == len(points)  # no point twice
        classes = [points[labels == c, 0].unique() for c in range(way)]
        assert all(len(found) == 1 for found in classes)
        assert len(torch.cat(classes).unique()) == way
        if alpha is None:
            assert labels.bincount().tolist() == [shot + query] * way


def test_rows_are_pure_and_differ():
    episodes = Episodes(POINTS, CLASSES, 100, way=3, shot=1, query=4, alpha=1.0)
    together = episodes.take(torch.arange(6), 0, 0)
    apart = [episodes.take(torch.tensor([k]), 0, 0) for k in range(6)]
    assert torch.equal(together.points, torch.cat([batch.points for batch in apart]))
    assert torch.equal(together.labels, torch.cat([batch.labels for batch in apart]))
    for seed, epoch in ((1, 0), (0, 1)):
        assert not torch.equal(episodes.take(torch.arange(6), seed, epoch).points, together.points)
    assert len({tuple(points[:, 1].tolist()) for points in together.points}) == 6


def test_all_points_and_classes_are_drawn_equally_often():
    episodes = Episodes(POINTS, CLASSES, 4000, way=4, shot=1, query=9)
    batch = episodes.take(torch.arange(4000), 0, 0)
    counts = batch.points[..., 1].flatten().long().bincount(minlength=len(CLASSES))
    expected = 4000 * 0.5 * 10 / CLASSES.bincount()[CLASSES]  # half of the classes, ten points of each
    assert ((counts - expected).abs() < 6 * expected.sqrt()).all()


def test_dirichlet_sizes_have_the_variance_of_the_distribution():
    many = torch.arange(5).repeat_interleave(400)
    alpha, way, query = 2.0, 5, 60
    episodes = Episodes(torch.zeros(2000, 1), many, 1500, way=way, shot=1, query=query, alpha=alpha)
    labels = episodes.take(torch.arange(1500), 0, 0).labels[:, way:]
    shares = torch.stack([(labels == c).double().mean(1) for c in range(way)])
    assert shares.mean(1).tolist() == pytest.approx([1 / way] * way, abs=0.015)
    variance = (1 / way) * (1 - 1 / way) / (way * alpha + 1)
    assert shares.var(1).tolist() == pytest.approx([variance] * way, rel=0.15)


@pytest.mark.parametrize("alpha", [0.02, 2e-3, 1e-4, 1e-9])
def test_hardly_any_alpha_leaves_one_class_in_each_query(alpha):
    many = torch.arange(5).repeat_interleave(100)
    episodes = Episodes(torch.zeros(500, 1), many, 400, way=5, shot=1, query=15, alpha=alpha)
    labels = episodes.take(torch.arange(400), 0, 0).labels[:, 5:]
    counts = torch.stack([(labels == c).sum(1) for c in range(5)], dim=1)
    assert counts.amax(1).double().mean() > 75 * (1 - 5 * alpha) - 1e-9
    assert counts.argmax(1).bincount(minlength=5).tolist() == pytest.approx([80] * 5, abs=40)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=6), st.integers(0, 40), st.integers(0, 99))
def test_apportionment_adds_up_and_keeps_within_the_room(room, total, seed):
    total = min(total, sum(room))
    shares = torch.rand(3, len(room), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    counts = _apportioned(shares / shares.sum(1, keepdim=True), total, torch.tensor(room).expand(3, -1))
    assert counts.sum(1).tolist() == [total] * 3
    assert (counts >= 0).all()
    assert (counts <= torch.tensor(room)).all()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"way": 9}, "from 8 classes"),
        ({"way": 5, "shot": 6, "query": 15}, r"6 \+ 15 points"),
        ({"way": 3, "shot": 6, "query": 15, "alpha": 1.0}, "does not fit"),
        ({"way": 3, "shot": 30, "query": 1, "alpha": 1.0}, "does not fit"),
    ],
)
def test_sets_that_are_too_small_are_refused(options, complaint):
    with pytest.raises(DataError, match=complaint):
        Episodes(POINTS, CLASSES, 10, **options)


@pytest.mark.parametrize("options", [{"way": 1}, {"shot": 0}, {"query": 0}, {"alpha": 0.0}, {"count": 0}])
def test_impossible_episodes_are_refused(options):
    with pytest.raises(ConfigError):
        Episodes(POINTS, CLASSES, **{"count": 5} | options)


@pytest.mark.parametrize(
    ("points", "labels", "complaint"),
    [
        (POINTS, CLASSES.double(), "integer label.*float64"),
        (POINTS, CLASSES[1:], r"each of 197 points.*\(196,\)"),
        (POINTS, CLASSES - 1, "got -1"),
        (torch.where(POINTS > 3, torch.nan, POINTS), CLASSES, "NaN or infinite"),
    ],
)
def test_labels_and_points_that_cannot_be_used_are_refused(points, labels, complaint):
    with pytest.raises(DataError, match=complaint):
        Episodes(points, labels, 10)
