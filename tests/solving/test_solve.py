"""Solving in one call: what comes of it, its files, resuming, and what bad input is told."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import evolvent as ev
from evolvent._core.seals import write_sealed
from evolvent.equations.laplacian import SecondOrder
from evolvent.equations.problems import Condition, Problem, create_problem
from evolvent.errors import ConfigError, DataError, ModelFileError, NonFiniteError, ShapeError, UnknownNameError
from evolvent.experiments.observer import Observer
from evolvent.experiments.record import read_findings
from evolvent.solving import METHODS, OutsideDomainWarning, Pace
from evolvent.solving.folders import read_kept
from evolvent.solving.grids import write_grid_csv, write_grid_npz
from evolvent.solving.plan import measure_pace, parse_budget
from evolvent.solving.solution import Solution
from evolvent.tasks.pde.ansatz import Ansatz


def rod(**changes) -> Problem:
    """The slowest wave of a rod with cold ends."""
    stated = {
        "name": "cold rod",
        "domain": {"x": (0.0, 1.0), "t": (0.0, 1.0)},
        "equation": lambda u, conductivity: u["t"] - conductivity * u["xx"],
        "coefficients": {"conductivity": 0.1},
        "initial": lambda x: torch.sin(math.pi * x),
        "conditions": [Condition(f"end at {x:g}", {"x": x}, lambda u: u.value) for x in (0.0, 1.0)],
    }
    return Problem(**{**stated, **changes})


def test_what_a_damaged_description_lacks_is_said(tmp_path):
    with pytest.raises(ModelFileError, match=r"is a solution: there is no such file. Solve again."):
        read_kept(tmp_path)
    (tmp_path / "solution.json").write_text("{}")
    with pytest.raises(ModelFileError, match=r"is a solution: it has no key 'initial'. Solve again."):
        read_kept(tmp_path)
    write_sealed(tmp_path / "solution.json", {"initial": "soft"})
    (tmp_path / "solution.json").write_text((tmp_path / "solution.json").read_text().replace("soft", "hard"))
    with pytest.raises(ModelFileError, match=r"its checksum differs. If you .* 'sha256' as well. Or solve again."):
        read_kept(tmp_path)


def test_a_well_solved_heat_equation_is_trusted(heat):
    assert heat.figures["error"] < 2e-3
    assert heat.trust.trusted, heat.trust.verdict
    assert heat.trust.verdict.startswith("Trust it to about")
    estimate = {check.name: check.value for check in heat.trust.checks}
    assert estimate["linearised error"] == pytest.approx(heat.figures["error"], rel=0.2)
    assert estimate["second solution"] < 3e-3
    assert "Trust it" in repr(heat)


def test_a_solution_is_called_on_points(heat):
    points = create_problem("heat").sobol(50, seed=3)
    found = heat(points)
    assert found.shape == (50, 1)
    assert (found - create_problem("heat").solution(points)).abs().max() < 0.01
    np.testing.assert_allclose(heat(points.numpy()), found.numpy())
    points.requires_grad_()
    (slope,) = torch.autograd.grad(heat(points).sum(), points)
    assert slope.shape == (50, 2)
    points = points.detach()
    assert heat.derivatives(points, ["xx"])["xx"].shape == (50, 1)
    with pytest.raises(ShapeError, match=r"points \(N, 2\) of x, t"):
        heat([[0.1, 0.2, 0.3]])
    with pytest.raises(ShapeError, match="got str 'abc'"):
        heat("abc")


def test_points_outside_of_the_domain_are_warned_of_once(heat):
    for points in ([[0.5, 50.0]], torch.tensor([[0.5, 50.0]])):
        heat._warned = False
        with pytest.warns(OutsideDomainWarning, match="t from 0 to 1"):
            heat(points)
        heat(points)
    inside = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    assert torch.func.jacrev(heat)(inside).shape == (1, 1, 1, 2)


@pytest.mark.parametrize(
    ("counts", "message"),
    [((8,), "each of x, t"), ((8, 0), "points along t"), ((8, 2.5), "points along t"), ((10**5, 10**5), "too large")],
)
def test_grids_that_cannot_be_made_are_refused(heat, counts, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        heat.write_csv(tmp_path / "u.csv", *counts)
    assert not list(tmp_path.iterdir())


def test_values_go_to_files(heat, tmp_path):
    with np.load(heat.write_npz(tmp_path / "u.npz", 8, 5)) as stored:
        arrays = dict(stored)
    assert {name: array.shape for name, array in arrays.items()} == {
        "x": (8,),
        "t": (5,),
        "u": (8, 5),
        "reference_u": (8, 5),
    }
    rows = np.genfromtxt(heat.write_csv(tmp_path / "u.csv", 8, 5), delimiter=",", names=True)
    assert rows.dtype.names == ("x", "t", "u", "reference_u")
    np.testing.assert_allclose(rows["u"], arrays["u"].ravel(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(rows["t"][:5], arrays["t"])


def test_pictures_and_report_show_it(heat, tmp_path):
    drawing = heat.plot()
    assert [axes.get_title() for axes in drawing.axes[:3]] == ["u", "u, reference", "u, difference"]
    text = heat.report(tmp_path / "report.html").read_text()
    assert heat.report() == heat.folder / "report.html"
    for shown in ("Trust it to about", "Whether to trust it", "Estimated error of u", "loss of the initial value"):
        assert shown in text, shown


def test_a_saved_solution_is_loaded(heat, tmp_path):
    target = heat.save(tmp_path / "kept")
    again = ev.load(target)
    points = [[0.3, 0.4]]
    assert again(points) == heat(points)
    assert again.trust.verdict == heat.trust.verdict
    assert again.figures == heat.figures
    assert ev.load(target / "cells" / "perceptron-seed1")(points) != heat(points)
    with pytest.raises(ConfigError, match="exists already"):
        heat.save(target)


def test_the_run_is_finished_and_not_trained_again(heat):
    again = ev.solve("heat", out=heat.folder, resume=True)
    assert again([[0.3, 0.4]]) == heat([[0.3, 0.4]])
    with pytest.raises(ConfigError, match="holds a run already"):
        ev.solve("heat", out=heat.folder)


@pytest.mark.parametrize(
    ("problem", "asked", "message"),
    [
        ("burgers", {}, "another problem: heat there, burgers asked for"),
        ("heat", {"options": {"diffusion": 0.1}}, "another option: none there, diffusion=0.1 asked for"),
        ("heat", {"method": "galerkin"}, "another method: pinn there, galerkin asked for"),
        ("heat", {"seed": 3}, "another seed: 0 there, 3 asked for"),
        ("heat", {"settings": ["data.points=999"]}, "another setting: another value there, data.points=999 asked for"),
        ("heat", {"unknown": {"diffusion": 1.0}}, "another unknown: none there, diffusion=1.0 asked for"),
        ("heat", {"samples": (np.zeros((2, 2)), np.zeros(2))}, "a run with other samples"),
    ],
)
def test_a_run_of_something_else_is_not_continued(heat, problem, asked, message):
    with pytest.raises(ConfigError, match=message) as caught:
        ev.solve(problem, out=heat.folder, resume=True, **asked)
    assert len(str(caught.value)) < 400  # 300 and the name of the folder
    assert not (heat.folder / "samples.npz").exists()


def test_a_larger_budget_and_the_same_settings_go_on(heat, quick):
    again = ev.solve("heat", "10m", settings=quick(24), out=heat.folder, resume=True)
    assert again([[0.3, 0.4]]) == heat([[0.3, 0.4]])


def test_another_tolerance_is_judged_anew(heat, tmp_path):
    kept = heat.save(tmp_path / "kept")
    strict = ev.solve("heat", tolerance=1e-9, out=kept, resume=True)
    assert not strict.trust.trusted
    assert ev.load(kept).trust.verdict == strict.trust.verdict != heat.trust.verdict
    findings = read_findings(kept / "cells" / "perceptron-seed0")
    assert [table.title for table in findings.tables].count("Whether to trust it") == 1
    assert [field.title for field in findings.fields].count("Estimated error of u") == 1
    assert findings.answer == strict.trust.verdict


def test_a_stated_problem_that_changed_does_not_keep_its_verdict(tmp_path, quick):
    ev.solve(rod(), second=False, settings=quick(16), out=tmp_path / "run")
    other = ev.solve(rod(coefficients={"conductivity": 1.0}), second=False, out=tmp_path / "run", resume=True)
    assert not other.trust.trusted


class Ended(Exception):
    pass


class EndsAt(Observer):
    interval = 0.0

    def __init__(self, step):
        self.step = step

    def cell_progresses(self, cell, progress):
        if progress.step >= self.step and not progress.epoch_ends:
            raise Ended


def test_a_run_that_was_ended_goes_on(tmp_path, quick):
    settings = quick(8, "training.checkpoint_steps=1", "training.keep_checkpoint=true")
    whole = ev.solve("heat", second=False, settings=settings, out=tmp_path / "whole")
    with pytest.raises(Ended):
        ev.solve("heat", second=False, settings=settings, out=tmp_path / "ended", observer=EndsAt(6))
    resumed = ev.solve("heat", second=False, out=tmp_path / "ended", resume=True)
    assert resumed([[0.3, 0.4]]) == whole([[0.3, 0.4]])
    assert resumed.trust.not_checked == {"second solution": "there is none"}


def test_a_budget_ends_the_solution(tmp_path):
    began = time.perf_counter()
    found = ev.solve("heat", budget="6s", out=tmp_path / "run", settings=["model.options.width=10"])
    assert time.perf_counter() - began < 60  # on any machine; the checks at the end take what they take
    assert set(found.figures) == {"error", "residual"}
    with pytest.raises(ConfigError, match="budget of 2 s is too small"):
        ev.solve("heat", budget=2)


def test_a_stated_problem_is_solved_without_reference(tmp_path, quick):
    problem = rod()
    found = ev.solve(problem, second=False, settings=quick(16), out=tmp_path / "run")
    exact = math.exp(-0.1 * math.pi**2 * 0.5)
    assert found([[0.5, 0.5]]).item() == pytest.approx(exact, abs=0.02)
    assert "error" not in found.figures
    assert found.trust.trusted, found.trust.verdict
    assert [check.name for check in found.trust.checks][-3:] == ["end at 0", "end at 1", "linearised error"]
    assert len(found.plot().axes) == 2  # one picture and its colours
    assert read_findings(tmp_path / "run").fields[0].reference is None
    with pytest.raises(UnknownNameError, match="Give it to load"):
        ev.load(tmp_path / "run")
    assert ev.load(tmp_path / "run", problem=problem)([[0.5, 0.5]]) == found([[0.5, 0.5]])
    with pytest.raises(ConfigError, match="problem is a Problem"):
        ev.load(tmp_path / "run", problem="heat")
    turned = dict(reversed(problem.domain.items()))
    with pytest.raises(ConfigError, match=r"a solution u of x from 0 to 1, t from 0 to 1.*other coordinates"):
        ev.load(tmp_path / "run", problem=replace(problem, domain=turned))


@pytest.mark.parametrize("hard", [False, True])
def test_ordinary_differential_equations_begin_with_numbers(hard, tmp_path, quick):
    """x' = y, y' = -x."""
    turning = Problem(
        name="turning",
        domain={"t": (0, 1)},
        unknowns=("x", "y"),
        equation=lambda u: [u["t"][:, :1] - u.value[:, 1:], u["t"][:, 1:] + u.value[:, :1]],
        initial=(1.0, 0.5),
    )
    settings = quick(6, "data.grid=[50]", f"task.initial={'hard' if hard else 'soft'}")
    found = ev.solve(turning, second=False, settings=settings, out=tmp_path / "run")
    t = np.linspace(0, 1, 9)[:, None]
    exact = np.hstack([np.cos(t) + 0.5 * np.sin(t), 0.5 * np.cos(t) - np.sin(t)])
    np.testing.assert_allclose(found(t), exact, atol=0.05)


def test_a_condition_may_be_a_list(tmp_path, quick):
    start = Condition("start", {"t": 0}, lambda u: [u.component(0).value - 1, u.component(1).value - 0.5])
    turning = Problem(
        name="turning",
        domain={"t": (0, 1)},
        unknowns=("x", "y"),
        equation=lambda u: [u["t"][:, :1] - u.value[:, 1:], u["t"][:, 1:] + u.value[:, :1]],
        conditions=[start],
    )
    found = ev.solve(turning, second=False, settings=quick(4, "data.grid=[50]"), out=tmp_path / "run")
    np.testing.assert_allclose(found([[0.0]]), [[1, 0.5]], atol=0.05)


@pytest.mark.parametrize("given", [(1.0, 2.0), ("a",)])
def test_numbers_for_each_unknown_are_checked(given):
    with pytest.raises((ConfigError, ShapeError), match="one for each"):
        rod(initial=given)


def test_an_object_with_a_registered_name_is_not_taken_for_that_problem(tmp_path, quick):
    fast = create_problem("heat", diffusion=0.2)
    found = ev.solve(fast, second=False, settings=quick(1), out=tmp_path / "run")
    assert found.problem.name == "heat as given"
    with pytest.raises(UnknownNameError, match="heat as given"):
        ev.load(tmp_path / "run")
    named = ev.solve("heat", options={"diffusion": 0.2}, second=False, settings=quick(1), out=tmp_path / "named")
    assert ev.load(tmp_path / "named").coefficients == named.coefficients == {"diffusion": 0.2}
    with pytest.raises(ConfigError, match="options are for problems"):
        ev.solve(fast, options={"diffusion": 0.1})


def test_a_hard_initial_value_is_part_of_the_solution(tmp_path, quick):
    found = ev.solve("heat", second=False, settings=quick(1, "task.initial=hard"), out=tmp_path / "run")
    start = create_problem("heat").grid(20, 1)
    torch.testing.assert_close(ev.load(tmp_path / "run")(start), create_problem("heat").initial_values(start))
    assert found.trust.checks
    with pytest.raises(ModelFileError, match="a part that its problem knows is built in"):
        ev.load(tmp_path / "run" / "model")


def test_a_reference_that_takes_too_long_is_left_out(tmp_path, quick, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("evolvent.solving.solve._REFERENCE", 1e-6)
    found = ev.solve("kdv", second=False, settings=quick(1), out=tmp_path / "run")
    assert "error" not in found.figures
    assert found.problem.reference is None


def test_plans_fit_the_time():
    problem = create_problem("allen-cahn")
    short, long = (METHODS.get("pinn")(problem, Pace(seconds, 1e-5), {}) for seconds in (10.0, 1000.0))
    assert short["data"]["points"] < long["data"]["points"] == 4000
    assert short["optimizer"]["iterations"] < long["optimizer"]["iterations"] == 50
    assert long["task"]["phases"][0]["coefficients"] == {"reaction": 1.0}
    assert len(long["task"]["resample_at"]) == 5
    looked_for = METHODS.get("pinn")(problem, Pace(10.0, 1e-5), {"reaction": 1.0})
    assert "coefficients" not in looked_for["task"]["phases"][0]
    assert parse_budget("5m") == 300
    with pytest.raises(UnknownNameError, match="pinn"):
        ev.solve("heat", method="pin", budget="10s")


FEW = ["model.options.width=10", "model.options.layers=2", "data.points=256", "training.epoch_steps=60"]


@pytest.mark.parametrize(("method", "most"), [("ritz", 0.05), ("galerkin", 0.05)])
def test_methods_at_new_points_in_each_step(method, most, tmp_path):
    settings = [*FEW, "training.steps=180", "data.grid=[21, 21]"]
    found = ev.solve("poisson", method=method, settings=settings, second=False, out=tmp_path / "run")
    assert found.figures["error"] < most
    checked = {check.name: check.value for check in found.trust.checks}
    assert checked["boundary"] == 0  # it is built in
    assert "fresh over training residual" not in checked  # all points are fresh
    edge = found.problem.on_boundary(torch.rand(50, 2, dtype=torch.float64))
    assert ev.load(tmp_path / "run")(edge).abs().max() < 1e-15


def test_an_eigenfunction_is_found_up_to_a_factor(tmp_path):
    settings = [*FEW, "training.steps=180", "data.grid=[21, 21]"]
    found = ev.solve("eigenvalue", method="ritz", settings=settings, out=tmp_path / "run")
    assert found.figures["eigenvalue"] == pytest.approx(2 * math.pi**2, rel=0.02)
    assert {check.name: check.value for check in found.trust.checks}["second solution"] < 0.1


@pytest.mark.parametrize(
    ("problem", "method", "message"),
    [
        ("heat", "ritz", "'heat' has no energy that its solution minimises.*take method pinn or galerkin"),
        ("eigenvalue", "pinn", "Use method ritz"),
        ("eigenvalue", "galerkin", "Use method ritz"),
    ],
)
def test_methods_that_make_no_sense_for_a_problem_are_refused(problem, method, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        ev.solve(problem, method=method, out=tmp_path / "run", budget="10s")
    assert not (tmp_path / "run").exists()


def test_an_energy_does_not_tell_coefficients(tmp_path):
    points = torch.rand(5, 2, dtype=torch.float64)
    with pytest.raises(ConfigError, match="an energy does not tell coefficients"):
        ev.solve("eigenvalue", method="ritz", unknown={"eigenvalue": 1.0}, samples=(points, points[:, :1]), budget="9s")


@pytest.mark.parametrize("method", ["pinn", "galerkin", "ritz"])
@pytest.mark.parametrize("dimension", [4, 30, 1000])
def test_errors_are_measured_at_random_points_in_many_dimensions(method, dimension):
    problem = create_problem("poisson", dimension=dimension)
    plan = METHODS.get(method)(problem, Pace(60.0, 1e-5), {})
    assert plan["data"]["grid"] == []
    assert plan["data"]["test_points"] * dimension <= 2**20
    assert plan["task"]["boundary"] == ("soft" if dimension == 1000 else "hard")


def test_networks_of_very_many_inputs_are_trained_without_a_dense_matrix():
    named = lambda dimension: METHODS.get("pinn")(create_problem("poisson", dimension=dimension), Pace(60.0, 1e-5), {})  # noqa: E731
    assert named(10)["optimizer"]["name"] == "ssbroyden"
    assert named(1000)["optimizer"]["name"] == "lbfgs"


def test_measuring_the_pace_is_part_of_the_time(monkeypatch):
    clock = iter(range(0, 1000, 5))  # each gradient takes five seconds
    monkeypatch.setattr("evolvent.solving.plan.time.perf_counter", lambda: next(clock))
    assert measure_pace(create_problem("heat"), 40.0) == Pace(35.0, 0.01)  # one, as four would take half of the time
    assert measure_pace(create_problem("heat"), 400.0) == Pace(380.0, 0.01)


def test_matrices_in_float64_are_refused_before_training(tmp_path):
    wide = ["model.options.width=160", "model.options.layers=2"]  # 26,401 weights: 2.6 GiB in float32
    with pytest.raises(ConfigError, match=r"need an inverse Hessian of 5\.2 GiB.*lbfgs.*23,170 parameters"):
        ev.solve("heat", settings=wide, second=False, out=tmp_path / "run", budget="9s")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_values_in_many_coordinates_are_at_spread_points(tmp_path):
    problem = create_problem("poisson", dimension=30)
    values = lambda points: points[:, :1].numpy()  # noqa: E731
    path = write_grid_csv(tmp_path / "u.csv", problem, values)
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    assert rows.shape == (8192, 31)
    assert (rows[:, 0] == rows[:, 30]).all()
    assert 0 < rows[:, :30].min() < rows[:, :30].max() < 1
    held = np.load(write_grid_npz(tmp_path / "u.npz", problem, values))
    assert held["u"].shape == held["x30"].shape == (8192,)


def test_checks_in_many_dimensions_take_no_detour(heat, monkeypatch):
    """Gradients that are the same at all points are not filled in before the first layer, which is slow."""
    problem = create_problem("poisson", dimension=30)
    network = ev.create_model("perceptron", **problem.network_options()).double()
    found = Solution(problem, network, heat.folder, Ansatz())
    monkeypatch.setattr(SecondOrder, "linear", lambda *_: pytest.fail("was filled in"))
    assert problem.derivatives(found, problem.sobol(20, seed=0)).laplacian.shape == (20, 1)


def test_a_problem_in_thirty_dimensions_is_solved(tmp_path):
    settings = ["model.options.width=8", "model.options.layers=2", "data.points=64", "training.steps=5"]
    options = {"dimension": 30}
    found = ev.solve("poisson", options=options, method="ritz", settings=settings, second=False, out=tmp_path / "run")
    assert math.isfinite(found.figures["error"])
    assert found.trust is not None


@pytest.mark.parametrize("method", ["pinn", "galerkin"])
def test_plans_build_in_boundary_values_that_vanish(method):
    plan = lambda *given, **options: METHODS.get(method)(create_problem(*given, **options), Pace(60.0, 1e-5), {})  # noqa: E731
    assert plan("poisson")["task"]["boundary"] == "hard"
    assert plan("poisson", dimension=4, solution="pairs")["task"]["boundary"] == "soft"  # which go on inside
    assert plan("burgers")["task"]["boundary"] == "soft"
    assert plan("allen-cahn")["task"]["phases"][0]["coefficients"] == {"reaction": 1.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial": lambda x: torch.cos(math.pi * x)}, "contradicts the initial value where they meet"),
        ({"conditions": []}, "nothing is given at x = 0 and x = 1"),
        ({"conditions": [], "boundary": lambda x, t: 5 + 0 * x}, "boundary of 'cold rod' contradicts"),
        ({"equation": lambda u, conductivity: u["t"] - u["t"]}, "whatever u is"),
        ({"conditions": [], "symmetry": {"x": "even"}, "initial": lambda x: x}, "not even in x"),
        ({"conditions": [], "symmetry": {"x": "periodic"}, "initial": lambda x: x}, "not periodic in x"),
        ({"conditions": [], "symmetry": {"x": "odd"}, "initial": lambda x: 1 + 0 * x}, "not odd in x"),
        ({"equation": lambda u, conductivity: u["t"].sum()}, r"equation of 'cold rod' gave shape \(\) for 3 points"),
        ({"initial": lambda x: x[:, 0]}, r"initial value of 'cold rod' gave shape \(\d+,\)"),
    ],
)
def test_bad_problems_are_refused(changes, message, tmp_path, quick):
    with pytest.raises((ConfigError, ShapeError), match=message):
        ev.solve(rod(**changes), settings=quick(1), out=tmp_path / "run", budget="10s")


def test_a_network_without_second_derivatives_is_refused():
    from evolvent.tasks.pde.checks import check_network

    flat = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).double()
    with pytest.raises(ConfigError, match="needs u_xx, which is zero everywhere"):
        check_network(rod(), flat)


def test_numbers_that_are_not_finite_are_explained(tmp_path, quick):
    wild = rod(equation=lambda u, conductivity: u["t"] - u["xx"] + torch.sqrt(0 * u.value))  # 0, with a slope of 0 / 0
    with pytest.raises(NonFiniteError, match=r"which it did not begin with.*divisions and roots") as caught:
        ev.solve(wild, settings=quick(2), out=tmp_path / "run", second=False)
    assert len(str(caught.value)) < 300


def test_what_is_no_problem_is_refused():
    with pytest.raises(ConfigError, match="a Problem, got int 5"):
        ev.solve(5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"equation": lambda u, conductivity: u["t"] - torch.log(u["xx"])}, "the residual of the equation of 'cold"),
        ({"coefficients": {"conductivity": math.nan}}, "the coefficient conductivity of 'cold rod' is nan"),
        ({"initial": lambda x: torch.sqrt(x - 0.5)}, "the initial value of 'cold rod' is not finite at 6. of 128"),
        ({"boundary": lambda x, t: t / 0}, "the boundary value of 'cold rod' is not finite"),
    ],
)
def test_what_is_not_finite_to_begin_with_is_named(changes, message, tmp_path, quick):
    with pytest.raises(ConfigError, match=message) as caught:
        ev.solve(rod(**changes), settings=quick(2), out=tmp_path / "run", second=False)
    assert len(str(caught.value)) < 300
    assert not (tmp_path / "run").exists()


def test_options_that_are_no_numbers_are_refused():
    with pytest.raises(ConfigError, match="option diffusion of heat must be a number, got 'abc'"):
        ev.solve("heat", options={"diffusion": "abc"})
    with pytest.raises(ConfigError, match=r"option dimension of poisson must be a whole number, got 2\.5"):
        ev.solve("poisson", options={"dimension": 2.5})


def test_samples_are_checked(tmp_path):
    problem = create_problem("heat")
    for points, values, message in [
        (np.zeros((3, 3)), np.zeros((3, 1)), r"points \(N, 2\)"),
        (np.full((3, 2), 9.0), np.zeros(3), "3 of 3 samples lie outside"),
        (np.zeros((2, 2)), np.full(2, np.nan), "not finite"),
    ]:
        with pytest.raises(DataError, match=message):
            ev.solve(problem, samples=(points, values), unknown={"diffusion": 1.0}, out=tmp_path / "run", budget="10s")


def test_samples_of_ones_own_are_not_replaced(tmp_path):
    for other in ({"points": np.zeros((2, 2)), "values": np.ones(2)}, {"mine": np.zeros(2)}):
        np.savez(tmp_path / "samples.npz", **other)
        kept = (tmp_path / "samples.npz").read_bytes()
        with pytest.raises((ConfigError, DataError), match=r"a file samples\.npz with other|is not an npz file"):
            ev.solve("heat", samples=(np.zeros((2, 2)), np.zeros(2)), unknown={"diffusion": 1.0}, out=tmp_path)
        assert (tmp_path / "samples.npz").read_bytes() == kept


def test_unknown_coefficients_need_samples_and_a_name(quick, tmp_path):
    with pytest.raises(ConfigError, match="need samples of the solution"):
        ev.solve("heat", unknown={"diffusion": 1.0}, settings=quick(1), out=tmp_path / "a")
    with pytest.raises(UnknownNameError, match="diffusion"):
        ev.solve("heat", unknown={"difusion": 1.0}, settings=quick(1), out=tmp_path / "b")


def test_load_still_reads_networks_and_refuses_grids(tmp_path, quick):
    ev.save(ev.create_model("perceptron"), tmp_path / "net")
    assert ev.load(tmp_path / "net")(torch.zeros(1, 2)).shape == (1, 1)
    with pytest.raises(ModelFileError, match="not a saved model"):
        ev.load(tmp_path)


def test_what_is_no_problem_and_what_is_no_time_are_refused():
    with pytest.raises(ConfigError, match=r"ev.solve takes the name of a problem.* got NoneType None"):
        ev.solve(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^solve: budget: input should be greater than 0, got '0s'"):
        ev.solve("heat", budget="0s")
