"""check_onnx takes what onnxruntime computes alike, and says why it refuses the rest."""

import pytest
import torch
from torch import Tensor, nn

from evolvent.testing import check_onnx

pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")


class Undecided(nn.Module):
    """Branches on values, which no tracer follows."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


def test_a_plain_network_passes():
    check_onnx(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Dropout()), torch.rand(2, 1, 5, 5))


def test_a_branch_on_values_is_refused():
    with pytest.raises(AssertionError, match=r"torch\.onnx\.export does not take the model"):
        check_onnx(Undecided(), torch.ones(3))
