"""Problems: references solve their equations and satisfy conditions and symmetries; wrong statements are refused."""

import math

import numpy as np
import pytest
import torch

import evolvent as ev
from evolvent.equations.problems import Condition, Problem, create_problem, disc, list_problems
from evolvent.errors import ConfigError, ShapeError, UnknownNameError

QUICK = {"poisson": {"dimension": 3}, "fractional-poisson": {"nodes": 64}, "allen-cahn": {"diffusion": 0.01},
         "allen-cahn-front": {"dimension": 3, "reaction": 4.0}, "burgers": {"viscosity": 0.05},
         "kdv": {"dispersion": 0.01}, "kuramoto-sivashinsky": {"until": 0.2},
         "schroedinger": {"until": 0.3, "half_width": 15.0}}  # fmt: skip


@pytest.fixture(scope="module")
def problems():
    return {name: create_problem(name, **QUICK.get(name, {})) for name in list_problems()}


@pytest.mark.parametrize("name", list_problems())
def test_the_reference_solves_the_equation(problems, name):
    """By finite differences of sixth order, in the residual that networks are trained with."""
    problem = problems[name]
    widths = {c: 2e-3 * (high - low) for c, (low, high) in problem.domain.items()}
    shares = torch.rand(40, len(widths), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = problem.placed(0.1 + 0.8 * shares)
    points = points[problem.contains(points)]

    def difference(wanted):
        step = torch.tensor([float(c == wanted[0]) for c in problem.coordinates]) * widths[wanted[0]]
        powers, target = np.vander(np.arange(-4.0, 5.0), increasing=True).T, np.zeros(9)
        target[len(wanted)] = math.factorial(len(wanted))
        weights = np.linalg.solve(powers, target) / widths[wanted[0]] ** len(wanted)
        return sum(w * problem.solution(points + k * step) for w, k in zip(weights, range(-4, 5), strict=True))

    needed = problem.derivatives_needed
    found = {wanted: difference(wanted) for wanted in needed if wanted not in ("laplacian", "function")}
    if "laplacian" in needed:
        found |= {c * 2: difference(c * 2) for c in problem.space}
    u = ev.equations.Derivatives(
        problem.solution(points),
        {},
        found,
        dict(zip(problem.domain, points.split(1, dim=1), strict=True)),
        laplacian=torch.stack([found[c * 2] for c in problem.space]).sum(0) if "laplacian" in needed else None,
        function=problem.solution,
    )
    residual = problem.residual(u)
    assert residual.abs().max() < 2e-3
    if needed == ("function",):
        return
    assert max(u.abs().max() for u in found.values()) > 0.5  # the terms that cancel are not small


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_the_front_of_allen_cahn_solves_its_equation_in_any_dimension(dimension):
    """By exact derivatives; and it moves with the speed that is said."""
    problem = create_problem("allen-cahn-front", dimension=dimension, diffusion=0.2, reaction=1.5)
    points = problem.sobol(50, 0)
    u = problem.derivatives(problem.solution, points)
    assert problem.residual(u).abs().max() < 1e-12
    later = points + torch.tensor([3 * math.sqrt(0.15) * dimension**-0.5] * dimension + [1.0])
    torch.testing.assert_close(problem.solution(later), problem.solution(points))
    edge = problem.on_boundary(torch.rand(20, dimension + 1, dtype=torch.float64))
    torch.testing.assert_close(problem.boundary_values(edge), problem.solution(edge))
    with pytest.raises(ConfigError, match="reaction"):
        create_problem("allen-cahn-front", reaction=0)


EVOLVING = [name for name in list_problems() if create_problem(name).initial is not None]


@pytest.mark.parametrize("name", EVOLVING)
def test_the_reference_starts_as_it_should_and_has_the_symmetries(problems, name):
    problem = problems[name]
    points = problem.sobol(64, 3)
    start = points.clone()
    start[:, problem.coordinates.index("t")] = problem.domain["t"][0]
    torch.testing.assert_close(problem.solution(start), problem.initial_values(points), rtol=0, atol=1e-4)
    if not problem.symmetry:
        return
    symmetry = problem.symmetry["x"]
    low, high = problem.domain["x"]
    flipped = points * torch.tensor([-1.0, 1.0]) + torch.tensor([low + high, 0.0])
    moved = points + torch.tensor([high - low, 0.0])
    if "even" in symmetry or "odd" in symmetry:
        sign = 1 if "even" in symmetry else -1
        torch.testing.assert_close(problem.solution(flipped), sign * problem.solution(points), rtol=0, atol=1e-8)
    torch.testing.assert_close(problem.solution(moved), problem.solution(points), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", list_problems())
def test_networks_are_made_for_the_problem(problems, name):
    problem = problems[name]
    net = ev.create_model("perceptron", **problem.network_options()).double()
    u = problem.derivatives(net, problem.sobol(8, 0))
    assert problem.residual(u).shape == u.value.shape == (8, len(problem.unknowns))


@pytest.mark.parametrize("name", [name for name in list_problems() if name not in EVOLVING])
def test_the_reference_has_its_boundary_values(problems, name):
    problem = problems[name]
    shares = torch.rand(400, len(problem.domain), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    points = problem.on_boundary(shares)
    torch.testing.assert_close(problem.solution(points), problem.boundary_values(points), rtol=0, atol=1e-9)
    assert problem.inside(points).abs().max() < 2e-6
    assert problem.contains(points * (1 - 1e-9) + 5e-10).double().mean() > 0.8  # the boundary is that of the region


@pytest.mark.parametrize("name", ["poisson", "poisson-disc", "poisson-l-shape"])
def test_the_solution_has_the_least_energy(problems, name):
    """The first variation of the energy vanishes, and the second is positive."""
    problem = problems[name]
    points = problem.sobol(2**15, 0)
    points = points[problem.contains(points)]

    def value(share):
        f = lambda p: problem.solution(p) if share == 0 else bump(p, share)  # noqa: E731
        return problem.energy_density(u_of(f)).mean().item()

    def u_of(f):
        p = points.clone().requires_grad_()
        u = f(p)
        (gradient,) = torch.autograd.grad(u.sum(), p)
        at = dict(zip(problem.domain, p.split(1, dim=1), strict=True))
        return ev.equations.Derivatives(u, {}, {}, at, gradient)

    def bump(p, share):
        return problem.solution(p) + share * problem.inside(p) * torch.cos(p[:, :1])

    least, up, down = value(0), value(0.3), value(-0.3)
    second = up + down - 2 * least
    assert second > 1e-3
    assert abs(up - down) < 0.03 * second


def test_an_eigenvalue_is_the_quotient_of_its_function(problems):
    problem = problems["eigenvalue"]
    points = problem.grid(65, 65)
    p = points.clone().requires_grad_()
    u = problem.solution(p)
    (gradient,) = torch.autograd.grad(u.sum(), p)
    energy = problem.energy_density(ev.equations.Derivatives(u, {}, gradient=gradient))
    inner = (points < 1).all(1)  # a periodic rule
    quotient = energy[inner].mean() / u[inner].square().mean()
    assert quotient.item() == pytest.approx(problem.eigenvalue, rel=1e-6)


def test_a_new_problem_is_stated_in_ten_lines():
    wave = Problem(
        name="string",
        domain={"x": (0, math.pi), "y": (0, 1), "t": (0, 4)},
        equation=lambda u, c: [u["tt"] - c**2 * (u["xx"] + u["yy"]), u["xy"] - u.points["x"] * u.value],
        coefficients={"c": 2.0},
        initial=lambda x, y: 5 * torch.sin(x) * y,
        conditions=[Condition("held", {"x": 0.0}, lambda u: u.value)],
    )
    assert wave.derivatives_needed == ("tt", "xx", "xy", "yy")
    points = wave.sobol(6, 0)

    def f(p):
        x, y, t = p.split(1, dim=1)
        return x**2 * y**3 * t**2

    u = wave.derivatives(f, points)
    x, y, t = points.split(1, dim=1)
    residual = torch.cat(
        [2 * x**2 * y**3 - 4 * (2 * y**3 * t**2 + 6 * x**2 * y * t**2), 6 * x * y**2 * t**2 - x**3 * y**3 * t**2], 1
    )
    torch.testing.assert_close(wave.residual(u), residual * 4 / wave.scale)
    assert wave.scale == pytest.approx(5, rel=0.02)
    torch.testing.assert_close(wave.residual(u, c=0.0)[:, 0], (2 * x**2 * y**3)[:, 0] * 4 / wave.scale)
    torch.testing.assert_close(u["xx"], 2 * y**3 * t**2)
    assert wave.space == ["x", "y"]
    assert wave.grid(3, 2, 5).shape == (30, 3)
    assert wave.derivatives(f, points, []).value.shape == (6, 1)


def test_systems_have_components():
    pair = Problem(
        name="rotation",
        domain={"t": (0, 1)},
        equation=lambda u: [u.component(0)["t"] - u.component(1).value, u.component(1)["t"] + u.component(0).value],
        unknowns=("a", "b"),
        size=2.0,
    )
    circle = lambda p: torch.cat([p.sin(), p.cos()], 1)  # noqa: E731
    assert pair.derivatives_needed == ("t",)
    assert pair.residual(pair.derivatives(circle, pair.grid(9))).abs().max() < 1e-14
    assert pair.network_options()["num_classes"] == 2


def test_a_periodic_grid_leaves_its_end_out():
    grid = create_problem("heat").grid(4, 2)
    assert sorted(set(grid[:, 0].tolist())) == [-1.0, -0.5, 0.0, 0.5]
    assert sorted(set(grid[:, 1].tolist())) == [0.0, 1.0]


def test_wrong_statements_are_refused():
    def stated(**changes):
        given = {"name": "p", "domain": {"x": (0, 1), "t": (0, 1)}, "equation": lambda u: u["t"]}
        return Problem(**{**given, **changes})

    with pytest.raises(ConfigError, match="one letter"):
        stated(domain={"space": (0, 1)})
    with pytest.raises(ConfigError, match="larger upper end, got 'x' from 1 to 0"):
        stated(domain={"x": (1, 0)})
    with pytest.raises(UnknownNameError, match="coordinate 'y'"):
        stated(symmetry={"y": "even"})
    with pytest.raises(UnknownNameError, match=r"symmetry 'bogus'\. Choose one of none"):
        stated(symmetry={"x": "bogus"})
    with pytest.raises(ConfigError, match="has no coordinates"):
        stated(domain={})
    with pytest.raises(ConfigError, match="is a function of u, got int 5"):
        stated(equation=5)
    with pytest.raises(ConfigError, match=r"boundary value of 'p'.*shape \(3,\)"):
        stated(boundary=torch.ones(3))
    with pytest.raises(UnknownNameError, match="'p' has none"):
        stated(easier={"bogus": 1.0})
    with pytest.raises(ConfigError, match="no coordinate 't'"):
        stated(domain={"x": (0, 1)}, initial=torch.sin)
    with pytest.raises(ConfigError, match="at x = 2, outside"):
        stated(conditions=[Condition("end", {"x": 2.0}, lambda u: u.value)])
    with pytest.raises(UnknownNameError, match="coordinate 'z'"):
        _ = stated(equation=lambda u: u["zz"]).derivatives_needed
    with pytest.raises(ConfigError, match="coefficients \\['c'\\] by name"):
        _ = stated(coefficients={"c": 1.0}).derivatives_needed
    with pytest.raises(ConfigError, match="no reference"):
        _ = stated().solution
    with pytest.raises(ShapeError, match=r"points \(N, 2\) of x, t"):
        stated().derivatives(torch.sin, torch.zeros(4, 3))
    with pytest.raises(UnknownNameError, match="coordinate 'y'"):
        stated().derivatives(torch.sin, torch.zeros(4, 2), ["y"])
    with pytest.raises(UnknownNameError, match="coefficient 'speed'"):
        stated().residual(stated().derivatives(lambda p: p[:, :1], torch.rand(3, 2)), speed=1.0)
    with pytest.raises(UnknownNameError, match="problem 'alen-cahn'"):
        create_problem("alen-cahn")
    with pytest.raises(UnknownNameError, match="option of heat 'viscosity'"):
        create_problem("heat", viscosity=1.0)
    with pytest.raises(ConfigError, match="is 0 whatever u is"):
        _ = stated(equation=lambda u: u["t"] - u["t"]).derivatives_needed
    with pytest.raises(ConfigError, match="has no energy"):
        _ = stated().energy_derivatives_needed
    with pytest.raises(ConfigError, match="even dimension, got 3"):
        create_problem("poisson", dimension=3, solution="pairs")
    with pytest.raises(ConfigError, match="between 0 and 2, got 2"):
        _ = create_problem("fractional-poisson", order=2.0).derivatives_needed
    assert stated().scale == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"equation": lambda u: u["t"].sum()}, r"equation of 'p' gave shape \(\)"),
        ({"equation": lambda u: u["t"][:, 0]}, r"gave shape \(3,\)"),
        ({"equation": lambda u: [u["t"], u["xx"]], "unknowns": ("u", "v")}, r"a list of shape \(3, 2\)"),
        ({"equation": lambda u: []}, "an empty list"),
        ({"equation": lambda u: u.bogus}, "u has no attribute 'bogus'"),
        ({"conditions": [Condition("end", {"x": 1.0}, lambda u: u.value[:, 0])]}, "condition 'end' of 'p'"),
    ],
)
def test_residuals_that_are_not_columns_are_refused(changes, message):
    stated = Problem(**{"name": "p", "domain": {"x": (0, 1), "t": (0, 1)}, "equation": lambda u: u["t"], **changes})
    with pytest.raises((ConfigError, ShapeError), match=message):
        _ = stated.derivatives_needed


