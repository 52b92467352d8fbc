"""Neural ordinary differential equations (Chen et al. 2018), with adaptive and with fixed steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.integrators import RK4, Dopri5, Integrator
from evolvent.networks._options import Count, ImageOptions, InChannels, Width
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear


class TimedConvolutions(Dynamics):
    r"""The right-hand side of ODE-Net: two convolutions that also see the time.

    .. math:: F(t, u) = \mathcal G\, K_2[t, \sigma(\mathcal G\, K_1[t, \sigma(\mathcal G\, u)])]

    :math:`\mathcal G` is group normalisation and :math:`[t, \cdot]` puts a map of the constant :math:`t` in front.

    Args:
        channels: number of channels.
        groups: number of groups of the normalisation; one group where it does not divide the channels.

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int, groups: int = 32) -> None:
        super().__init__()
        self.norms = nn.ModuleList(_group_norm(channels, groups) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(channels + 1, channels, 3, padding=1) for _ in range(2))

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        for norm, conv in zip(self.norms, self.convs, strict=False):
            u = torch.relu(norm(u))
            u = conv(torch.cat((torch.full_like(u[:, :1], t), u), dim=1))
        return self.norms[2](u)


class ZeroChannels(nn.Module):
    """Appends feature maps of zeros, so that trajectories may pass each other (Dupont et al. 2019)."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, u: Tensor) -> Tensor:
        return torch.cat((u, u.new_zeros(len(u), self.count, *u.shape[2:])), dim=1)


@dataclass(frozen=True, kw_only=True)
class OdeOptions(ImageOptions):
    """The options that ODE-Net and RK-Net share."""

    in_channels: InChannels = 1
    width: Width = 64
    augment: Annotated[int, Ge(0), "channels of zeros appended before the ODE"] = 0
    groups: Annotated[Count, "groups of the normalisation; few channels need few groups"] = 32


@dataclass(frozen=True, kw_only=True)
class OdeNetOptions(OdeOptions):
    rtol: Annotated[float, "relative tolerance of the solver"] = 1e-3
    atol: Annotated[float, "absolute tolerance of the solver"] = 1e-3


@register_family("odenet", OdeNetOptions, papers=("chen2018", "dupont2019"), recipe="mnist-families")
def odenet(options: OdeNetOptions) -> ImageNetwork:
    r"""ODE-Net: convolutions that shrink the image, then one ODE solved adaptively over unit time.

    .. math:: u'(t) = F(t, u(t); \theta), \quad t \in [0, 1], \qquad \theta \text{ constant in time}

    The MNIST skeleton of Chen, Rubanova, Bettencourt, Duvenaud 2018, solved by Dormand-Prince. With ``augment`` the
    features get that many channels of zeros first (Dupont, Doucet, Teh 2019). Their continuous adjoint is a gradient
    strategy here, not a part of the network. The number of groups is the paper's; few channels need fewer, because a
    group of one channel loses its mean before the head can read it.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 8.
    """
    return _ode_network(options, Dopri5(options.rtol, options.atol), steps=1)


@dataclass(frozen=True, kw_only=True)
class RkNetOptions(OdeOptions):
    steps: Annotated[Count, "number of steps over unit time"] = 1


@register_family("rknet", RkNetOptions, papers=("chen2018",), recipe="mnist-families")
def rknet(options: RkNetOptions) -> ImageNetwork:
    r"""RK-Net: the skeleton of ODE-Net with classical Runge-Kutta steps of fixed size.

    .. math:: u_{j+1} = u_j + \tfrac h6 (k_1 + 2 k_2 + 2 k_3 + k_4), \qquad h = 1 / steps

    Chen et al. 2018; gradients go straight through the steps.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 8.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("rknet").parameters())
    208266
    """
    return _ode_network(options, RK4(), options.steps)


def _ode_network(options: OdeOptions, method: Integrator, steps: int) -> ImageNetwork:
    width, groups, total = options.width, options.groups, options.width + options.augment
    shrinking = [nn.Conv2d(options.in_channels, width, 3)]
    for _ in range(2):
        shrinking += [_group_norm(width, groups), nn.ReLU(), nn.Conv2d(width, width, 4, stride=2, padding=1)]
    stem = nn.Sequential(*shrinking, *([ZeroChannels(options.augment)] if options.augment else []))
    flow = Evolution(TimedConvolutions(total, groups), method, steps=steps, step_size=1 / steps)
    head = PooledLinear(total, options.num_classes, dropout=options.dropout)
    return ImageNetwork(stem, [flow, _group_norm(total, groups), nn.ReLU()], head, in_channels=options.in_channels)


def _group_norm(channels: int, groups: int) -> nn.GroupNorm:
    return nn.GroupNorm(groups if channels % groups == 0 else 1, channels)
