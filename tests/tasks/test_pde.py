"""The task of solving an equation: its objective, its points, what it solves and finds, and why it ends."""

import math

import pytest
import torch

from evolvent import create_model
from evolvent.data import Batches
from evolvent.equations import Derivatives, polynomial_terms
from evolvent.equations.problems import PROBLEMS, Condition, Problem, register_problem
from evolvent.errors import ConfigError, DataError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.tasks import TASKS, OptimizerConfig, Pde, Plan, Setup
from evolvent.tasks.pde import Discovery, PdeData, PdeSettings
from evolvent.tasks.quasi_newton import PrecisionWarning


def made(model=None, data=None, seed=0, **settings) -> Pde:
    section = PdeData(**{"name": "heat", "points": 40, "grid": [8, 5], "face_points": 16, **(data or {})})
    material = Pde.material(Pde.read(section, None), section, seed)
    torch.manual_seed(0)
    model = model or create_model("perceptron", width=6, layers=2, **material.options).double()
    setup = Setup(PdeSettings(**settings), section, OptimizerConfig(name="ssbroyden"), seed=seed)
    return Pde(model, material, setup)


def batch_of(task: Pde):
    return task.source.take(torch.arange(len(task.source)), 0, 0)


class Exact(torch.nn.Module):
    """The solution of the heat equation, as a network."""

    def __init__(self, decay: float = 0.05) -> None:
        super().__init__()
        self.decay = torch.nn.Parameter(torch.tensor(decay, dtype=torch.float64))

    def forward(self, p):
        x, t = p[:, :1], p[:, 1:]
        waves = [
            a * torch.exp(-self.decay * (k * math.pi) ** 2 * t) * torch.sin(k * math.pi * x)
            for k, a in ((1, 1.0), (4, 0.5))
        ]
        return waves[0] + waves[1]


def test_the_objective_of_the_solution_vanishes_and_that_of_others_does_not():
    task = made(Exact(), {"samples": 20})
    value, sums = task.objective(batch_of(task), "network")
    assert value.item() < 1e-20
    assert task.figures_of(sums)["residual"] < 1e-10
    wrong, _ = made(Exact(0.06), {"samples": 20}).objective(batch_of(task), "network")
    assert wrong.item() > 1e-3


def test_parts_have_their_weights():
    weights = {"equation": 0, "initial": 0, "samples": 0}
    task = made(data={"samples": 20})
    parts = {}
    for name in weights:
        one = made(data={"samples": 20}, weights={**weights, name: 3})
        parts[name] = one.objective(batch_of(one), "network")[0] / 3
    whole = made(data={"samples": 20}, weights={"equation": 1, "initial": 2, "samples": 5})
    expected = parts["equation"] + 2 * parts["initial"] + 5 * parts["samples"]
    torch.testing.assert_close(whole.objective(batch_of(task), "network")[0], expected)
    empty = made(weights={"equation": 0, "initial": 0})
    with pytest.raises(ConfigError, match="nothing is left of the objective"):
        empty.objective(batch_of(empty), "network")


def test_phases_have_their_own_coefficients_and_turns():
    phases = [{"steps": 3, "coefficients": {"diffusion": 0.06}}, {"steps": 2, "weights": {"initial": 0}}]
    task = made(Exact(0.06), phases=phases)
    turns = task.turns(Plan(2, 9))
    assert [(turn.name, turn.since, turn.until) for turn in turns] == [
        ("phase1", 0, 3),
        ("phase2", 3, 5),
        ("network", 5, None),
    ]
    assert [turn.name for turn in task.turns(Plan(2, 5))] == ["phase1", "phase2"]
    values = {name: task.objective(batch_of(task), name)[0].item() for name in ("phase1", "phase2", "network")}
    assert values["phase1"] < 1e-20
    assert values["phase2"] == pytest.approx(values["network"])
    assert values["network"] > 1e-3


def test_a_hard_initial_value_holds_whatever_the_network_says():
    task = made(initial="hard")
    start = made().edges().start
    torch.testing.assert_close(task.solution(start), task.problem.initial_values(start))
    assert set(task._parts(batch_of(task), task.setup.settings.weights, {})) == {"equation"}
    late = start.clone()
    late[:, 1] = 1.0
    torch.testing.assert_close(task.solution(late), task.model(late), rtol=0, atol=1e-3)


def test_conditions_are_asked_for():
    if "held rod" not in PROBLEMS:
        register_problem("held rod")(
            lambda: Problem(
                name="held rod",
                domain={"x": (0.0, 1.0), "t": (0.0, 1.0)},
                equation=lambda u: u["t"] - u["xx"],
                conditions=[
                    Condition("insulated", {"x": 1.0}, lambda u: u["x"] - 2.0),
                    Condition("warmed", {"x": 0.0}, lambda u: u.value - 2.0 * u.points["t"]),
                    Condition("start", {"t": 0.0}, lambda u: u.value - u.points["x"] ** 2),
                ],
                reference=lambda: lambda points: points[:, :1] ** 2 + 2 * points[:, 1:],
            )
        )

    class Square(Exact):
        def forward(self, p):
            return p[:, :1] ** 2 + 2 * p[:, 1:] + 0 * self.decay

    task = made(Square(), {"name": "held rod"})
    assert task.objective(batch_of(task), "network")[0].item() < 1e-20
    assert set(task._parts(batch_of(task), task.setup.settings.weights, {})) == {"equation", "conditions"}
    assert (
        task.test_figures(Batches(Pde.material(Pde.read(task.setup.data, None), task.setup.data, 0).test))["error"]
        < 1e-12
    )


