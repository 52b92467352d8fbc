"""Training by algebra is plain training, and much less work."""

import copy

import pytest
import torch
from torch.nn import functional as F

from evolvent import create_model
from evolvent.errors import ConfigError, ShapeError
from evolvent.graphs import laplacian
from evolvent.tasks.fewshot.algebra import train_episodes, train_plainly
from evolvent.tasks.fewshot.descent import Descent
from evolvent.tasks.fewshot.objective import EpisodeObjective

RATES = [0.1] * 50 + [0.01] * 25 + [0.001] * 25


def episodes(way, shot, query, dim, tasks=2):
    """Points of blurred classes, the support first, with the classes of the support."""
    draw = torch.Generator().manual_seed(way + 10 * shot + 100 * query + dim)
    labels = torch.cat([torch.arange(way).repeat_interleave(n) for n in (shot, query)])
    centres = torch.randn(tasks, way, dim, generator=draw, dtype=torch.float64)
    noise = torch.randn(tasks, len(labels), dim, generator=draw, dtype=torch.float64)
    x = F.normalize(centres[:, labels] + 0.8 * noise, dim=-1)
    return x, labels[: way * shot].expand(tasks, -1).contiguous()


def network(name="diff_resnet_fewshot", seed=0, **options):
    torch.manual_seed(seed)
    return create_model(name, n_top=4, sigma_neighbour=2, **options).double()


def largest_difference(model, x, objective, descent):
    together = train_episodes(model, x, objective, descent)
    off = 0.0
    for k in range(len(x)):
        part = slice(k, k + 1)
        alone = train_plainly(copy.deepcopy(model), x[part], objective.part(part), descent)
        off = max(off, (together[part] - alone).abs().max().item())
    return off


SIZES = [(5, 1, 3, 16), (3, 2, 4, 24), (2, 5, 2, 7), (5, 5, 2, 12)]


@pytest.mark.parametrize(("way", "shot", "query", "dim"), SIZES)
@pytest.mark.parametrize("name", ["diff_resnet_fewshot", "resnet_fewshot"])
def test_algebra_is_plain_training(name, way, shot, query, dim):
    x, labels = episodes(way, shot, query, dim)
    model = network(name, num_classes=way, in_features=dim)
    assert largest_difference(model, x, EpisodeObjective(labels), Descent(RATES)) < 1e-12


@pytest.mark.parametrize("name", ["diff_resnet_fewshot", "resnet_fewshot"])
def test_algebra_is_plain_training_with_every_term_of_the_objective(name):
    x, labels = episodes(4, 2, 3, 16)
    model = network(name, num_classes=4, in_features=16)
    prototypes = x[:, :8].unflatten(1, (4, 2)).mean(2)
    objective = EpisodeObjective(labels, 0.05, torch.cdist(x[:, 8:], prototypes), 0.01, laplacian(model.weights(x)))
    assert largest_difference(model, x, objective, Descent(RATES)) < 1e-12


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 1e-2), (0.5, 1e-2)])
def test_algebra_is_plain_training_for_other_descents(momentum, decay):
    x, labels = episodes(3, 1, 4, 10)
    model = network(num_classes=3, in_features=10, diffusion_steps=3)
    assert largest_difference(model, x, EpisodeObjective(labels), Descent(RATES[40:80], momentum, decay)) < 1e-12


def test_episodes_do_not_see_each_other():
    x, labels = episodes(3, 1, 3, 8, tasks=11)  # more than are trained at once
    model = network(num_classes=3, in_features=8)
    whole = train_episodes(model, x, EpisodeObjective(labels), Descent([0.1] * 5))
    last = train_episodes(model, x[10:], EpisodeObjective(labels[10:]), Descent([0.1] * 5))
    torch.testing.assert_close(whole[10:], last, rtol=0, atol=1e-13)


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_network_is_left_as_it_was(tasks):
    x, labels = episodes(2, 1, 3, 6, tasks)
    model = network(num_classes=2, in_features=6)
    before = copy.deepcopy(model.state_dict())
    train_episodes(model, x, EpisodeObjective(labels), Descent([0.1] * 3))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_derivative_is_that_of_the_value():
    _, labels = episodes(3, 2, 3, 6)
    w = torch.rand(2, 15, 15, dtype=torch.float64)
    L = laplacian((w + w.mT) / 2)
    objective = EpisodeObjective(labels, 0.7, torch.rand(2, 9, 3, dtype=torch.float64), 0.3, L)
    z = torch.randn(2, 15, 3, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(objective.value(z).sum(), z)
    torch.testing.assert_close(objective.derivative(z.detach().mT).mT, expected)


def test_laplacian_term_is_the_sum_over_pairs():
    _, labels = episodes(2, 1, 2, 3)
    w = torch.rand(2, 6, 6, dtype=torch.float64)
    w = (w + w.mT) / 2
    z = torch.randn(2, 6, 2, dtype=torch.float64)
    pairs = (w * (z[:, :, None] - z[:, None]).square().sum(-1)).sum((-1, -2))
    with_term = EpisodeObjective(labels, laplacian_weight=0.25, laplacian=laplacian(w)).value(z)
    torch.testing.assert_close(with_term - EpisodeObjective(labels).value(z), 0.25 * pairs)


def test_coefficients_are_those_of_sgd():
    descent = Descent([0.3, 0.3, 0.03, 0.2], 0.7, 0.05)
    a, c = descent.coefficients()
    theta = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    optimizer = torch.optim.SGD([theta], momentum=0.7, weight_decay=0.05)
    gradients = torch.tensor([1.0, -3.0, 0.5, 2.0], dtype=torch.float64)
    for t, rate in enumerate(descent.rates):
        optimizer.param_groups[0]["lr"] = rate
        theta.grad = gradients[t].clone()
        optimizer.step()
        assert (a[t + 1] * 2.0 + c[t + 1] @ gradients).item() == pytest.approx(theta.item(), abs=1e-14)


@pytest.mark.parametrize("rates", [[], [0.1, 0.0], [float("nan")], None, ["0.1"], [None], 0.1])
def test_descent_refuses_impossible_rates(rates):
    with pytest.raises(ConfigError):
        Descent(rates)


def test_points_of_another_width_are_refused():
    x, labels = episodes(2, 1, 3, 6)
    with pytest.raises(ShapeError, match="5 features"):
        train_episodes(network(num_classes=2, in_features=5), x, EpisodeObjective(labels), Descent([0.1]))
