"""Flows down a potential: known maps, densities both ways, costs, and the Hamilton-Jacobi equation."""

import math

import pytest
import torch

import evolvent as ev
from evolvent.equations import Characteristics, Congestion, Obstacle, RunningCost, TransportFlow
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.integrators import Euler


def network(dimension=2, scale=0.3, **options):
    model = ev.create_model("otflow", in_features=dimension, width=16, **options).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def without_network(dimension=2):
    """A potential that is a quadratic alone."""
    model = ev.create_model("otflow", in_features=dimension).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def normal(x):
    return -(x.square().sum(1, keepdim=True) + x.shape[1] * math.log(2 * math.pi)) / 2


def test_a_linear_potential_moves_straight_and_solves_the_equation():
    model = without_network()
    with torch.no_grad():
        model.linear.copy_(torch.tensor([-3.0, 4.0, 12.5]))  # time: half the square of the speed
    x = torch.randn(6, 2, dtype=torch.float64)
    end = TransportFlow(model, steps=3)(x)
    torch.testing.assert_close(end.points, x + torch.tensor([3.0, -4.0]))
    torch.testing.assert_close(end.cost, torch.full_like(end.cost, 12.5))
    assert end.residual.abs().max() < 1e-12
    assert end.log_determinant.abs().max() == 0


