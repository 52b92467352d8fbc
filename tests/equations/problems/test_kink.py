"""A kink that diffusion smooths."""

import pytest
import torch

from evolvent.equations import coordinate_jets
from evolvent.equations.problems import create_problem, smoothed_kink


@pytest.mark.parametrize("diffusion", [1e-4, 1.0])
def test_it_solves_the_heat_equation(diffusion):
    y = torch.linspace(-1, 1, 41, dtype=torch.float64)
    t = torch.linspace(0.1, 1, 41, dtype=torch.float64)
    _, [[_, u_yy], [u_t]] = coordinate_jets(lambda y, t: smoothed_kink(y, t, diffusion), [y, t], [2, 1])
    torch.testing.assert_close(u_t, diffusion * u_yy, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_begins_as_the_kink(dtype):
    y = torch.linspace(-1, 1, 21, dtype=dtype)
    torch.testing.assert_close(smoothed_kink(y, torch.zeros_like(y), 0.1), y.abs(), rtol=0, atol=1e-7)


def curvature(u: torch.Tensor, step: float) -> float:
    """At the last of three points, where u is symmetric."""
    return 2 * (u[-2] - u[-1]).abs().item() / step**2


def test_without_its_profile_allen_cahn_is_smooth_at_the_ends_of_the_period():
    problem, step = create_problem("allen-cahn"), 5e-4
    x = torch.tensor([1 - step, 1.0], dtype=torch.float64)
    for t, values in ((0.0, problem.initial_values), (0.01, problem.solution)):
        points = torch.stack([x, torch.full_like(x, t)], dim=1)
        u, rest = values(points)[:, 0], (values(points) - problem.profile_values(points))[:, 0]
        assert curvature(u, step) > 900
        assert curvature(rest, step) < 40
