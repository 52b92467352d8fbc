"""Densities: drawn by number, integrals of 1, moments, and what is refused."""

import math

import pytest
import torch

from evolvent.data import DENSITIES, DensityPairs, GaussianMixture, Planar, make_density
from evolvent.errors import ConfigError, ShapeError, UnknownNameError


@pytest.mark.parametrize("name", sorted(DENSITIES))
def test_points_depend_on_their_number_and_key_alone(name):
    density = make_density(name, 3)
    some = density.draw(torch.tensor([5, 2]), 1, 7)
    assert some.shape == (2, 3)
    assert torch.equal(density.draw(torch.arange(8), 1, 7)[[5, 2]], some)
    assert not torch.equal(density.draw(torch.tensor([5, 2]), 1, 8), some)
    assert density.draw(torch.arange(1000), 0)[:, :2].abs().max() < 8


def test_a_mixture_has_its_moments_and_integrates_to_one():
    mixture = GaussianMixture([[-1.0], [2.0, 1.0]], [0.5, 0.25], weights=[3.0, 1.0], dimension=2)
    x = mixture.draw(torch.arange(40_000), 3)
    torch.testing.assert_close(x.mean(0), torch.tensor([-0.25, 0.25]), atol=0.03, rtol=0)
    spread = torch.tensor([math.sqrt(0.25 + 27 / 16), math.sqrt(1 / 16 + 3 / 16)])
    torch.testing.assert_close(x.std(0), spread, atol=0.03, rtol=0)
    line = torch.linspace(-6, 6, 241, dtype=torch.float64)
    total = mixture.log_density(torch.cartesian_prod(line, line)).exp().sum() * (line[1] - line[0]) ** 2
    assert total.item() == pytest.approx(1, abs=1e-8)


def test_eight_modes_lie_on_a_circle():
    density = make_density("gaussians", 4, spread=0.01)
    x = density.draw(torch.arange(800), 0)
    assert ((x[:, :2].norm(dim=1) - 4).abs() < 0.1).all()
    eighths = (torch.atan2(x[:, 1], x[:, 0]) / (math.pi / 4)).round() % 8
    assert torch.bincount(eighths.long(), minlength=8).min() > 60


def test_a_checkerboard_fills_every_other_square():
    x = make_density("checkerboard", 2).draw(torch.arange(4000), 0)
    squares = ((x + 4) / 2).floor().long()
    assert ((squares >= 0) & (squares < 4)).all()
    assert (squares.sum(1) % 2 == 1).all()
    assert len(squares.unique(dim=0)) == 8


def test_pairs_are_independent_and_parts_share_no_point():
    one = make_density("gaussian", 2)
    pairs = [DensityPairs(one, one, 500, part).take(torch.arange(500), 0, 0) for part in (0, 1)]
    for a, b in ((pairs[0][0], pairs[0][1]), (pairs[0][0], pairs[1][0]), (pairs[0][1], pairs[1][0])):
        assert (a * b).mean().abs() < 0.15


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gaussian", {"centre": 3.0}, r"centre of a density is a list of finite numbers, .* got 3\.0"),
        ("gaussian", {"centre": ["a"]}, r"centre of a density .* got \['a'\]"),
        ("gaussian", {"centre": [float("nan")]}, "centre of a density"),
        ("gaussian", {"spread": "a"}, "spread of a density is a list"),
        ("gaussian", {"spread": [1.0, -1.0]}, "spread must be positive"),
        ("gaussians", {"weights": 3}, "weights of a density is a list"),
        ("gaussians", {"modes": "8"}, "modes must be a whole number"),
        ("gaussians", {"radius": "a"}, "radius must be positive"),
        ("moons", {"noise": "a"}, "noise must be finite and at least 0"),
        ("rings", {"noise": -1.0}, "noise must be finite and at least 0"),
        ("spirals", {"noise": float("nan")}, "noise must be finite and at least 0"),
    ],
)
def test_options_of_a_wrong_kind_are_refused(name, options, message):
    with pytest.raises(ConfigError, match=message):
        make_density(name, 2, **options)


def test_what_an_own_density_does_not_take_is_named(monkeypatch):
    monkeypatch.setitem(DENSITIES._entries, "own", lambda dimension, side: GaussianMixture([[2 * side**0.5]]))
    with pytest.raises(ConfigError, match="density 'own' cannot be made with side: 'wide': unsupported operand"):
        make_density("own", 2, side="wide")


def test_what_is_no_density_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'gaussian'"):
        make_density("gausian", 2)
    with pytest.raises(UnknownNameError, match="Did you mean 'spread'"):
        make_density("gaussian", 2, spred=1.0)
    with pytest.raises(ConfigError, match="none negative"):
        make_density("gaussians", 2, modes=2, weights=[1.0, -0.5])
    with pytest.raises(ConfigError, match="one number for each of 8 modes, got 2"):
        make_density("gaussians", 2, weights=[1.0, 1.0])
    with pytest.raises(ConfigError, match="spread must be positive"):
        make_density("gaussian", 2, spread=0.0)
    with pytest.raises(ConfigError, match="one for each of 2 coordinates, got 3"):
        make_density("gaussian", 2, spread=[1.0, 1.0, 1.0])
    with pytest.raises(ConfigError, match="at most 2 coordinates"):
        make_density("gaussian", 2, centre=[1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match="lies in a plane"):
        make_density("moons", 1)
    with pytest.raises(ConfigError, match="same dimension, got 2 and 3"):
        DensityPairs(make_density("gaussian", 2), make_density("gaussian", 3), 4)
    with pytest.raises(ShapeError, match="in 2 dimensions"):
        make_density("gaussian", 2).log_density(torch.zeros(4, 3))
    with pytest.raises(ConfigError, match="only known by its points"):
        Planar("moons").log_density(torch.zeros(1, 2))
