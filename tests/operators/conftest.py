from collections.abc import Callable

import pytest
import torch


def _matrix_of(act: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor:
    count = torch.Size(shape).numel()
    with torch.no_grad():
        return torch.stack([act(e.view(shape)).flatten() for e in torch.eye(count, dtype=torch.float64)], dim=1)


@pytest.fixture(scope="session")
def matrix_of():
    """The float64 matrix of a linear map on inputs of a shape, column by column."""
    return _matrix_of
