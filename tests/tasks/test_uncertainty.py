"""Standard errors of coefficients: against the spread over many draws of noise, and what they decide."""

import pytest
import torch

from evolvent.equations import Derivatives, polynomial_terms
from evolvent.tasks.pde import Discovery
from evolvent.tasks.pde.uncertainty import Uncertainty, gauss_newton_uncertainty

SIGMA = 0.3


@pytest.fixture(scope="module")
def linear():
    """A fit that is linear: a = B theta and g = C theta + T alpha, with a truth that fulfils g = 0."""
    draw = torch.Generator().manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=draw)  # noqa: E731
    b, c = normal(60, 8), normal(40, 8)
    columns = torch.cat([-c @ normal(8, 1), 100 * normal(40, 1)], dim=1)  # terms of very different size
    theta = torch.linalg.lstsq(c, -columns[:, :1]).solution  # alpha = (1, 0)
    columns[:, :1] = -c @ theta
    return b, c, columns, theta


def solved(b, c, columns, y):
    zero = torch.zeros(len(b), columns.shape[1], dtype=b.dtype)
    rows = torch.cat([torch.cat([b, zero], 1), torch.cat([c, columns], 1)])
    found = torch.linalg.lstsq(rows, torch.cat([y, torch.zeros(len(c), y.shape[1], dtype=b.dtype)])).solution
    return found[: b.shape[1]], found[b.shape[1] :]


def noisy(b, theta, count):
    draw = torch.Generator().manual_seed(1)
    return b @ theta + SIGMA * torch.randn(len(b), count, dtype=torch.float64, generator=draw)


def test_standard_errors_are_the_spread_over_draws_of_noise(linear):
    b, c, columns, truth = linear
    y = noisy(b, truth, 8000)
    theta, alpha = solved(b, c, columns, y)
    found = [gauss_newton_uncertainty(b, c, columns, (b @ theta - y)[:, i]) for i in range(300)]
    errors = torch.stack([one.errors for one in found]).mean(0)
    torch.testing.assert_close(errors, alpha.std(1), rtol=0.03, atol=0)
    assert sum(one.noise for one in found) / 300 == pytest.approx(SIGMA, rel=0.02)
    covered = ((alpha[:, :300] - alpha.mean(1, keepdim=True)).T / errors).abs() < 1.96
    assert covered.double().mean().item() == pytest.approx(0.95, abs=0.03)


def test_leaving_a_coefficient_out_is_fitting_without_it(linear):
    b, c, columns, truth = linear
    y = noisy(b, truth, 1)
    theta, alpha = solved(b, c, columns, y)
    whole = gauss_newton_uncertainty(b, c, columns, (b @ theta - y)[:, 0])
    left, known = whole.without(1, alpha[:, 0])
    theta, alone = solved(b, c, columns[:, :1], y)
    direct = gauss_newton_uncertainty(b, c, columns[:, :1], (b @ theta - y)[:, 0])
    torch.testing.assert_close(left, torch.tensor([alone.item(), 0.0], dtype=torch.float64))
    torch.testing.assert_close(known.errors[:1] / whole.noise, direct.errors / direct.noise)
    assert known.errors[1].item() < 1e-10


def test_terms_that_noise_could_have_made_are_left_out():
    numbers = lambda *values: torch.tensor(values, dtype=torch.float64)  # noqa: E731
    known = Uncertainty(torch.diag(numbers(0.01, 1.0, 0.04)), torch.eye(3, dtype=torch.float64), 1.0, 0.0)
    assert known.significant(numbers(1.0, 2.0, 0.1), 3.0) == [0]
    assert known.significant(numbers(1.0, 20.0, 0.1), 3.0) == [0, 1]
    assert known.significant(numbers(0.0, 0.0, 0.0), 3.0) == [2]  # one is always left
    discovery = Discovery(polynomial_terms(("x",), 0, 2))  # 1, u_x, u_xx
    discovery.equation.alpha.copy_(numbers(1.0, 20.0, 0.1))
    assert discovery.keep_significant(known, 3.0) == ["u_xx"]
    assert discovery.equation.text() == "u_t = 1 + 20 u_x"
    u = Derivatives(torch.ones(1, 1), {"x": [torch.ones(1, 1)] * 2, "t": [torch.full((1, 1), 21.0)]})
    assert discovery.residual_of(u).item() == 0
