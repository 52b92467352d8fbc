"""What the tests of derivatives compare with: nested autograd, one order inside the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from evolvent.equations import jet
from evolvent.equations.fallback import nested_derivatives


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def agrees() -> Callable[..., None]:
    """Compare a jet with nested autograd, for values and for gradients of a loss of all orders."""

    def check(
        f: Callable[[Tensor], Tensor], x: Tensor, order: int = 4, like: Callable[..., Tensor] | None = None
    ) -> None:
        direction = torch.randn_like(x)
        torch.manual_seed(1)  # dropout draws the same masks
        ours = jet(f, x, direction, order)
        torch.manual_seed(1)
        theirs = nested_derivatives(like or f, [x], [[direction]], [(k,) for k in range(order + 1)])
        for k, u in enumerate(ours):
            expected = theirs[k,]
            torch.testing.assert_close(u, expected, rtol=1e-10, atol=1e-10 * (1 + expected.abs().max().item()))

    return check
