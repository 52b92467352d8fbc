"""The network of the deep BSDE method: the value of a solution at one point, and its gradient along all paths."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import torch
from annotated_types import Ge, Gt
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.networks._options import Count, NetworkOptions, NumClasses
from evolvent.networks._registry import ModelSpec, register_family


@dataclass(frozen=True, kw_only=True)
class BsdeOptions(NetworkOptions):
    num_classes: NumClasses = 1
    in_features: Annotated[Count, "coordinates of a point, without time"] = 100
    width: Annotated[int, Ge(0), "units of a hidden layer; ten more than coordinates if 0"] = 0
    layers: Annotated[Count, "hidden layers"] = 2
    centre: Annotated[float, "centre of the points that the network is given"] = 0.0
    spread: Annotated[float, Gt(0), "typical distance of points from the centre"] = 1.0
    until: Annotated[float, Gt(0), "end of time"] = 1.0
    value: Annotated[float, "first guess of the solution at the start"] = 1.0
    variation: Annotated[float, Gt(0), "size of the gradient times the spread of points, about"] = 1.0


class BsdeNetwork(nn.Module):
    r"""A number :math:`u(0, \xi)` and a function :math:`z(t, x) \approx \sigma^\top \nabla u(t, x)`.

    Shape: times and points (N, 1 + in_features) to the number, the same in all rows, and z: (N, 1 + in_features).
    """

    spec: ModelSpec

    def __init__(self, options: BsdeOptions) -> None:
        super().__init__()
        self.options = options
        d, width = options.in_features, options.width or options.in_features + 10
        layers: list[nn.Module] = []
        for before, after in pairwise([d + 1, *[width] * options.layers]):
            layers += [nn.Linear(before, after), nn.Tanh()]
        last = nn.Linear(width, d)
        with torch.no_grad():
            last.weight.mul_(0.1)
            last.bias.zero_()
        self.layers = nn.Sequential(*layers, last)
        self.relative = nn.Parameter(torch.ones(()))  # so that one learning rate suits solutions of any size
        near_zero = abs(options.value) < options.variation  # where the guess is no measure of the solution
        self.unit = options.variation if near_zero else options.value

    @property
    def value(self) -> Tensor:
        """The solution at the start, one number."""
        return self.relative * self.unit + (self.options.value - self.unit)

    def forward(self, x: Tensor) -> Tensor:
        z = self.layers[-1](self.forward_features(x)) * self.options.variation
        return torch.cat([self.value.expand(x.shape[0], 1).to(z.dtype), z], dim=1)

    def forward_features(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        if x.ndim != 2 or x.shape[1] != self.options.in_features + 1:
            raise ShapeError(
                f"this network takes a time and {self.options.in_features} coordinates in each row, got shape "
                f"{tuple(x.shape)}."
            )
        scaled = torch.cat([x[:, :1] / self.options.until, (x[:, 1:] - self.options.centre) / self.options.spread], 1)
        return self.layers[:-1](scaled)


@register_family("bsde", BsdeOptions, papers=("han2018",), recipe="bsde-hjb")
def bsde(options: BsdeOptions) -> BsdeNetwork:
    r"""Deep BSDE: the solution of a semilinear equation at one point, in hundreds of dimensions.

    .. math:: u_{n+1} = u_n - f(t_n, X_n, u_n, z_n)\, h + z_n \cdot \Delta W_n, \qquad
              \min_{u_0, z} \mathbb E\, |u_N - g(X_T)|^2

    Han, Jentzen, E 2018. They have a network for each step of time; here one network takes the time as an input, which
    has a twentieth of the parameters and learns from all steps. ``num_classes`` has no meaning.

    Shape: times and points (N, 1 + in_features) to :math:`u_0` and z, (N, 1 + in_features).

    >>> import torch
    >>> import evolvent as ev
    >>> ev.create_model("bsde", in_features=5)(torch.zeros(3, 6)).shape
    torch.Size([3, 6])
    """
    return BsdeNetwork(options)
