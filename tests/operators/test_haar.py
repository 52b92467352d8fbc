import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.errors import ShapeError
from evolvent.operators import HaarTransform
from evolvent.testing import check_operator

halves = st.integers(1, 4)


@given(st.integers(1, 4), halves, halves, st.integers(1, 3))
def test_contract(channels, height, width, batch):
    check_operator(HaarTransform(), (batch, channels, 2 * height, 2 * width), (batch, 4 * channels, height, width))


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))
def test_matrix_is_orthogonal(matrix_of, channels, height, width):
    L = matrix_of(HaarTransform(), (1, channels, 2 * height, 2 * width))
    assert_close(L @ L.T, torch.eye(len(L), dtype=L.dtype), rtol=0, atol=1e-15)
    assert_close(matrix_of(HaarTransform().adjoint, (1, 4 * channels, height, width)), L.T, rtol=0, atol=0)


@given(st.integers(1, 4), halves, halves)
def test_inverse_undoes_the_transform(channels, height, width):
    pool, u = HaarTransform(), torch.randn(2, channels, 2 * height, 2 * width, dtype=torch.float64)
    assert_close(pool.inverse(pool(u)), u, rtol=0, atol=1e-14)
    assert_close(pool(u).norm(), u.norm(), rtol=1e-14, atol=0)


def test_against_the_matrix_of_the_docstring():
    u = torch.randn(2, 3, 4, 6, dtype=torch.float64)
    matrix = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], dtype=torch.float64) / 2
    pixels = torch.stack([u[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)], dim=1)
    expected = torch.einsum("sp,bpcxy->bscxy", matrix, pixels).flatten(1, 2)
    assert_close(HaarTransform()(u), expected, rtol=0, atol=1e-15)


def test_first_channels_are_pooled(dtype, tolerance):
    u = torch.randn(2, 3, 8, 8, dtype=dtype)
    found = HaarTransform()(u)
    assert found.dtype == dtype
    assert_close(found[:, :3], 2 * F.avg_pool2d(u, 2), **tolerance)


def test_constants_have_no_differences():
    assert (HaarTransform()(torch.ones(1, 2, 4, 4))[:, 2:] == 0).all()


def test_training_passes_through():
    u = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(HaarTransform(), (u,))


@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 1, 1)])
def test_odd_sizes_are_refused_with_advice(shape):
    with pytest.raises(ShapeError, match="Pad or crop them to an even size"):
        HaarTransform()(torch.zeros(shape))


def test_inverse_needs_four_bands():
    with pytest.raises(ShapeError, match="multiple of 4 channels"):
        HaarTransform().inverse(torch.zeros(1, 6, 2, 2))


@pytest.mark.parametrize("act", [HaarTransform(), HaarTransform().inverse])
def test_batches_of_images_are_needed(act):
    with pytest.raises(ShapeError, match=r"takes images, as \(batch, channels, height, width\), got shape \(4, 2, 2\)"):
        act(torch.zeros(4, 2, 2))
