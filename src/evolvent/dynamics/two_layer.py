"""A network of two layers as the velocity of points."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.state import State
from evolvent.dynamics._contract import Dynamics


class TwoLayer(Dynamics):
    r"""A hidden layer of ReLUs and a linear map, with biases.

    .. math:: F(u) = \sum_{i=1}^w a_i\, \max(w_i \cdot u + b_i, 0) + c

    The convection of Wang et al., eq. (5); their networks have :math:`c` as well. A step of Euler's method is
    ``u + FC2(ReLU(FC1(u)))``. Weights are initialised as those of :class:`torch.nn.Linear`.

    Args:
        features: length of :math:`u`.
        width: :math:`w`; as many as ``features`` unless given.

    Shape: (B, features) to the same.

    >>> sum(p.numel() for p in TwoLayer(2).parameters())
    12
    """

    def __init__(self, features: int, width: int | None = None) -> None:
        super().__init__()
        width = features if width is None else width
        check_whole(1, features=features, width=width)
        self.inner = nn.Linear(features, width)
        self.outer = nn.Linear(width, features)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return self.outer(torch.relu(self.inner(u)))
