"""Residual networks for points of the plane, after the survey's first example (Ruthotto 2020)."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor, nn

from evolvent._core.errors import ConfigError, ShapeError
from evolvent._core.state import parts
from evolvent.dynamics import Antisymmetric, Hamiltonian, Residual
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Verlet
from evolvent.networks._registry import ModelSpec, register_family
from evolvent.networks._skeleton import check_positive
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

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.in_features:
            raise ShapeError(
                f"this network takes points of {self.in_features} coordinates, as (batch, coordinates), got "
                f"{tuple(x.shape)}. Create it with other in_features, or change the points."
            )


@register_family("point_resnet", papers=("ruthotto2020survey", "haber2017"), recipe="spirals")
def point_resnet(
    num_classes: int = 2,
    in_features: int = 2,
    *,
    width: int = 8,
    layers: int = 16,
    step_size: float = 0.25,
    dynamics: Literal["residual", "antisymmetric", "hamiltonian"] = "residual",
    damping: float = 0.1,
    lift: Literal["zero", "linear"] = "zero",
) -> PointNetwork:
    r"""Residual network for points: features that flow until a hyperplane separates the classes.

    .. math:: u_{j+1} = u_j + h\, \tanh(K_j u_j + b_j), \qquad y = W u_N + \mu

    The network of the survey's example in the plane (Ruthotto 2020), a forward Euler method. Antisymmetric dynamics
    take :math:`K_j - K_j^\top - \gamma I` for :math:`K_j` (Haber and Ruthotto 2017); Hamiltonian ones split the
    features in halves and advance them by Verlet steps.

    Args:
        num_classes: number of classes.
        in_features: coordinates of a point.
        width: number of features.
        layers: number of steps.
        step_size: :math:`h`.
        dynamics: the right-hand side: ``"residual"``, ``"antisymmetric"`` or ``"hamiltonian"``.
        damping: :math:`\gamma` of antisymmetric dynamics.
        lift: ``"zero"`` appends zeros to a point, ``"linear"`` learns an affine map.

    Shape: (B, in_features) to (B, num_classes).

    >>> import torch
    >>> point_resnet(num_classes=3)(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """
    check_positive(num_classes=num_classes, in_features=in_features, width=width, layers=layers)
    first = _lift(lift, in_features, width)
    evolution = _evolution(dynamics, width, layers, step_size, damping)
    return PointNetwork(first, evolution, nn.Linear(width, num_classes), in_features=in_features)


def _lift(kind: str, in_features: int, width: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(in_features, width)
    if width < in_features:
        raise ConfigError(f"zeros are appended to {in_features} coordinates, so width must reach that, got {width}.")
    return ZeroChannels(width - in_features)


def _evolution(kind: str, width: int, layers: int, step_size: float, damping: float) -> Evolution:
    shared: dict[str, Any] = {"operator": "dense", "norm": None, "bias": True}
    if kind == "hamiltonian":
        if width % 2:
            raise ConfigError(f"hamiltonian dynamics split the features in halves, so width must be even, got {width}.")
        halves = [Hamiltonian(width // 2, activation="tanh", **shared) for _ in range(layers)]
        return Evolution(halves, Verlet(), step_size=step_size)
    if kind == "antisymmetric":
        turning = [Antisymmetric(width, damping=damping, activation="tanh", **shared) for _ in range(layers)]
        return Evolution(turning, Euler(), step_size=step_size)
    plain = [Residual(width, convolutions=1, activation="tanh", **shared) for _ in range(layers)]
    return Evolution(plain, Euler(), step_size=step_size)
