"""Neural ordinary differential equations (Chen et al. 2018): adaptive steps, fixed steps, and residual blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge
from torch import Tensor, nn

from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.integrators import RK4, Dopri5, Euler, Integrator
from evolvent.networks._digit_skeleton import DigitOptions, digit_network, digit_stem, group_norm
from evolvent.networks._options import Count
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, plain_conv


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
        self.norms = nn.ModuleList(group_norm(channels, groups) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(channels + 1, channels, 3, padding=1) for _ in range(2))

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        for norm, conv in zip(self.norms, self.convs, strict=False):
            u = torch.relu(norm(u))
            u = conv(torch.cat((torch.full_like(u[:, :1], t), u), dim=1))
        return self.norms[2](u)


class GroupResidual(Dynamics):
    r"""A residual block with group normalisation.

    .. math:: F(u) = K_2\, \sigma(\mathcal G\, K_1\, \sigma(\mathcal G\, u))

    Shape: (B, channels, H, W) to the same.
    """

    def __init__(self, channels: int, groups: int = 32) -> None:
        super().__init__()
        self.norm1, self.norm2 = (group_norm(channels, groups) for _ in range(2))
        self.conv1, self.conv2 = (plain_conv(channels, channels) for _ in range(2))

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        return self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(u))))))


class ZeroChannels(nn.Module):
    """Appends feature maps of zeros, so that trajectories may pass each other (Dupont et al. 2019)."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, u: Tensor) -> Tensor:
        return torch.cat((u, u.new_zeros(u.shape[0], self.count, *u.shape[2:])), dim=1)


@dataclass(frozen=True, kw_only=True)
class OdeOptions(DigitOptions):
    """The options that ODE-Net and RK-Net share."""

    augment: Annotated[int, Ge(0), "channels of zeros appended before the ODE"] = 0


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


@dataclass(frozen=True, kw_only=True)
class ResNetDigitOptions(DigitOptions):
    blocks: Annotated[Count, "residual blocks after the stem"] = 6


@register_family("resnet_mnist", ResNetDigitOptions, papers=("chen2018", "he2016identity"), recipe="prnet-table2-cpu")
def resnet_mnist(options: ResNetDigitOptions) -> ImageNetwork:
    r"""ResNet in the frame of ODE-Net: six residual blocks with weights of their own in place of the ODE.

    .. math:: u_{j+1} = u_j + K_{j2}\, \sigma(\mathcal G\, K_{j1}\, \sigma(\mathcal G\, u_j))

    The baseline of Chen et al. 2018 and of PR-Net, Table 2 (0.60M parameters). With ``downsampling="residual"`` it has
    601,482.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 8.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("resnet_mnist").parameters())
    576778
    """
    blocks = [GroupResidual(options.width, options.groups) for _ in range(options.blocks)]
    return digit_network(options, digit_stem(options), [Evolution(blocks, Euler(), step_size=1.0)], options.width)


def _ode_network(options: OdeOptions, method: Integrator, steps: int) -> ImageNetwork:
    total, stem = options.width + options.augment, digit_stem(options)
    if options.augment:
        stem.append(ZeroChannels(options.augment))
    flow = Evolution(TimedConvolutions(total, options.groups), method, steps=steps, step_size=1 / steps)
    return digit_network(options, stem, [flow], total)
