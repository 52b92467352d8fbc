"""Gauss-Newton: its step against the dense formula, residuals of the task pde against its objective, ends, refusals."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evolvent import create_model
from evolvent.equations.problems import PROBLEMS, Condition, Problem, register_problem
from evolvent.errors import ConfigError, NonFiniteError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.tasks import OptimizerConfig, Pde, Setup, make_optimizer
from evolvent.tasks.gauss_newton import GaussNewton, Linearised, ResidualBlock
from evolvent.tasks.pde import PdeData, PdeSettings
from evolvent.tasks.quasi_newton import PrecisionWarning


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=30, deadline=None)
@given(m=st.integers(1, 12), n=st.integers(1, 12), damping=st.floats(1e-6, 10), seed=st.integers(0, 999))
def test_the_step_is_that_of_the_dense_formula_whichever_matrix_is_smaller(m, n, damping, seed):
    jacobian, values = numbers(m, n, seed=seed), numbers(m, seed=seed + 1)
    model = Linearised(values, jacobian)
    assert len(model.gram) == min(m, n)
    shift = damping * model.mean * torch.eye(n, dtype=torch.float64)
    expected = torch.linalg.solve(jacobian.T @ jacobian + shift, jacobian.T @ values)
    found = model.step(damping)
    torch.testing.assert_close(found.direction, expected, rtol=1e-6, atol=1e-8)
    left = values - jacobian @ expected
    assert found.decrease == pytest.approx((values.square().sum() - left.square().sum()).item(), rel=1e-6, abs=1e-9)


def test_a_matrix_that_rounding_spoils_is_not_used():
    model = Linearised(numbers(3), torch.ones(3, 5, dtype=torch.float64))
    model.gram[0, 0] = -1.0
    assert model.step(1e-16) is None


def valley(x):
    """Residuals of Rosenbrock's valley in pairs."""

    def residuals():
        r = torch.cat([1 - x[::2], 10 * (x[1::2] - x[::2] ** 2)])
        jacobian = torch.autograd.functional.jacobian(
            lambda z: torch.cat([1 - z[::2], 10 * (z[1::2] - z[::2] ** 2)]), x.detach()
        )
        half = len(r) // 2
        return [
            ResidualBlock(r[:half].detach(), lambda: jacobian[:half]),
            ResidualBlock(r[half:].detach(), lambda: jacobian[half:]),
        ]

    return residuals


def objective_of(residuals):
    return lambda: torch.cat([block.values for block in residuals()]).square().sum()


def test_rosenbrocks_valley_is_left_in_few_iterations_with_a_reason():
    x = nn.Parameter(torch.tensor([-1.2, 1.0] * 4, dtype=torch.float64))
    optimizer = GaussNewton([x], iterations=60)
    residuals = valley(x)
    assert optimizer.step(objective_of(residuals), residuals).item() == pytest.approx(4 * 24.2)
    torch.testing.assert_close(x.detach(), torch.ones_like(x))
    assert "vanishes" in optimizer.stopped or "float64 rounds" in optimizer.stopped
    assert optimizer.state[x]["iterations"] < 60


def test_resumed_from_its_state_it_does_the_same_to_the_last_bit():
    begin = torch.tensor([-1.2, 1.0, 0.3, 2.0], dtype=torch.float64)
    whole, halved = (nn.Parameter(begin.clone()) for _ in range(2))
    first = GaussNewton([whole], iterations=1)
    for _ in range(6):
        first.step(objective_of(valley(whole)), valley(whole))
    second = GaussNewton([halved], iterations=3)
    second.step(objective_of(valley(halved)), valley(halved))
    third = GaussNewton([halved], iterations=3)
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    third.step(objective_of(valley(halved)), valley(halved))
    assert torch.equal(whole, halved)


def flat(x):
    """Residuals that do not depend on x, though their derivatives claim they do."""
    return lambda: [ResidualBlock(torch.ones(1, dtype=x.dtype), lambda: torch.ones(1, 1, dtype=x.dtype))]


def test_no_progress_has_a_reason_and_float32_is_blamed():
    x = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = GaussNewton([x])
    optimizer.step(objective_of(flat(x)), flat(x))
    assert "no step lowers 1 by more than float64 rounds it" in optimizer.stopped
    assert x.item() == 0
    single = nn.Parameter(torch.zeros(1))
    with pytest.warns(PrecisionWarning, match="float32 ended Gauss-Newton"):
        GaussNewton([single]).step(objective_of(flat(single)), flat(single))


