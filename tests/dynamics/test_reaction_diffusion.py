import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import Parabolic, ReactionDiffusion, Residual
from evolvent.errors import UnknownNameError
from evolvent.operators import DenseDiffusion, DepthwiseDiffusion

kinds = st.sampled_from(["dense", "full", "lean", "lean5", "multigrid"])
reactions = st.sampled_from(["residual", "symmetric"])


def features(kind: str, channels: int, size: int) -> torch.Tensor:
    return torch.randn(2, channels, *([] if kind == "dense" else [size, size + 1]), dtype=torch.float64)


@given(kinds, reactions, st.integers(1, 3), st.integers(1, 4), st.sampled_from([0.01, 1.0, 30.0]))
def test_parts_belong_together(randomised, kind, reaction, channels, size, h):
    f, u = randomised(ReactionDiffusion(channels, reaction=reaction, operator=kind)), features(kind, channels, size)
    assert_close(f(0.0, u), f.explicit(0.0, u) - f.stiff(0.0, u))
    assert_close(f.solve(0.0, u + h * f.stiff(0.0, u), h), u, rtol=1e-10, atol=1e-10)


@given(kinds, st.integers(1, 3), st.integers(1, 3))
def test_stiff_part_is_symmetric_positive_semidefinite(jacobian, randomised, kind, channels, size):
    f = randomised(ReactionDiffusion(channels, operator=kind))
    L = jacobian(lambda u: f.stiff(0.0, u), features(kind, channels, size)[:1])
    assert_close(L, L.T, rtol=0, atol=1e-12)
    assert torch.linalg.eigvalsh(L).min() >= -1e-12 * max(1.0, L.abs().max().item())


def test_symmetric_form_against_the_formula(randomised):
    f = randomised(ReactionDiffusion(3, bias=True))
    u, K, k = torch.randn(2, 3, 5, 6, dtype=torch.float64), f.reaction.layer.operator.weight, f.diffusion.weight
    reaction = -F.conv_transpose2d(
        (F.conv2d(u, K, padding=1) + f.reaction.layer.bias[:, None, None]).relu(), K, padding=1
    )
    once = sum(k[:, :, i, j, None] * u.roll((1 - i, 1 - j), (2, 3)) for i in range(3) for j in range(3))
    twice = sum(k[:, :, i, j, None] * once.roll((i - 1, j - 1), (2, 3)) for i in range(3) for j in range(3))
    assert_close(f(0.0, u), reaction - twice)


def test_dense_form_against_the_formula(dtype, tolerance):
    f = ReactionDiffusion(4, operator="dense", reaction="residual", activation="tanh").to(dtype)
    u, A = torch.randn(3, 4, dtype=dtype), f.diffusion.weight
    k1, k2 = f.reaction.conv1.weight, f.reaction.conv2.weight
    assert_close(f(0.0, u), torch.tanh(u @ k1.T) @ k2.T - u @ (A.T @ A), **tolerance)
    inverse = torch.linalg.inv(torch.eye(4, dtype=dtype) + 0.3 * A.T @ A)
    assert_close(f.solve(0.0, u, 0.3), u @ inverse, **tolerance)


def test_implicit_steps_stay_bounded_where_explicit_ones_explode(randomised):
    f, u, h = randomised(ReactionDiffusion(2)), torch.randn(1, 2, 8, 8, dtype=torch.float64), 0.05
    with torch.no_grad():
        for p in f.diffusion.parameters():
            p *= 10
        explicit = implicit = u
        for _ in range(50):
            explicit = explicit + h * f(0.0, explicit)
            implicit = f.solve(0.0, implicit + h * f.explicit(0.0, implicit), h)
    assert implicit.norm() < u.norm()
    assert not explicit.norm() < 1e6


@pytest.mark.parametrize(
    ("operator", "reaction", "kinds"),
    [("full", "residual", (Residual, DepthwiseDiffusion)), ("dense", "symmetric", (Parabolic, DenseDiffusion))],
)
def test_parts_follow_the_options(operator, reaction, kinds):
    f = ReactionDiffusion(4, operator=operator, reaction=reaction, norm="batch", bias=True)
    assert isinstance(f.reaction, kinds[0])
    assert isinstance(f.diffusion, kinds[1])


def test_unknown_reaction_is_refused():
    with pytest.raises(UnknownNameError, match="unknown reaction 'burning'"):
        ReactionDiffusion(2, reaction="burning")  # type: ignore[arg-type]
