"""Methods that treat a stiff part implicitly: u' = f - L u with L a Laplacian of large norm."""

import math

import pytest
import torch

from evolvent import Evolution
from evolvent.dynamics import SplitDynamics
from evolvent.errors import ConfigError
from evolvent.integrators import (
    AdamsBashforth2,
    Euler,
    Heun,
    ImexEuler,
    ImplicitMidpoint,
    LieTrotter,
    LinearMultistep,
    Strang,
    Verlet,
)

SIZE = 32
implicit = pytest.mark.parametrize("method", [ImexEuler(), LieTrotter(), Strang()], ids=repr)


class Heat(SplitDynamics):
    """Diffusion on a periodic line with a bounded source; the largest eigenvalue of L is 4 SIZE^2."""

    def __init__(self) -> None:
        super().__init__()
        eye = torch.eye(SIZE, dtype=torch.float64)
        self.L = SIZE**2 * (2 * eye - eye.roll(1, 0) - eye.roll(-1, 0))

    def explicit(self, t, u):
        return 0.1 * u.cos()

    def stiff(self, t, u):
        return u @ self.L

    def solve(self, t, u, h):
        return torch.linalg.solve(torch.eye(SIZE, dtype=u.dtype) + h * self.L, u.mT).mT


LIMIT = Euler.real_stability / (4 * SIZE**2)


def largest(method, h, steps=200):
    rough = torch.tensor([[(-1.0) ** i for i in range(SIZE)]], dtype=torch.float64)
    return Evolution(Heat(), method, steps=steps, step_size=h)(rough).abs().max().item()


@implicit
def test_a_hundred_times_the_explicit_limit_is_stable(method):
    assert largest(method, 100 * LIMIT) < 1.5


def test_explicit_euler_has_that_limit():
    assert largest(Euler(), 0.99 * LIMIT) < 1.5
    assert largest(Euler(), 1.5 * LIMIT) > 1e6


def test_lie_trotter_with_euler_is_imex_euler():
    u = torch.randn(2, SIZE, dtype=torch.float64)
    assert torch.equal(LieTrotter(Euler()).step(Heat(), 0.0, u, 0.1), ImexEuler().step(Heat(), 0.0, u, 0.1))


def test_strang_without_a_mild_part_is_crank_nicolson_twice():
    class Diffusion(Heat):
        def explicit(self, t, u):
            return 0 * u

    u, h = torch.randn(2, SIZE, dtype=torch.float64), 1e-3
    L, eye = Heat().L, torch.eye(SIZE, dtype=torch.float64)
    half = torch.linalg.solve(eye + h / 4 * L, eye - h / 4 * L)
    torch.testing.assert_close(Strang().step(Diffusion(), 0.0, u, h), u @ half @ half, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [LieTrotter, Strang])
@pytest.mark.parametrize("mild", [Verlet(), AdamsBashforth2(), LinearMultistep(3), ImexEuler()], ids=repr)
def test_mild_parts_need_a_one_step_method(kind, mild):
    with pytest.raises(
        ConfigError, match=rf"{kind.__name__} needs a one-step method .* Heun\(\), got {type(mild).__name__}"
    ):
        kind(mild)


def test_strang_needs_second_order():
    with pytest.raises(ConfigError, match=r"order 2 or more, such as Heun\(\), got Euler\(\)"):
        Strang(Euler())


def test_splittings_say_what_they_are_made_of():
    assert repr(Strang()) == repr(Strang(Heun())) == "Strang()"
    assert repr(LieTrotter(Euler())) == "LieTrotter(Euler())"
    assert repr(Strang(ImplicitMidpoint())) == "Strang(ImplicitMidpoint())"


@implicit
def test_slow_modes_decay_at_their_rate(method):
    """The slowest mode, alone, over a time in which it halves."""

    class Diffusion(Heat):
        def explicit(self, t, u):
            return 0 * u

    x = torch.arange(SIZE, dtype=torch.float64) / SIZE
    mode = (2 * math.pi * x).cos()[None]
    rate = 4 * SIZE**2 * math.sin(math.pi / SIZE) ** 2
    end = math.log(2) / rate
    v = Evolution(Diffusion(), method, steps=50, step_size=end / 50)(mode)
    torch.testing.assert_close(v, mode / 2, rtol=0, atol=0.005)