def test_an_objective_that_is_not_finite_is_not_called_converged():
    x = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    unknown = lambda: [ResidualBlock(torch.full((1,), torch.nan, dtype=x.dtype), lambda: torch.ones(1, 1, dtype=x.dtype))]  # noqa: E731, E501
    optimizer = GaussNewton([x])
    optimizer.step(objective_of(unknown), unknown)
    assert "the objective or its gradient is not finite, nan" in optimizer.stopped


def test_steps_to_numbers_that_are_not_finite_are_shortened():
    x = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def residuals():  # wants x = 10, but there is a wall at 1
        return [ResidualBlock((x - 10).detach(), lambda: torch.ones(1, 1, dtype=torch.float64))]

    def objective():
        if x.item() > 1:
            raise NonFiniteError("wall")
        return (x - 10).detach().square().sum()

    optimizer = GaussNewton([x], iterations=50)
    optimizer.step(objective, residuals)
    assert 0.5 < x.item() <= 1
    assert "not finite" in optimizer.stopped


def test_what_is_too_large_is_refused_with_what_to_take(monkeypatch):
    monkeypatch.setattr("evolvent.tasks.gauss_newton.MOST_BYTES", 8 * 100)
    block = ResidualBlock(numbers(10), lambda: numbers(10, 20))
    with pytest.raises(ConfigError, match=r"10 residuals of 20 parameters .* Take at most 2 points, ssbroyden.* lbfgs"):
        Linearised.of([block], 20)
    with pytest.raises(ConfigError, match="one group"):
        GaussNewton([{"params": [nn.Parameter(numbers(1))]}, {"params": [nn.Parameter(numbers(1))]}])


if "clamped rod" not in PROBLEMS:

    @register_problem("clamped rod")
    def clamped_rod() -> Problem:
        """Conditions at both ends, of values and slopes."""
        ends = [Condition("left", {"x": 0.0}, lambda u: u.value), Condition("right", {"x": 1.0}, lambda u: u["x"])]
        return Problem(
            name="clamped rod",
            domain={"x": (0.0, 1.0), "t": (0.0, 0.5)},
            equation=lambda u, speed: u["t"] - speed * u["xx"],
            coefficients={"speed": 0.1},
            initial=lambda x: torch.sin(torch.pi * x / 2),
            conditions=ends,
            reference=lambda: lambda p: torch.exp(-0.025 * torch.pi**2 * p[:, 1:]) * torch.sin(torch.pi * p[:, :1] / 2),
        )


def made(data, **given) -> Pde:
    section = PdeData(**{"points": 24, "face_points": 6, "grid": [], "test_points": 8, **data})
    material = Pde.material(Pde.read(section, None), section, 0)
    torch.manual_seed(0)
    model = create_model("perceptron", width=5, layers=2, **material.options).double()
    return Pde(model, material, Setup(PdeSettings(**given), section, OptimizerConfig(name="gauss-newton")))


@pytest.mark.parametrize(
    ("data", "given"),
    [
        ({"name": "heat"}, {}),
        ({"name": "heat"}, {"initial": "hard", "weights": {"equation": 3.0}}),
        ({"name": "clamped rod"}, {"weights": {"conditions": 7.0}}),
        ({"name": "clamped rod", "samples": 9}, {"unknown": {"speed": 0.3}}),
        ({"name": "schroedinger"}, {}),
        ({"name": "poisson"}, {"boundary": "soft"}),
        ({"name": "heat"}, {"weighting": {"causal": 1.0, "attention": 0.9, "balance": True, "pseudo_time": 2.0}}),
        ({"name": "heat", "samples": 9}, {"unknown": {"diffusion": 0.1}, "weighting": {"causal": 1.0}}),
        ({"name": "heat", "fresh": True}, {"method": "galerkin"}),
        (
            {"name": "allen-cahn"},
            {"phases": [{"steps": 1, "coefficients": {"reaction": 1.0}, "weights": {"initial": 2}}]},
        ),
    ],
)
def test_residuals_add_up_to_the_objective_and_their_slopes_to_its_gradient(data, given):
    task = made(data, **given)
    turn = "phase1" if given.get("phases") else "network"
    batch = task.source.take(torch.arange(len(task.source)), 0, 0)
    if task.weighting is not None:
        task.renew_weights(task.weighting)
        with torch.no_grad():  # so that values differ from those that pseudo-time remembers
            for p in task.model.parameters():
                p.add_(0.01)
    value, _ = task.objective(batch, turn)
    parameters = [*task.model.parameters(), *task.factors.values()]
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(value, parameters)])
    blocks = task.residuals(batch, turn)
    residual = torch.cat([block.values for block in blocks])
    jacobian = torch.cat([block.jacobian() for block in blocks])
    torch.testing.assert_close(residual.square().sum(), value)
    torch.testing.assert_close(2 * jacobian.T @ residual, gradient, rtol=1e-7, atol=1e-9)


