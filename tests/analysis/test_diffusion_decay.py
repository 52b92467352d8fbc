"""Eq. 3.3 with its kernel held: symmetric, non-negative kernels lose energy and variance; the balance is exact."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from evolvent._core.errors import ConfigError
from evolvent.analysis import diffusion_decay, diffusion_matrix
from evolvent.operators import FractionalLaplacian, InverseFractionalLaplacian, NonlocalDiffusion

SYMMETRIC = {
    "gaussian": lambda c: NonlocalDiffusion(c, "gaussian", embedding="none", scale=0.3),
    "shared": lambda c: NonlocalDiffusion(c, "gaussian", embedding="shared", scale=0.3),
    "fractional": lambda c: FractionalLaplacian(c, 0.3, embedding="none"),
}
ALL = SYMMETRIC | {
    "dot": lambda c: NonlocalDiffusion(c, "dot", embedding="pair"),
    "embedded gaussian": lambda c: NonlocalDiffusion(c, "gaussian", embedding="pair", scale=0.3),
    "row sums": lambda c: NonlocalDiffusion(c, "gaussian", embedding="none", normaliser="row_sum", scale=0.3),
}


@given(
    kind=st.sampled_from(list(SYMMETRIC)),
    channels=st.sampled_from([2, 4]),
    height=st.integers(1, 5),
    width=st.integers(2, 5),
    seed=st.integers(0, 999),
)
def test_energy_and_variance_decay_and_the_mean_stays(kind, channels, height, width, seed):
    torch.manual_seed(seed)
    operator, u0 = SYMMETRIC[kind](channels), torch.randn(2, channels, height, width)
    found = diffusion_decay(operator, u0, steps=6)
    assert found.decays
    assert max(map(abs, found.gain)) <= 1e-10 * max(found.dissipation) + 1e-12
    assert min(found.dissipation) >= 0
    assert max(found.rate) <= 1e-10
    matrix = diffusion_matrix(operator, u0)
    assert_close(matrix, matrix.mT)
    assert torch.linalg.eigvalsh(matrix).max() < 1e-9 * matrix.abs().max()


@pytest.mark.parametrize("kind", ALL)
def test_rate_is_gain_less_dissipation_for_every_kernel(kind):
    found = diffusion_decay(ALL[kind](4), torch.randn(2, 4, 4, 5), steps=5, end_time=0.1)
    balance = [gain - loss for gain, loss in zip(found.gain, found.dissipation, strict=True)]
    assert balance == pytest.approx(found.rate, rel=1e-9, abs=1e-9)


def test_the_rate_is_the_derivative_of_the_energy():
    operator, u0 = SYMMETRIC["gaussian"](4), torch.randn(1, 4, 4, 4)
    fine = diffusion_decay(operator, u0, steps=2, end_time=2e-4)
    slope = (fine.energy[2] - fine.energy[0]) / 2e-4
    assert slope == pytest.approx(fine.rate[1], rel=1e-6)
    assert fine.times == (0.0, 1e-4, 2e-4)


def test_the_matrix_is_the_operator():
    for operator in (NonlocalDiffusion(4, "dot"), InverseFractionalLaplacian(4)):
        u = torch.randn(2, 4, 3, 5, dtype=torch.float64)
        operator = operator.double()
        moved = (diffusion_matrix(operator, u) @ u.flatten(2).mT).mT.reshape(u.shape)
        assert_close(moved, operator.damping_sign * operator(u))


def test_the_dot_product_may_let_energy_rise():
    """A kernel that may be negative is not a diffusion: the operator of the paper's networks has no such theorem."""
    found = [diffusion_decay(NonlocalDiffusion(4, "dot"), torch.randn(1, 4, 4, 4)).decays for _ in range(8)]
    assert not all(found)


@pytest.mark.parametrize("value", [1.0, 0.1, 0.0])
@pytest.mark.parametrize("kind", SYMMETRIC)
def test_rounding_of_constants_is_no_rise(kind, value):
    assert diffusion_decay(SYMMETRIC[kind](4), torch.full((2, 4, 5, 5), value)).decays


@pytest.mark.parametrize("end_time", [-1.0, 0.0, float("nan"), float("inf")])
def test_times_at_which_nothing_ends(end_time):
    with pytest.raises(ConfigError, match="end_time must be positive and finite"):
        diffusion_decay(SYMMETRIC["gaussian"](2), torch.randn(1, 2, 3, 3), end_time=end_time)


def test_a_constant_image_stays():
    found = diffusion_decay(SYMMETRIC["gaussian"](2), torch.ones(1, 2, 3, 3), steps=2)
    assert found.variance == pytest.approx([0.0] * 3, abs=1e-20)
    assert found.energy == pytest.approx([18.0] * 3)


@pytest.mark.parametrize(
    ("operator", "size", "steps", "message"),
    [
        (InverseFractionalLaplacian(2), 3, 1, "not a diffusion"),
        (NonlocalDiffusion(2, subsample=2), 4, 1, "subsample must be 1"),
        (NonlocalDiffusion(2), 80, 1, "up to 4096 pixels"),
        (NonlocalDiffusion(2), 4, 0, "at least 1, got 0"),
    ],
    ids=["potential", "pooled", "large", "no steps"],
)
def test_what_has_no_such_flow_is_refused(operator, size, steps, message):
    with pytest.raises(ConfigError, match=message):
        diffusion_decay(operator, torch.zeros(1, 2, size, size), steps=steps)