def test_values_are_columns_or_numbers():
    stated = {"name": "p", "domain": {"x": (0, 1), "t": (0, 1)}, "equation": lambda u: u["t"]}
    points = torch.rand(5, 2)
    for constant in (2, 2.0, lambda *columns: 2.0, lambda *columns: torch.tensor(2.0)):
        problem = Problem(**stated, initial=constant, boundary=constant, unknowns=("u", "v"))
        assert problem.initial_values(points).equal(torch.full((5, 2), 2.0))
        assert problem.boundary_values(points).equal(torch.full((5, 2), 2.0))
    steady = problem.derivatives(problem.initial_values, points, ["x"])  # a constant has derivatives
    assert steady["x"].shape == (5, 2)
    assert not steady["x"].any()
    with pytest.raises(ShapeError, match=r"initial value of 'p' gave shape \(5, 2\) for 5 points"):
        Problem(**stated, initial=lambda x: torch.cat([x, x], 1)).initial_values(points)
    with pytest.raises(ShapeError, match="boundary value of 'p' gave list"):
        Problem(**stated, boundary=lambda x, t: [x, t]).boundary_values(points)
    with pytest.raises(ConfigError, match="must take x"):
        Problem(**stated, initial=lambda x, t: x).initial_values(points)
    with pytest.raises(TypeError, match="of its own"):  # by which an operation without derivatives is known
        Problem(**stated, initial=_fails).initial_values(points)