def test_objectives_that_are_no_sums_of_squares_are_refused():
    ritz = made({"name": "poisson", "fresh": True}, method="ritz")
    batch = ritz.source.take(torch.arange(4), 0, 0)
    with pytest.raises(ConfigError, match=r"the method ritz minimises an energy. Take adam"):
        ritz.residuals(batch, "network")
    found = made({"name": "heat", "samples": 9}, library={})
    with pytest.raises(ConfigError, match="an equation is looked for"):
        found.residuals(batch, "network")
    with pytest.raises(ConfigError, match="gauss-newton has its own keys"):
        OptimizerConfig.read({"name": "gauss-newton", "options": {"x": 1}}, "test")


def recipe(**changes):
    base = {
        "name": "g",
        "title": "G",
        "question": "Is it solved?",
        "task": {"name": "pde"},
        "data": {"name": "heat", "points": 150, "face_points": 40, "grid": [21, 11]},
        "model": {"name": "perceptron", "options": {"width": 12, "layers": 2}},
        "optimizer": {"name": "gauss-newton"},
        "training": {"steps": 24, "epoch_steps": 8, "precision": "64-true"},
    }
    return Recipe.read({**base, **changes}, "test")


def test_the_engine_solves_by_it_and_soap_may_begin(tmp_path):
    [result] = run_grid(recipe(), tmp_path / "run").values()
    assert result.figures["error"] < 5e-3
    begin = {"steps": 2, "optimizer": {"name": "soap", "lr": 0.01, "iterations": 20}}
    [result] = run_grid(recipe(task={"name": "pde", "phases": [begin]}), tmp_path / "both").values()
    assert result.figures["error"] < 5e-3


def test_it_is_resumed_by_the_engine(tmp_path):
    import evolvent as ev
    from evolvent.experiments.observer import Observer

    class Ended(Exception):
        pass

    class EndsAtNine(Observer):
        interval = 0.0

        def cell_progresses(self, cell, progress):
            if progress.step >= 9 and not progress.epoch_ends:
                raise Ended

    training = {"steps": 12, "epoch_steps": 4, "precision": "64-true", "checkpoint_steps": 1}
    run_grid(recipe(training=training), tmp_path / "whole")
    with pytest.raises(Ended):
        run_grid(recipe(training=training), tmp_path / "ended", observer=EndsAtNine())
    run_grid(recipe(training=training), tmp_path / "ended", resume=True)
    points = [[0.3, 0.4]]
    assert ev.load(tmp_path / "ended")(points) == ev.load(tmp_path / "whole")(points)


def test_other_tasks_have_no_residuals(tmp_path):
    spirals = Recipe.read(
        {
            "name": "s",
            "title": "S",
            "question": "Is it refused?",
            "task": {"name": "points"},
            "data": {"points": 20},
            "model": {"name": "point_resnet", "options": {"layers": 2}},
            "optimizer": {"name": "gauss-newton"},
            "training": {"steps": 2, "epoch_steps": 1},
        },
        "test",
    )
    with pytest.raises(ConfigError, match="Take adam, lbfgs or ssbroyden"):
        run_grid(spirals, tmp_path / "run")


def test_it_is_made_by_name():
    made_by_name = make_optimizer([nn.Parameter(numbers(2))], OptimizerConfig(name="gauss-newton", iterations=3))
    assert made_by_name.param_groups[0]["iterations"] == 3