def test_a_quadratic_potential_shrinks_space_by_its_exponential():
    model = without_network()
    with torch.no_grad():
        model.quadratic[0, 0], model.quadratic[1, 1] = 1.0, 0.5
    x = torch.randn(6, 2, dtype=torch.float64)
    end = TransportFlow(model, steps=16)(x)
    rates = torch.tensor([1.0, 0.25], dtype=torch.float64)
    torch.testing.assert_close(end.points, x * torch.exp(-rates), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(end.log_determinant, torch.full_like(end.log_determinant, -1.25), rtol=1e-12, atol=0)
    cost = ((rates * x).square() * (1 - torch.exp(-2 * rates)) / (2 * rates)).sum(1, keepdim=True) / 2
    torch.testing.assert_close(end.cost, cost, rtol=1e-5, atol=1e-8)


def test_the_determinant_is_that_of_the_map():
    flow, x = TransportFlow(network(3), steps=12), torch.randn(4, 3, dtype=torch.float64)
    jacobians = torch.stack([torch.func.jacrev(lambda row: flow(row[None]).points[0])(row) for row in x])
    found = flow(x).log_determinant[:, 0]
    torch.testing.assert_close(found, torch.linalg.det(jacobians).log(), rtol=1e-4, atol=1e-5)


def test_the_inverse_undoes_the_map_at_the_methods_order():
    model, x = network(5), torch.randn(20, 5, dtype=torch.float64)

    def error(steps):
        flow = TransportFlow(model, steps)
        end = flow(x)
        back = flow.inverse(end.points)
        return (back.points - x).abs().max().item(), (back.log_determinant + end.log_determinant).abs().max().item()

    assert max(error(8)) < 1e-3
    for coarse, fine in zip(error(8), error(16), strict=True):
        assert fine < coarse / 8


def test_densities_both_ways_are_densities():
    flow = TransportFlow(network(2, scale=0.2), steps=8)
    line = torch.linspace(-9, 9, 181, dtype=torch.float64)
    plane = torch.cartesian_prod(line, line)
    area = (line[1] - line[0]).item() ** 2
    with torch.no_grad():
        for density in (flow.pulled_back(normal), flow.pushed_forward(normal)):
            assert density(plane).exp().sum().item() * area == pytest.approx(1, abs=1e-3)
        x = torch.randn(7, 2, dtype=torch.float64)
        end = flow(x)
        there = flow.pushed_forward(normal)(end.points)
    torch.testing.assert_close(there, normal(x) - end.log_determinant, rtol=1e-3, atol=1e-3)


def test_the_density_enters_the_running_costs():
    model, x = network(), torch.randn(5, 2, dtype=torch.float64)
    plain = TransportFlow(model, 4)(x)
    crowded = TransportFlow(model, 4, [Congestion(2.0)])(x, normal(x))
    torch.testing.assert_close(-crowded.log_determinant, normal(x) - plain.log_determinant)
    way = Characteristics(model, [Congestion(2.0), Obstacle(3.0, (0.0, 0.0))])
    state = torch.cat([x, -normal(x), torch.zeros(5, 3, dtype=torch.float64)], 1)
    hill = 3 * torch.exp(-x.square().sum(1) / 2)
    torch.testing.assert_close(way(0.0, state)[:, -2], 2 * normal(x)[:, 0] + hill)
    gradient = model.gradient(torch.cat([x, torch.zeros(5, 1, dtype=torch.float64)], 1))
    change = 2 * (normal(x)[:, 0] + 1) + hill
    residual = gradient[:, -1] - gradient[:, :-1].square().sum(1) / 2 + change
    torch.testing.assert_close(way(0.0, state)[:, -1], residual.abs())


def test_costs_of_a_density_that_is_not_given_are_not_a_number():
    x = torch.randn(5, 2, dtype=torch.float64)
    flow, plain = TransportFlow(network(), 16, [Congestion(2.0)]), TransportFlow(network(), 4, [Obstacle(1.0, (0.0,))])
    end = flow(x, normal(x))
    for found in (flow(x), flow.inverse(end.points)):
        assert found.running.isnan().all()
        assert found.residual.isnan().all()
        assert torch.cat([found.points, found.log_determinant, found.cost], 1).isfinite().all()
    assert plain(x).running.isfinite().all()
    torch.testing.assert_close(flow(x).points, end.points, rtol=0, atol=0)
    back = flow.inverse(end.points, -end.log_determinant)
    torch.testing.assert_close(-back.log_determinant, normal(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(back.running, -end.running, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(back.residual, -end.residual, rtol=1e-2, atol=1e-2)


def test_densities_and_costs_are_columns():
    """One axis would be stretched to all pairs of points."""

    class Lone(RunningCost):
        def __call__(self, x, log_density):
            return x.square().sum(1)

    flow, x = TransportFlow(network(), 2), torch.randn(5, 2, dtype=torch.float64)
    for density in (flow.pulled_back, flow.pushed_forward):
        with pytest.raises(ShapeError, match=r"log-density must be .* \(5, 1\), got float64 of shape \(5,\)"):
            density(lambda points: normal(points)[:, 0])(x)
    with pytest.raises(ShapeError, match=r"log_density must be .* \(5, 1\)"):
        flow(x, normal(x)[:, 0])
    with pytest.raises(ShapeError, match="running cost Lone must be"):
        TransportFlow(network(), 2, [Lone()])(x)


@pytest.mark.parametrize("kind", ["entropy", "density"])
def test_variations_are_derivatives_of_the_costs(kind):
    """The functional of densities on a grid, differentiated by the density."""
    term, x = Congestion(0.7, kind), torch.linspace(-3, 3, 61, dtype=torch.float64)[:, None]
    density = torch.exp(normal(x)).requires_grad_()
    (term(x, density.log()) * density).sum().backward()
    torch.testing.assert_close(density.grad, term.variation(x, density.log()).detach())


def test_paths_begin_and_end_where_points_do():
    flow, x = TransportFlow(network(), 6, integrator=Euler()), torch.randn(4, 2, dtype=torch.float64)
    path = flow.path(x)
    assert path.shape == (7, 4, 2)
    torch.testing.assert_close(path[0], x)
    torch.testing.assert_close(path[-1], flow(x).points)


def test_bad_costs_and_points_are_explained():
    with pytest.raises(ConfigError, match="radius"):
        Obstacle(1.0, (0.0, 0.0), 0.0)
    with pytest.raises(ConfigError, match="2 coordinates and 1 radii"):
        Obstacle(1.0, (0.0, 0.0), (1.0,))
    with pytest.raises(ConfigError, match="height"):
        Obstacle(-1.0, (0.0,))
    with pytest.raises(ShapeError, match="3 coordinates, but points have 2"):
        Obstacle(1.0, (0.0, 0.0, 0.0))(torch.zeros(1, 2), torch.zeros(1, 1))
    with pytest.raises(UnknownNameError, match="Did you mean 'entropy'"):
        Congestion(1.0, "entropie")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ShapeError, match="points as"):
        TransportFlow(network())(torch.zeros(3, dtype=torch.float64))
