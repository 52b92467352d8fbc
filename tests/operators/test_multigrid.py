from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.errors import ConfigError
from evolvent.operators import MultigridConvolution
from evolvent.testing import check_operator

widths = st.sampled_from([1, 2, 3, 4, 6, 8, 12])


@given(widths, widths, st.integers(1, 5), st.integers(1, 5), st.integers(1, 4))
def test_contract(before, after, height, width, group_size):
    K = MultigridConvolution(before, after, group_size)
    check_operator(K, (2, before, height, width), (2, after, height, width))


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(1, 3))
def test_adjoint_is_the_transposed_matrix(matrix_of, before, after, height, width):
    K = MultigridConvolution(before, after, 1).double()
    forward, adjoint = (matrix_of(a, (1, c, height, width)) for a, c in ((K, before), (K.adjoint, after)))
    assert_close(adjoint, forward.T, rtol=0, atol=1e-13)


def blocks(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """The matrix over channels of the middle tap of a grouped convolution."""
    middle = weight.shape[-1] // 2
    return torch.block_diag(*weight.detach()[:, :, middle, middle].chunk(groups))


def test_matrix_is_the_recursion_of_the_docstring(matrix_of):
    """On a single pixel only the middle taps act."""
    K = MultigridConvolution(8, 12, 2).double()
    assert K.groups == [4, 2, 1]
    G = [blocks(w, n) for w, n in zip(K.local, K.groups, strict=True)]
    R = [blocks(w, n) for w, n in zip(K.restrict, K.groups[1:], strict=True)]
    P = [blocks(w, n) for w, n in zip(K.prolong, K.groups[1:], strict=True)]
    assert [m.shape for m in G] == [(12, 8), (6, 4), (3, 2)]
    assert [m.shape for m in R] == [(4, 8), (2, 4)]
    expected = G[0] + P[0] @ (G[1] + P[1] @ G[2] @ R[1]) @ R[0]
    assert_close(matrix_of(K, (1, 8, 1, 1)), expected, rtol=0, atol=1e-13)


def test_every_channel_reaches_every_other(matrix_of):
    assert (matrix_of(MultigridConvolution(16, 16, 2).double(), (1, 16, 1, 1)) != 0).all()


def test_weights_grow_linearly_with_the_width():
    counts = [sum(p.numel() for p in MultigridConvolution(c, c, 16).parameters()) for c in (64, 128, 256, 512, 1024)]
    assert all(wide < 2.3 * narrow for narrow, wide in pairwise(counts))
    assert counts[-1] < 9 * 1024**2 / 25


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [(64, 64, [4, 2, 1]), (112, 112, [4, 2, 1]), (33, 33, [1]), (32, 64, [2, 1]), (16, 128, [1]), (8, 8, [1])],
)
def test_levels_follow_from_the_width(before, after, groups):
    assert MultigridConvolution(before, after).groups == groups


def test_one_group_is_a_full_convolution():
    K = MultigridConvolution(3, 5)
    u = torch.randn(2, 3, 6, 6)
    assert_close(K(u), F.conv2d(u, K.local[0], padding=1))


def test_empty_groups_are_refused():
    with pytest.raises(ConfigError, match="group_size must be a whole number of at least 1, got 0"):
        MultigridConvolution(4, 4, 0)


def test_repr_tells_the_levels():
    assert repr(MultigridConvolution(32, 64)).startswith("MultigridConvolution(\n  32, 64, groups=[2, 1]")
