"""The linearised equation against errors that are known, and verdicts on right and wrong solutions."""

import math

import numpy as np
import pytest
import torch

from evolvent.analysis.solutions import LinearisedProblem, check_trust, why_not
from evolvent.analysis.solutions.differences import difference_matrix
from evolvent.equations.problems import Condition, Problem, create_problem


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_differences_are_derivatives(order, periodic):
    count = 64
    x = np.linspace(0, 2 * np.pi, count, endpoint=not periodic)
    found = difference_matrix(count, float(x[1] - x[0]), order, periodic) @ np.sin(x)
    np.testing.assert_allclose(found, np.sin(x + order * np.pi / 2), atol=2e-2 if order > 2 else 1e-4)


def true_error(problem, u, lin):
    flat = lin.points.flatten(0, 1)
    return (problem.solution(flat) - u(flat)).view(*lin.points.shape[:2], -1).numpy()


def test_the_error_of_a_linear_problem_is_found():
    problem = create_problem("heat")
    smooth = LinearisedProblem(problem, _jet_friendly, places=128, times=81)
    np.testing.assert_allclose(smooth.error(), true_error(problem, _jet_friendly, smooth), atol=5e-6)


def _jet_friendly(points):
    x, t = points.split(1, dim=1)
    waves = [
        a * torch.exp(-0.05 * (k * math.pi) ** 2 * t) * torch.sin(k * math.pi * x) for k, a in ((1, 1.0), (4, 0.5))
    ]
    return waves[0] + waves[1] + 1e-3 * torch.sin(2 * math.pi * x) * torch.cos(3 * t)


def cold_rod(**changes):
    stated = {
        "name": "rod",
        "domain": {"x": (0.0, 1.0), "t": (0.0, 1.0)},
        "equation": lambda u, d: u["t"] - d * u["xx"],
        "coefficients": {"d": 0.1},
        "initial": lambda x: torch.sin(math.pi * x),
        "conditions": [Condition("left", {"x": 0.0}, lambda u: u.value), Condition("slope", {"x": 1.0}, _slope)],
        "reference": lambda: _cold,
    }
    return Problem(**{**stated, **changes})


def _slope(u):
    return u["x"] + math.pi * torch.exp(-0.1 * math.pi**2 * u.points["t"])


def _cold(points):
    return torch.exp(-0.1 * math.pi**2 * points[:, 1:]) * torch.sin(math.pi * points[:, :1])


@pytest.mark.parametrize("turned", [False, True])
def test_ends_have_their_conditions(turned):
    """Also with time as the first coordinate."""
    problem = cold_rod(domain={"t": (0.0, 1.0), "x": (0.0, 1.0)} if turned else {"x": (0.0, 1.0), "t": (0.0, 1.0)})
    order = [1, 0] if turned else [0, 1]

    def off(points):
        x, t = points[:, order].split(1, dim=1)
        return torch.exp(-0.1 * math.pi**2 * t) * torch.sin(math.pi * x) + 1e-3 * torch.cos(2 * x) * (1 + t)

    lin = LinearisedProblem(problem, off, places=64, times=41)
    x, t = lin.points[..., order].unbind(-1)
    expected = -1e-3 * torch.cos(2 * x) * (1 + t)
    np.testing.assert_allclose(lin.error()[..., 0], expected.numpy(), atol=1e-6)


def test_sensitivities_are_derivatives_in_the_coefficients():
    lin = LinearisedProblem(cold_rod(), _cold, places=64, times=161, coefficients=("d",))
    flat = lin.points.flatten(0, 1)
    # the condition on the slope moves with the reference's own d, so compare where it has not been felt
    expected = (-(math.pi**2) * flat[:, 1:] * _cold(flat)).view(*lin.points.shape[:2]).numpy()
    found = lin.sensitivities()[..., 0, 0]
    np.testing.assert_allclose(found[:16, :40], expected[:16, :40], atol=0.02)


def test_what_cannot_be_linearised_says_why():
    assert why_not(create_problem("schroedinger")) == ""
    assert why_not(cold_rod()) == ""
    assert "2 are needed" in why_not(cold_rod(conditions=[]))
    assert "u_tt" in why_not(cold_rod(equation=lambda u, d: u["tt"] - d * u["xx"]))
    assert "one coordinate in space" in why_not(
        Problem(name="flat", domain={"x": (0.0, 1.0)}, equation=lambda u: u["xx"])
    )
    sixth = cold_rod(equation=lambda u, d: u["t"] - u["xxxxxx"], symmetry={"x": "periodic"}, conditions=[])
    assert "order 6" in why_not(sixth)


