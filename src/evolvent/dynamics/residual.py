"""Residual dynamics: the module that a ResNet adds to its features."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics
from evolvent.operators import Convolution


class Residual(Dynamics):
    r"""Two convolutions with batch normalisation.

    .. math::
        F_\text{post}(u) = \mathcal B(K_2\, \sigma(\mathcal B(K_1 u))), \qquad
        F_\text{pre}(u) = K_2\, \sigma(\mathcal B(K_1\, \sigma(\mathcal B(u))))

    He et al. 2016a (post-activation; the ReLU after the sum belongs to the step, see
    :class:`~evolvent.integrators.ProjectedEuler`) and He et al. 2016b (pre-activation).

    Args:
        channels: number of feature maps.
        activation: ``"post"`` or ``"pre"``.

    Shape: (B, channels, H, W) to the same.

    >>> Residual(4)(0.0, torch.randn(2, 4, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    """

    def __init__(self, channels: int, activation: Literal["post", "pre"] = "post") -> None:
        super().__init__()
        self.activation = activation
        self.conv1 = Convolution(channels, channels)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = Convolution(channels, channels)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        if self.activation == "pre":
            return self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(u))))))
        return self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(u)))))