def _fails(x):
    raise TypeError("of its own")


def test_regions_that_are_not_in_their_box_are_refused():
    circle = disc(2.0)  # larger than its box
    wrong = Problem(name="p", domain={"x": (-1, 1), "y": (-1, 1)}, equation=lambda u: u.laplacian, region=circle)
    with pytest.raises(ConfigError, match="boundary of region 'disc' of 'p' gave points outside"):
        wrong.on_boundary(torch.rand(5, 2))


def test_too_many_derivatives_are_refused():
    names = [f"x{i}" for i in range(50)]
    dense = Problem(
        name="p",
        domain=dict.fromkeys(names, (0, 1)),
        equation=lambda u: sum(u[a + b] for i, a in enumerate(names) for b in names[i:]),
    )
    with pytest.raises(ConfigError, match="1,275 derivatives in 50 coordinates are too many"):
        dense.derivatives(lambda p: p.sum(1, keepdim=True), torch.rand(2, 50))


@pytest.mark.parametrize("dimension", [3, 9])
def test_gradient_and_laplacian_are_those_in_space(dimension):
    domain = {"t": (0, 1)} | {f"x{i}": (0, 1) for i in range(dimension)}
    problem = Problem(
        name="p", domain=domain, equation=lambda u: u["t"] - u.laplacian + u.gradient.sum(1, keepdim=True)
    )
    assert problem.derivatives_needed == ("gradient", "laplacian", "t")
    points = problem.sobol(7, 0)
    t, x = points[:, :1], points[:, 1:]
    u = problem.derivatives(lambda p: p[:, :1] * (p[:, 1:] ** 3).sum(1, keepdim=True), points)
    torch.testing.assert_close(u.laplacian, 6 * t * x.sum(1, keepdim=True))
    torch.testing.assert_close(u.gradient, 3 * t * x**2)
    torch.testing.assert_close(u["t"], (x**3).sum(1, keepdim=True))
    alone = problem.derivatives(lambda p: p[:, :1] * (p[:, 1:] ** 3).sum(1, keepdim=True), points, ["laplacian"])
    torch.testing.assert_close(alone.laplacian, u.laplacian)
    torch.testing.assert_close(
        problem.derivatives(lambda p: p[:, :1] * (p[:, 1:] ** 3).sum(1, keepdim=True), points, ["gradient"]).gradient,
        u.gradient,
    )
    constant = problem.derivatives(lambda p: torch.ones(len(p), 1), points, ["gradient"])
    assert constant.gradient.shape == x.shape
    assert not constant.gradient.any()
    with pytest.raises(UnknownNameError, match="derivative 'gradient'"):
        _ = problem.derivatives(lambda p: p[:, :1], points, ["t"]).gradient