def test_a_singular_linearised_equation_is_told():
    twice = cold_rod(conditions=[Condition(f"end {n}", {"x": 0.0}, lambda u: u.value) for n in range(2)])
    found = check_trust(twice, _cold)
    assert "singular" in found.not_checked["linearised error"]


def checks(trust):
    return {one.name: one for one in trust.checks}


def test_the_right_solution_is_trusted_and_a_wrong_one_is_not():
    problem = create_problem("heat")
    right = check_trust(problem, lambda p: _jet_friendly(p), second=_jet_friendly)
    assert right.trusted
    assert "Trust it to about 0.0009" in right.verdict

    def lukewarm(points):
        return 1.03 * _jet_friendly(points)

    wrong = check_trust(problem, lukewarm, second=_jet_friendly)
    assert not wrong.trusted
    assert "a second solution differs by 0.029" in wrong.verdict
    assert "initial value is off" in wrong.verdict


def standing(points):
    """Small residual almost everywhere, and wrong: Allen-Cahn that has already come to rest when it starts."""
    x, t = points.split(1, dim=1)
    start = x**2 * torch.cos(math.pi * x)
    return start * torch.exp(-400 * t) + (1 - torch.exp(-400 * t)) * torch.tanh(30 * (x**2 - 0.45)) * -1


def test_a_small_residual_that_hides_a_wrong_solution_is_flagged():
    """Allen-Cahn at rest from the start: the loss at a few hundred points away from t = 0 is small."""
    problem = create_problem("allen-cahn", diffusion=1e-4)
    seen = problem.sobol(2000, seed=0)
    seen = seen[seen[:, 1] > 0.1]
    found = check_trust(problem, standing, trained_at=seen)
    assert not found.trusted
    assert checks(found)["initial value"].passed
    assert not checks(found)["largest residual, refined"].passed
    assert not checks(found)["linearised error"].passed


def test_growth_of_errors_is_seen_where_the_residual_is_small():
    """What grows like exp(8 t) and is held still has a residual of 0.01 and an error of 3."""
    grows = Problem(
        name="unstable",
        domain={"x": (-1.0, 1.0), "t": (0.0, 1.0)},
        equation=lambda u: u["t"] + 0 * u["x"] - 8.0 * u.value,
        initial=lambda x: 1e-3 * torch.cos(math.pi * x),
        symmetry={"x": "periodic"},
        size=1.0,
    )

    def still(points):
        return 1e-3 * torch.cos(math.pi * points[:, :1]) + 0 * points[:, 1:]

    found = LinearisedProblem(grows, still, places=32, times=401)
    assert np.abs(found.residual).max() < 0.01
    assert np.abs(found.error()).max() == pytest.approx(1e-3 * (math.exp(8) - 1), rel=0.02)
    trust = check_trust(grows, still)
    assert [one.name for one in trust.checks if not one.passed] == ["linearised error"]


def test_invariants_are_watched():
    problem = create_problem("schroedinger")

    def leaking(points):
        x, t = points.split(1, dim=1)
        return torch.cat([2 / torch.cosh(x) * torch.exp(-0.3 * t), 0 * x], dim=1)

    found = checks(check_trust(problem, leaking))
    assert not found["mass"].passed
    assert found["mass"].value == pytest.approx(1 - math.exp(-0.6 * math.pi / 2), rel=0.02)
    assert "which is conserved, changes by" in found["mass"].said
    heated = checks(check_trust(create_problem("heat"), lambda p: p[:, 1:] * torch.sin(math.pi * p[:, :1])))
    assert not heated["energy"].passed
    assert "never grows, grows by" in heated["energy"].said


@pytest.mark.parametrize("name", ["kdv", "schroedinger", "allen-cahn", "burgers", "heat", "kuramoto-sivashinsky"])
def test_invariants_hold_at_the_start(name):
    """Their first change in time vanishes, or is a fall, by the equation itself (u_t from the equation at t = 0)."""
    problem = create_problem(name)
    points = problem.grid(512, 1)
    u = problem.derivatives(lambda p: problem.initial_values(p) + 0 * p[:, 1:], points)
    for one in problem.invariants.values():
        names = tuple({*problem.derivatives_needed, "x"})
        at = problem.derivatives(lambda p: problem.initial_values(p) + 0 * p[:, 1:], points, names)
        rate = -problem.residual(at) * problem.scale / problem.duration  # u_t, as u has none here
        assert rate.shape == u.value.shape
        small = 1e-6
        moved = lambda s, rate=rate: problem.initial_values(points) + s * rate  # noqa: E731
        slopes = _integral(problem, one, points, moved(small)) - _integral(problem, one, points, moved(-small))
        size = _integral(problem, one, points, moved(0.0), absolute=True)
        drift = slopes / (2 * small) / size
        assert drift <= 1e-2 if one.kind == "decaying" else abs(drift) < 2e-2, (name, drift)


