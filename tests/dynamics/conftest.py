from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.func import jacrev


def _jacobian(f: Callable[[torch.Tensor], torch.Tensor], u: torch.Tensor) -> torch.Tensor:
    return jacrev(f)(u).reshape(u.numel(), u.numel()).detach()


def _randomised(module: nn.Module) -> nn.Module:
    for p in module.double().parameters():
        nn.init.normal_(p, std=0.5)
    return module


@pytest.fixture(scope="session")
def jacobian():
    """The Jacobian of a map of tensors at one of them, as a matrix."""
    return _jacobian


@pytest.fixture(scope="session")
def randomised():
    """A module in float64 with all its weights, biases too, drawn at random."""
    return _randomised
