"""Points of a domain: inside, pure, spread as they should be; samples of a reference."""

import pytest
import torch

from evolvent.data import CollocationPoints
from evolvent.equations.problems import create_problem
from evolvent.errors import ConfigError, UnknownNameError

HEAT = create_problem("heat")


@pytest.mark.parametrize("sampler", ["uniform", "latin", "sobol"])
def test_points_lie_in_the_domain_and_fill_it(sampler):
    points = CollocationPoints(HEAT, 512, sampler).take(torch.arange(512), 1, 0)["x"]
    assert points.dtype == torch.float64
    assert (points >= torch.tensor([-1.0, 0.0])).all()
    assert (points <= torch.tensor([1.0, 1.0])).all()
    counts = torch.histogramdd(points, bins=[4, 4], range=[-1.0, 1.0, 0.0, 1.0]).hist
    assert counts.min() > (24 if sampler == "sobol" else 12)


def test_points_are_functions_of_seed_row_and_epoch():
    fixed, fresh = CollocationPoints(HEAT, 20), CollocationPoints(HEAT, 20, fresh=True)
    rows = torch.tensor([3, 17])
    assert torch.equal(fixed.take(rows, 0, 0)["x"], fixed.take(torch.arange(20), 0, 5)["x"][rows])
    assert not torch.equal(fixed.take(rows, 0, 0)["x"], fixed.take(rows, 1, 0)["x"])
    assert not torch.equal(fresh.take(rows, 0, 0)["x"], fresh.take(rows, 0, 1)["x"])
    assert not torch.equal(fixed.draw(20, 0, 0), fixed.draw(20, 0, 1))


def test_a_part_of_the_domain_and_its_faces():
    source = CollocationPoints(HEAT, 50, within={"t": (0.2, 0.4)})
    t = source.draw(50, 0, 0)[:, 1]
    assert t.min() >= 0.2
    assert t.max() <= 0.4
    face = source.on_face({"x": -1.0}, 10, 0)
    assert (face[:, 0] == -1).all()
    assert (face[:, 1] >= 0.2).all()


def test_samples_are_the_solution_with_noise():
    source = CollocationPoints(HEAT, 5)
    exact, noisy = source.sampled(400, 0.0, 3), source.sampled(400, 0.1, 3)
    assert torch.equal(exact.points, noisy.points)
    torch.testing.assert_close(exact.values, HEAT.solution(exact.points))
    share = (noisy.values - exact.values).std() / exact.values.std()
    assert share.item() == pytest.approx(0.1, rel=0.1)


def test_a_latin_hypercube_has_a_point_in_each_slice_of_each_coordinate():
    points = CollocationPoints(HEAT, 100, "latin").draw(100, 0, 0)
    shares = (points - torch.tensor([-1.0, 0.0])) / torch.tensor([2.0, 1.0])
    for column in shares.T:
        assert sorted((column * 100).floor().int().tolist()) == list(range(100))


@pytest.mark.parametrize("name", ["poisson-disc", "poisson-l-shape"])
@pytest.mark.parametrize("sampler", ["uniform", "latin", "sobol"])
def test_points_of_a_region_lie_inside_and_on_its_boundary(name, sampler):
    source = CollocationPoints(create_problem(name), 1000, sampler)
    inside = source.draw(1000, 0, 0)
    assert inside.shape == (1000, 2)
    assert source.problem.contains(inside).all()
    assert source.problem.inside(inside).min() > 0
    middle = torch.zeros(2) if name == "poisson-disc" else torch.tensor([-1 / 6, 1 / 6])
    torch.testing.assert_close(inside.mean(0), middle.double(), rtol=0, atol=0.06)
    edge = source.on_boundary(1000, 0)
    assert source.problem.inside(edge).abs().max() < 2e-6
    assert not torch.equal(edge, source.on_boundary(1000, 0, 1))
    samples = source.sampled(50, 0.0, 0)
    assert source.problem.contains(samples.points).all()


def test_wrong_parts_are_refused():
    with pytest.raises(UnknownNameError, match="coordinate 'y'"):
        CollocationPoints(HEAT, 5, within={"y": (0, 1)})
    with pytest.raises(ConfigError, match=r"t from 0 to 1, got 0\.5 to 2"):
        CollocationPoints(HEAT, 5, within={"t": (0.5, 2.0)})
    with pytest.raises(UnknownNameError, match="sampler"):
        CollocationPoints(HEAT, 5, "grid")
    with pytest.raises(ConfigError, match="count"):
        CollocationPoints(HEAT, 0)
