"""Point sets: their shapes, and that the seed alone decides."""

import pytest
import torch
from pydantic import ValidationError

from evolvent.data import PointCloud

KINDS = ("spirals", "moons", "circles", "blobs")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 3, 8])
def test_every_kind_has_as_many_points_of_each_class_near_the_unit_disc(kind, classes):
    x, y = PointCloud(kind=kind, classes=classes, points=40).draw(seed=1)
    assert x.shape == (40 * classes, 2)
    assert x.dtype == torch.float32
    assert y.bincount().tolist() == [40] * classes
    assert 0.5 < x.norm(dim=1).max() < 1.2


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_alone_decides(kind):
    cloud = PointCloud(kind=kind)
    assert torch.equal(cloud.draw(3)[0], cloud.draw(3)[0])
    assert not torch.equal(cloud.draw(3)[0], cloud.draw(4)[0])
    assert len(cloud.draw(3, 7)[0]) == 14


def test_points_without_noise_lie_on_their_curves():
    circles, number = PointCloud(kind="circles", classes=4, noise=0).draw(0)
    torch.testing.assert_close(circles.norm(dim=1), (number + 1) / 4)
    x, y = PointCloud(kind="spirals", classes=3, turns=1.5, noise=0).draw(0)
    radius = (x.norm(dim=1) - 0.1) / 0.9
    angle = torch.atan2(x[:, 1], x[:, 0]) / (2 * torch.pi)
    torch.testing.assert_close((angle - 1.5 * radius - y / 3 + 0.5) % 1, torch.full_like(angle, 0.5), atol=1e-4, rtol=0)
    upper, which = PointCloud(kind="moons", noise=0).draw(0)
    assert upper[which == 0, 1].min() > -0.2
    assert upper[which == 1, 1].max() < 0.2


def test_a_blob_lies_around_its_corner():
    x, y = PointCloud(kind="blobs", classes=5, points=2000, noise=0.1).draw(0)
    for k in range(5):
        angle = torch.tensor(2 * torch.pi * k / 5)
        torch.testing.assert_close(x[y == k].mean(0), 0.7 * torch.stack((angle.cos(), angle.sin())), atol=0.02, rtol=0)
    assert x[y == 0].std(0).tolist() == pytest.approx([0.1, 0.1], rel=0.1)


@pytest.mark.parametrize("wrong", [{"kind": "helix"}, {"classes": 1}, {"points": 0}, {"turns": 0}, {"noise": -1}])
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ValidationError):
        PointCloud(**wrong)
