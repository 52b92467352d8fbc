"""Neural ordinary differential equations (Chen et al. 2018) and their fixed-step kin."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent._core.state import State
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.integrators import RK4, Dopri5, Integrator
from evolvent.networks._registry import register_family
from evolvent.networks._skeleton import ImageNetwork, PooledLinear, check_positive


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


@register_family("odenet", papers=("chen2018", "dupont2019"), recipe="mnist-families")
def odenet(
    num_classes: int = 10,
    in_channels: int = 1,
    *,
    width: int = 64,
    augment: int = 0,
    groups: int = 32,
    rtol: float = 1e-3,
    atol: float = 1e-3,
    dropout: float = 0.0,
) -> ImageNetwork:
    r"""ODE-Net: convolutions that shrink the image, then one ODE solved adaptively over unit time.

    .. math:: u'(t) = F(t, u(t); \theta), \quad t \in [0, 1], \qquad \theta \text{ constant in time}

    The MNIST skeleton of Chen, Rubanova, Bettencourt, Duvenaud 2018, solved by Dormand-Prince. With ``augment`` the
    features get that many channels of zeros first (Dupont, Doucet, Teh 2019). Their continuous adjoint is a gradient
    strategy here, not a part of the network.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        width: feature maps.
        augment: channels of zeros appended before the ODE.
        groups: groups of the normalisation, as many as in the paper. Few channels want few groups: a group of one
            channel takes its mean away before the head can read it.
        rtol, atol: tolerances of the solver.
        dropout: share of pooled features dropped in training.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 8.
    """
    return _skeleton(num_classes, in_channels, width, augment, groups, dropout, Dopri5(rtol, atol), 1)


@register_family("rknet", papers=("chen2018",), recipe="mnist-families")
def rknet(
    num_classes: int = 10,
    in_channels: int = 1,
    *,
    width: int = 64,
    augment: int = 0,
    groups: int = 32,
    steps: int = 1,
    dropout: float = 0.0,
) -> ImageNetwork:
    r"""RK-Net: the skeleton of ODE-Net with classical Runge-Kutta steps of fixed size.

    .. math:: u_{j+1} = u_j + \tfrac h6 (k_1 + 2 k_2 + 2 k_3 + k_4), \qquad h = 1 / steps

    Chen et al. 2018; gradients go straight through the steps.

    Args:
        num_classes: number of classes.
        in_channels: channels of an image.
        width: feature maps.
        augment: channels of zeros appended before the ODE.
        groups: groups of the normalisation, as many as in the paper. Few channels want few groups: a group of one
            channel takes its mean away before the head can read it.
        steps: number of steps over unit time.
        dropout: share of pooled features dropped in training.

    Shape: (B, in_channels, H, W) to (B, num_classes), H and W at least 8.

    >>> sum(p.numel() for p in rknet().parameters())
    208266
    """
    check_positive(steps=steps)
    return _skeleton(num_classes, in_channels, width, augment, groups, dropout, RK4(), steps)


def _skeleton(
    num_classes: int,
    in_channels: int,
    width: int,
    augment: int,
    groups: int,
    dropout: float,
    method: Integrator,
    steps: int,
) -> ImageNetwork:
    check_positive(num_classes=num_classes, in_channels=in_channels, width=width, groups=groups)
    if augment < 0:
        raise ConfigError(f"augment is a number of channels to append, at least 0, got {augment}.")
    total = width + augment
    shrinking = [nn.Conv2d(in_channels, width, 3)]
    for _ in range(2):
        shrinking += [_group_norm(width, groups), nn.ReLU(), nn.Conv2d(width, width, 4, stride=2, padding=1)]
    stem = nn.Sequential(*shrinking, *([ZeroChannels(augment)] if augment else []))
    flow = Evolution(TimedConvolutions(total, groups), method, steps=steps, step_size=1 / steps)
    head = PooledLinear(total, num_classes, dropout=dropout)
    return ImageNetwork(stem, [flow, _group_norm(total, groups), nn.ReLU()], head, in_channels=in_channels)


def _group_norm(channels: int, groups: int) -> nn.GroupNorm:
    return nn.GroupNorm(groups if channels % groups == 0 else 1, channels)