def test_points_go_where_the_residual_is_large():
    class Bump(Exact):
        def forward(self, p):
            return torch.exp(-200 * (p[:, :1] - 0.5) ** 2) * torch.sin(torch.pi * p[:, 1:]) + 0 * self.decay

    task = made(Bump(), {"points": 400}, resample_at=[2])
    near = lambda: ((task.points[:, 0] - 0.5).abs() < 0.2).double().mean().item()  # noqa: E731
    before = task.points.clone()
    task.epoch_ends({})
    assert torch.equal(task.points, before)
    task.epoch_ends({})
    assert near() > 1.8 * ((before[:, 0] - 0.5).abs() < 0.2).double().mean().item()
    other = made(Bump(), {"points": 400}, resample_at=[2])
    other.epoch_ends({})
    other.epoch_ends({})
    assert torch.equal(task.points, other.points)


def test_fresh_points_come_from_the_batch():
    task = made(Exact(0.1), {"fresh": True})
    batch = batch_of(task)
    far = {**batch, "x": batch["x"] * 0 + torch.tensor([0.5, 1.0])}
    assert task.objective(far, "network")[0] != task.objective(batch, "network")[0]


def test_the_training_ends_when_the_optimiser_does():
    task = made(resample_at=[3])
    assert not task.optimizer_stops("phase1", "")
    assert not task.optimizer_stops("network", "")
    for _ in range(3):
        task.epoch_ends({})
    assert task.optimizer_stops("network", "")


def test_lbfgs_that_float32_ended_is_warned_of():
    task = made(phases=[{"steps": 1, "optimizer": {"name": "lbfgs"}}])
    with pytest.warns(PrecisionWarning, match="float32 ended L-BFGS: it is tired"):
        task.optimizer_stops("phase1", "it is tired of float32")
    task.optimizer_stops("network", "it is tired of float32")  # other methods have said it themselves


def test_networks_that_take_no_coordinates_and_wrong_grids_are_refused():
    with pytest.raises(ConfigError, match="takes no coordinates"):
        Pde.check_model("resnet", ["num_classes"])
    with pytest.raises(ConfigError, match="a number for each of x, t"):
        Pde.read(PdeData(name="heat", grid=[4]), None)


HEAT = {
    "name": "heat",
    "title": "Heat",
    "question": "Is it solved?",
    "task": {
        "name": "pde",
        "phases": [{"steps": 4, "optimizer": {"name": "adam", "lr": 0.01, "iterations": 25}}],
        "times": [0.5],
    },
    "data": {"name": "heat", "points": 256, "grid": [32, 11], "face_points": 64},
    "model": {"name": "perceptron", "options": {"width": 12, "layers": 2}},
    "optimizer": {"name": "ssbroyden", "iterations": 50},
    "training": {"steps": 16, "epoch_steps": 4, "precision": "64-true"},
}


def test_the_engine_solves_the_heat_equation(tmp_path):
    [result] = run_grid(Recipe.read(HEAT, "test"), tmp_path / "run").values()
    assert result.figures["error"] < 2e-3
    assert result.figures["error_at_0.5"] < 2e-3
    measured = [kind.name for kind in result.kinds if kind.name in result.figures]
    assert measured == ["error", "residual", "error_at_0.5"]


def test_the_engine_ends_with_the_optimiser_and_says_why(tmp_path):
    short = {**HEAT, "task": {"name": "pde"}, "training": {"steps": 9, "epoch_steps": 3, "precision": "64-true"}}
    short["data"] = {**HEAT["data"], "points": 1, "samples": 2, "grid": [4, 3]}
    short["task"]["weights"] = {
        "equation": 0,
        "initial": 0,
    }  # two samples are met exactly, and then nothing is left to do
    short["optimizer"] = {"name": "ssbroyden", "iterations": 300}
    [result] = run_grid(Recipe.read(short, "test"), tmp_path / "run").values()
    assert result.steps < 9
    assert set(result.stopped) == {"network"}
    assert "float64" in result.stopped["network"] or "vanishes" in result.stopped["network"]


def burgers_derivatives(count=400):
    """u of a made-up flow and its derivatives, in closed form."""
    draw = torch.Generator().manual_seed(0)
    u, u_x, u_xx, u_xxx = (2 * torch.rand(count, 1, dtype=torch.float64, generator=draw) - 1 for _ in range(4))
    u_t = -u * u_x + 0.003 * u_xx
    return Derivatives(u, {"x": [u_x, 30 * u_xx, u_xxx], "t": [u_t + 0.003 * 29 * u_xx]})