def test_derivatives_by_name():
    u = ev.equations.Derivatives(torch.ones(1), {"x": [torch.zeros(1)]})
    with pytest.raises(UnknownNameError, match="derivative 'xy'"):
        u["xy"]


def test_a_gradient_alone_can_be_trained_by():
    problem = create_problem("poisson", dimension=5)
    net = ev.create_model("perceptron", width=4, layers=2, **problem.network_options()).double()
    points = problem.sobol(20, 0)
    losses = [
        problem.derivatives(net, points, names).gradient.square().mean() for names in (["gradient"], ["gradient", "x1"])
    ]
    found = [torch.autograd.grad(loss, list(net.layers[0].parameters())) for loss in losses]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        assert not problem.derivatives(net, points, ["gradient"]).gradient.requires_grad


def test_a_fractional_laplacian_is_finite_at_the_ends():
    problem = create_problem("fractional-poisson", order=1.0)
    residual = problem.residual(problem.derivatives(problem.solution, problem.grid(5)))
    assert residual.isfinite().all()


def test_a_laplacian_in_many_dimensions_is_the_same_in_parts(monkeypatch):
    problem = create_problem("poisson", dimension=9)
    points, network = problem.sobol(23, seed=0), ev.create_model("perceptron", **problem.network_options()).double()
    with torch.no_grad():
        whole = problem.residual(problem.derivatives(network, points))
        monkeypatch.setattr("evolvent.equations.problems.evaluation._AT_ONCE", 9 * 5)
        torch.testing.assert_close(problem.residual(problem.derivatives(network, points)), whole)


def test_conditions_have_the_derivatives_that_they_ask_for():
    """A mixed one, and one of so many coordinates that the equation, with a Laplacian, looks at none alone."""
    domain = {f"x{i}": (0.0, 1.0) for i in range(9)}
    mixed = Condition("mixed", {"x0": 0.0}, lambda u: [u["x1x2"] - 1, u["x0"]])
    problem = Problem(name="p", domain=domain, equation=lambda u: u.laplacian, boundary=0.0, conditions=[mixed])
    points = problem.sobol(5, 0)
    off = problem.violation(mixed, lambda x: x[:, 1:2] * x[:, 2:3] + 3 * x[:, :1], points)
    torch.testing.assert_close(off, torch.tensor([[0.0, 3.0]], dtype=off.dtype).expand(5, 2))
