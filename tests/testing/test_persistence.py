import pytest
import torch
from torch import nn

from evolvent.testing.persistence import check_buffers_are_true, check_saved


class WithBuffer(nn.Module):
    def __init__(self, buffer: torch.Tensor, persistent: bool = True) -> None:
        super().__init__()
        self.register_buffer("extra", buffer, persistent=persistent)

    def forward(self, x):
        return x + self.extra


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.rand(1)


x = torch.tensor([[1.0], [2.0]])


def test_buffers_that_follow_from_the_options_must_not_be_saved():
    with pytest.raises(AssertionError, match="'extra' of 1 numbers follows from the options"):
        check_buffers_are_true(WithBuffer(torch.ones(1)), WithBuffer(torch.ones(1)), x)
    check_buffers_are_true(WithBuffer(torch.ones(1), False), WithBuffer(torch.ones(1), False), x)


def test_learned_and_drawn_buffers_are_true():
    check_buffers_are_true(nn.BatchNorm1d(1), nn.BatchNorm1d(1), x)
    check_buffers_are_true(WithBuffer(torch.rand(1)), WithBuffer(torch.rand(1)), x)


def test_answers_that_change_are_found():
    with pytest.raises(AssertionError, match="answers differ by up to"):
        check_saved(Noisy(), x)