def test_coefficients_are_the_best_and_needless_terms_are_left_out():
    discovery, u = Discovery(polynomial_terms(("x",))), burgers_derivatives()
    assert discovery.needed == ["t", "xxx"]
    assert discovery.residual(u).abs().max() < 1e-12
    dropped = discovery.eliminate(u, growth=1e6)
    assert len(dropped) == 14
    assert discovery.equation.text(1e-9) == "u_t = -u u_x + 0.003 u_xx"
    assert discovery.eliminate(u, growth=1e6) == []
    assert discovery.residual_of(u).abs().max() < 1e-12


def test_coefficients_are_stored_to_the_last_digit(tmp_path):
    terms = polynomial_terms(("x",), 1, 1)
    written, read = Discovery(terms), Discovery(terms)
    written.equation.alpha.copy_(torch.tensor([0.1, 0.0, 1e-60, -torch.pi], dtype=torch.float64))
    written.write(tmp_path / "equation.json")
    read.read(tmp_path / "equation.json")
    assert torch.equal(read.equation.alpha, written.equation.alpha)
    assert read.active.tolist() == [True, False, True, True]


def test_the_gradient_with_coefficients_eliminated_is_that_of_the_minimum():
    """Against finite differences of the minimum itself."""
    torch.manual_seed(0)
    net, discovery = create_model("perceptron", width=5, layers=1).double(), Discovery(polynomial_terms(("x",), 1, 2))
    problem = made().problem
    points = problem.sobol(60, 0)

    def least() -> torch.Tensor:
        return discovery.residual(problem.derivatives(net, points, discovery.needed)).square().mean()

    weight = net.layers[0].bias
    (gradient,) = torch.autograd.grad(least(), weight)
    for k in range(3):
        with torch.no_grad():
            values = []
            for step in (1e-5, -2e-5):
                weight[k] += step
                values.append(least().item())
            weight[k] += 1e-5
        assert gradient[k].item() == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-9)


FOUND = {
    "task": {
        "name": "pde",
        "weights": {"samples": 1000},
        "library": {"powers": 1, "orders": 2, "eliminate_at": [3, 4]},
        "phases": [
            {"steps": 4, "optimizer": {"name": "adam", "lr": 0.01, "iterations": 25}, "weights": {"equation": 0}},
            {"steps": 6, "optimizer": {"name": "ssbroyden", "iterations": 50}, "weights": {"equation": 0}},
        ],
    },
    "data": {"name": "heat", "points": 256, "grid": [32, 11], "samples": 400},
    "training": {"steps": 20, "epoch_steps": 5, "precision": "64-true"},
}


def test_the_heat_equation_is_found_from_samples(tmp_path):
    from evolvent.experiments.record import read_findings
    from evolvent.experiments.trained import evaluate_run

    [result] = run_grid(Recipe.read({**HEAT, **FOUND}, "test"), tmp_path / "run").values()
    folder = tmp_path / "run"
    found = read_findings(folder if (folder / "findings.json").is_file() else next((folder / "cells").iterdir()))
    rows = {name: (value, error) for name, value, error, _ in found.tables[0].rows}
    table = {name: value for name, (value, _) in rows.items()}
    assert [name for name, value in table.items() if value is not None] == ["u_xx"]
    assert table["u_xx"] == pytest.approx(0.05, rel=0.01)
    assert 0 < rows["u_xx"][1] < 1e-3
    assert found.answer.startswith("u_t = 0.0")
    assert result.figures["error"] < 1e-2
    _, _, again = evaluate_run(folder if (folder / "config.yaml").is_file() else next((folder / "cells").iterdir()))
    assert again.answer == found.answer


def test_an_equation_that_was_never_fitted_is_said_to_have_no_term(tmp_path):
    task = made(data={"samples": 20}, library={"powers": 1, "orders": 2})
    task.save_kept(tmp_path / "model")
    task.load_kept(tmp_path / "model")
    assert task.discovery is not None
    assert task.discovery.kept == []
    section = PdeData(name="heat", points=40, grid=[8, 5])
    found = task.conclude(Batches(Pde.material(Pde.read(section, None), section, 0).test, 40, 0))
    assert found.answer.startswith("no term is significant")
    assert found.figures["terms"] == 0


def test_a_lost_equation_is_reported(tmp_path):
    task = made(library={})
    task.model = create_model("perceptron", width=6, layers=2, **task.problem.network_options())
    task.save_kept(tmp_path / "model")
    task.load_kept(tmp_path / "model")
    path = tmp_path / "model" / "equation.json"
    changed = path.read_text().replace("0.0", "0.5", 1)
    for text, said in (
        ("{}", "coefficients of the equation: it has no key"),
        (changed, "line 'sha256' as well. Or train"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            task.load_kept(tmp_path / "model")


def test_the_task_is_registered():
    assert TASKS.get("pde") is Pde
