"""Distances of points: products where these keep digits, differences elsewhere."""

import pytest
import torch

from evolvent.graphs.distances import distances


@pytest.mark.parametrize("itself", [False, True])
def test_sets_that_products_blur_are_exact_and_others_as_they_were(itself, dtype):
    x = torch.randn(3, 40, 8, dtype=dtype)
    x[1] += 1e3 if dtype == torch.float32 else 1e7
    y = x if itself else x[:, :5] + torch.rand(3, 5, 8, dtype=dtype)
    found, plain = distances(x, y), torch.cdist(x, y)
    exact = (x.double()[:, :, None] - y.double()[:, None]).norm(dim=-1)
    apart = exact > 0
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    torch.testing.assert_close(found[apart].double(), exact[apart], rtol=tolerance, atol=0)
    assert torch.equal(found[[0, 2]], plain[[0, 2]])
    assert (plain[1] - exact[1])[apart[1]].abs().max() > 1e-3


def test_points_that_are_nearly_the_same_are_told_apart():
    x = torch.randn(1, 40, 8)
    y = x[:, :3] + 1e-4 * torch.randn(1, 3, 8)
    torch.testing.assert_close(distances(x, y)[0].diagonal(), (x[:, :3] - y).norm(dim=-1)[0])
