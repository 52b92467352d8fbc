"""Residual networks for points of the plane, after the survey's first example (Ruthotto 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from evolvent._core.checks import check_even, check_numbers
from evolvent._core.errors import ConfigError, ShapeError
from evolvent._core.state import parts
from evolvent.dynamics import Antisymmetric, Hamiltonian, Residual
from evolvent.dynamics.layers import LayerOptions
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Verlet
from evolvent.networks._options import Count, Damping, NetworkOptions, NumClasses, StepSize, Width
from evolvent.networks._registry import ModelSpec, register_family
from evolvent.networks.odenet import ZeroChannels


class PointNetwork(nn.Module):
    r"""An evolution equation for points, :math:`u(0) = lift(x),\; u' = F(t, u),\; y = W u(T) + \mu`.

    Args:
        lift: from points to features.
        evolution: of the features.
        head: from features to the answer.
        in_features: coordinates of a point.

    Shape: (B, in_features) to what the head gives.
    """

    spec: ModelSpec
    couples_batch: bool = False
    """Whether the answer for a point depends on the others of its batch, which form a graph."""

    def __init__(self, lift: nn.Module, evolution: Evolution, head: nn.Module, *, in_features: int) -> None:
        super().__init__()
        self.lift = lift
        self.evolution = evolution
        self.head = head
        self.in_features = in_features

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.forward_features(x))

    def forward_features(self, x: Tensor) -> Tensor:
        """The features :math:`u(T)` that the head reads."""
        self._check(x)
        return self.evolution(self.lift(x))

    def trajectories(self, x: Tensor) -> list[list[Tensor]]:
        """For the one evolution, the features at all times."""
        self._check(x)
        return [[parts(state)[0] for state in self.evolution.trajectory(self.lift(x))]]

    def moments(self) -> list[str]:
        """What each state of :meth:`trajectories` is, in words; empty where its number says all."""
        return []

    def _check(self, x: Tensor) -> None:
        check_numbers(x, self, "this network")
        if x.ndim != 2 or x.shape[1] != self.in_features:
            raise ShapeError(
                f"this network takes points of {self.in_features} coordinates, as (batch, coordinates), got "
                f"{tuple(x.shape)}. Create it with other in_features, or change the points."
            )


@dataclass(frozen=True, kw_only=True)
class PointOptions(NetworkOptions):
    num_classes: NumClasses = 2
    in_features: Annotated[Count, "coordinates of a point"] = 2
    width: Width = 8
    layers: Annotated[Count, "number of steps"] = 16
    step_size: StepSize = 0.25
    dynamics: Annotated[Literal["residual", "antisymmetric", "hamiltonian"], "right-hand side"] = "residual"
    damping: Damping = 0.1
    lift: Annotated[Literal["zero", "linear"], "append zeros to a point (zero), or learn an affine map (linear)"] = (
        "zero"
    )


@register_family("point_resnet", PointOptions, papers=("ruthotto2020survey", "haber2017"), recipe="spirals")
def point_resnet(options: PointOptions) -> PointNetwork:
    r"""Residual network for points: features that flow until a hyperplane separates the classes.

    .. math:: u_{j+1} = u_j + h\, \tanh(K_j u_j + b_j), \qquad y = W u_N + \mu

    The network of the survey's example in the plane (Ruthotto 2020), a forward Euler method. Antisymmetric dynamics
    take :math:`K_j - K_j^\top - \gamma I` for :math:`K_j` (Haber and Ruthotto 2017); Hamiltonian ones split the
    features in halves and advance them by Verlet steps.

    Shape: (B, in_features) to (B, num_classes).

    >>> import torch
    >>> import evolvent as ev
    >>> ev.create_model("point_resnet", num_classes=3)(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """
    lift = _lift(options)
    evolution = _evolution(options)
    return PointNetwork(lift, evolution, nn.Linear(options.width, options.num_classes), in_features=options.in_features)


def _lift(options: PointOptions) -> nn.Module:
    width, in_features = options.width, options.in_features
    if options.lift == "linear":
        return nn.Linear(in_features, width)
    if width < in_features:
        raise ConfigError(f"zeros are appended to {in_features} coordinates, so width must reach that, got {width}.")
    return ZeroChannels(width - in_features)


def _evolution(options: PointOptions) -> Evolution:
    width, steps, h = options.width, range(options.layers), options.step_size
    layer: LayerOptions = {"operator": "dense", "norm": None, "bias": True, "activation": "tanh"}
    if options.dynamics == "hamiltonian":
        check_even(width=width)
        return Evolution([Hamiltonian(width // 2, **layer) for _ in steps], Verlet(), step_size=h)
    if options.dynamics == "antisymmetric":
        damping = options.damping
        return Evolution([Antisymmetric(width, damping=damping, **layer) for _ in steps], Euler(), step_size=h)
    return Evolution([Residual(width, convolutions=1, **layer) for _ in steps], Euler(), step_size=h)
