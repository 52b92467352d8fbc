"""A velocity that depends on place and time, as flow matching trains it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.networks._options import Count, NetworkOptions, NumClasses
from evolvent.networks._registry import ModelSpec, register_family


@dataclass(frozen=True, kw_only=True)
class VelocityOptions(NetworkOptions):
    num_classes: NumClasses = 1
    in_features: Annotated[Count, "coordinates of a point, without time"] = 2
    width: Annotated[Count, "units of a hidden layer"] = 32
    layers: Annotated[Count, "hidden layers"] = 2


class VelocityNetwork(nn.Module):
    """A multilayer perceptron :math:`v(x, t)`; it need not be a gradient.

    Shape: (N, in_features + 1), time last, to (N, in_features).
    """

    spec: ModelSpec

    def __init__(self, options: VelocityOptions) -> None:
        super().__init__()
        self.options = options
        layers: list[nn.Module] = []
        for before, after in pairwise([options.in_features + 1, *[options.width] * options.layers]):
            layers += [nn.Linear(before, after), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(options.width, options.in_features))

    def forward(self, s: Tensor) -> Tensor:
        return self.layers[-1](self.forward_features(s))

    def forward_features(self, s: Tensor) -> Tensor:
        """The last hidden layer."""
        if s.ndim != 2 or s.shape[1] != self.options.in_features + 1:
            raise ShapeError(
                f"this network takes {self.options.in_features} coordinates and then a time in each row, got shape "
                f"{tuple(s.shape)}."
            )
        return self.layers[:-1](s)

    def velocity(self, s: Tensor) -> Tensor:
        """The answer itself."""
        return self(s)


@register_family("velocity", VelocityOptions, papers=("lipman2023",), recipe="flow-matching")
def velocity(options: VelocityOptions) -> VelocityNetwork:
    r"""A velocity of points, trained by flow matching: the rival of a potential.

    .. math:: x' = v_\theta(x, t), \qquad \min_\theta \mathbb E\, |v_\theta((1 - t) x_0 + t x_1, t) - (x_1 - x_0)|^2

    Lipman, Chen, Ben-Hamu, Nickel, Le 2023. ``num_classes`` has no meaning.

    Shape: points and times (N, in_features + 1), time last, to velocities (N, in_features).

    >>> import torch
    >>> import evolvent as ev
    >>> ev.create_model("velocity", in_features=5)(torch.zeros(3, 6)).shape
    torch.Size([3, 5])
    """
    return VelocityNetwork(options)
