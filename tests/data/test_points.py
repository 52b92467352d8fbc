"""Point sets: their shapes, and that the seed alone decides."""

import pytest
import torch
from pydantic import ValidationError

from evolvent.data import PointCloud
from evolvent.errors import UnknownNameError

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


@pytest.mark.parametrize("wrong", [{"classes": 1}, {"points": 0}, {"turns": 0}, {"noise": -1}])
def test_what_cannot_be_drawn_is_refused(wrong):
    with pytest.raises(ValidationError):
        PointCloud(**wrong)


def test_an_unknown_kind_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown kind of points 'moonz'\. Did you mean 'moon' or 'moons'"):
        PointCloud(kind="moonz")


@pytest.mark.parametrize("kind", ["xor", "moon", "circle", "spiral"])
def test_the_papers_sets_are_of_two_classes_and_drawn_from_the_seed(kind):
    cloud = PointCloud(kind=kind, points=50)
    x, y = cloud.draw(1)
    assert (x.shape, y.bincount().tolist()) == ((100, 2), [50, 50])
    assert torch.equal(x, cloud.draw(1)[0])
    assert not torch.equal(x, cloud.draw(2)[0])
    assert torch.equal(cloud.subclasses() // (2 if kind == "xor" else 1), y)
    with pytest.raises(ValidationError, match="two classes"):
        PointCloud(kind=kind, classes=3)


def test_the_papers_sets_lie_where_it_says():
    """Wang et al. 2024, section E.1.1."""
    x, y = PointCloud(kind="circle", noise=0, points=100).draw(0)
    torch.testing.assert_close(x.norm(dim=1), 1.0 + y)
    x, y = PointCloud(kind="moon", noise=0, points=100).draw(0)
    centres = torch.tensor([[0.0, 0.0], [1.0, 0.5]])[y]
    torch.testing.assert_close((x - centres).norm(dim=1), torch.ones(200))
    assert (x[y == 0, 1] >= -1e-6).all()
    assert (x[y == 1, 1] <= 0.5 + 1e-6).all()
    x, y = PointCloud(kind="spiral", noise=0, points=100).draw(0)
    theta = torch.linspace(0, 2 * torch.pi, 100)
    torch.testing.assert_close(x[y == 0].norm(dim=1), 1 + theta)
    torch.testing.assert_close(x[y == 1], -x[y == 0])
    cloud = PointCloud(kind="xor", noise=0, points=2000)
    (x, _), disc = cloud.draw(0), cloud.subclasses()
    centres = torch.tensor([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]])[disc]
    radius = (x - centres).norm(dim=1)
    assert radius.max() <= 0.75
    assert radius.square().mean().item() == pytest.approx(0.75**2 / 2, rel=0.05)  # uniform over the area


def test_the_older_kinds_are_as_they_were():
    expected = {"spirals": -0.62032, "moons": -0.32878, "circles": -0.50315, "blobs": 0.69672}
    found = {kind: PointCloud(kind=kind).draw(0)[0][0, 0].item() for kind in expected}
    assert found == pytest.approx(expected, abs=1e-5)
