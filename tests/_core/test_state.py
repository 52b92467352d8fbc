import pytest
import torch

from evolvent._core.state import axpy, parts


def test_axpy_on_a_tensor(dtype, tolerance):
    u, k = torch.randn(2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)
    torch.testing.assert_close(axpy(u, 0.5, k), u + 0.5 * k, **tolerance)


def test_axpy_goes_part_by_part():
    u, k = (torch.ones(2), torch.zeros(3)), (torch.ones(2), torch.ones(3))
    y, z = axpy(u, 2.0, k)
    assert torch.equal(y, torch.full((2,), 3.0))
    assert torch.equal(z, torch.full((3,), 2.0))


def test_axpy_refuses_parts_that_do_not_match():
    with pytest.raises(ValueError, match="zip"):
        axpy((torch.ones(2),), 1.0, (torch.ones(2), torch.ones(2)))


def test_parts_of_both_kinds_of_state():
    u = torch.ones(2)
    assert parts(u) == (u,)
    assert parts((u, u)) == (u, u)