def _integral(problem, one, points, values, absolute=False):
    """By Fourier derivatives of the values on the periodic grid."""
    from evolvent.equations import Derivatives

    low, high = problem.domain["x"]
    k = 2j * np.pi * np.fft.fftfreq(len(points), (high - low) / len(points))
    slope = np.real(np.fft.ifft(k[:, None] * np.fft.fft(values.numpy(), axis=0), axis=0))
    density = one.density(Derivatives(values, {"x": [torch.from_numpy(slope)]}), **problem.coefficients)
    return (density.abs() if absolute else density).mean().item()


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
@pytest.mark.parametrize("name", ["poisson", "poisson-disc", "helmholtz", "eigenvalue"])
def test_steady_residuals_are_told_as_errors(name):
    """An error of the longest wave leaves a residual of about its own size, in the unit of the check."""
    problem = create_problem(name)
    share = 0.01

    def off(points):
        return problem.solution(points) + share * problem.inside(points)

    right, wrong = (checks(check_trust(problem, u)) for u in (problem.solution, off))
    assert right["residual on fresh points"].value < 1e-10
    assert right["boundary"].value < 1e-12
    points = torch.rand(4000, 2, dtype=torch.float64)
    points = problem.placed(points)
    points = points[problem.contains(points)]
    relative = (share * problem.inside(points).norm() / problem.solution(points).norm()).item()
    if name == "eigenvalue":  # the bump is nearly an eigenfunction itself, whose residual is small
        assert wrong["residual on fresh points"].value < 0.5 * relative
    else:
        assert wrong["residual on fresh points"].value == pytest.approx(relative, rel=0.05)


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
def test_boundary_values_and_regions_are_respected():
    problem = create_problem("poisson-l-shape")

    def wild_outside(points):
        missing = (points[:, :1] > 0) & (points[:, 1:] < 0)
        return problem.solution(points) + torch.where(missing, 1e3 * points[:, :1] ** 2, 0.0)

    found = checks(check_trust(problem, wild_outside, second=problem.solution))
    assert found["second solution"].value == 0  # the missing quadrant is not looked at
    assert found["residual on fresh points"].value < 1e-6
    shifted = checks(check_trust(problem, lambda p: problem.solution(p) + 0.05))
    largest = 2 ** (1 / 3)  # in a corner
    assert shifted["boundary"].value == pytest.approx(0.05 / largest, rel=0.01)
    assert not shifted["boundary"].passed


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
def test_eigenfunctions_are_compared_up_to_a_factor():
    problem = create_problem("eigenvalue")
    found = checks(check_trust(problem, problem.solution, second=lambda p: -3 * problem.solution(p)))
    assert found["second solution"].value < 1e-12
    assert check_trust(problem, lambda p: 1e-9 * problem.solution(p)).trusted
    nothing = check_trust(problem, lambda p: 0 * problem.solution(p))
    assert not nothing.trusted
    assert "0 everywhere" in nothing.verdict


def level(x):
    """Of the right size, on the right values at both ends, and wrong inside."""
    return torch.ones_like(x[:, :1])


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_wrong_solution_is_seen_in_any_units_of_the_equation(unit):
    ends = [Condition(f"end at {at}", {"x": at}, lambda u: u.value - 1) for at in (0, 1)]
    curved = Problem(name="curved", domain={"x": (0, 1)}, equation=lambda u: unit * (u["xx"] + 8), conditions=ends)
    right = check_trust(curved, lambda p: 1 + 4 * p * (1 - p))
    assert right.trusted, right.verdict
    assert not check_trust(curved, level).trusted


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_wrong_course_is_seen_in_any_units_of_the_equation(unit):
    decay = Problem(name="decay", domain={"t": (0, 2)}, equation=lambda u: unit * (u["t"] + u.value), initial=1.0)
    right = check_trust(decay, lambda t: torch.exp(-t))
    assert right.trusted, right.verdict
    assert not check_trust(decay, level).trusted


@pytest.mark.filterwarnings("ignore::evolvent.equations.fallback.JetFallbackWarning")  # of closed forms
@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_a_wrong_slope_is_seen_on_any_length(length):
    held = Condition("held", {"x": 0}, lambda u: u.value - 1)
    pulled = Condition("pulled", {"x": length}, lambda u: u["x"] - 1 / length)
    rope = Problem(
        name="rope", domain={"x": (0, length)}, equation=lambda u: u["xx"], conditions=[held, pulled], size=1.0
    )
    right = check_trust(rope, lambda x: 1 + x / length)
    assert right.trusted, right.verdict
    wrong = check_trust(rope, lambda x: 1 + 0 * x)
    assert [check.name for check in wrong.checks if not check.passed] == ["pulled", "linearised error"]
