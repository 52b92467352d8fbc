"""The network family ``trained_diffusion``: images that diffuse, in a way that is learned."""

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor, nn

import evolvent as ev
from evolvent.dynamics import Dynamics
from evolvent.integrators import Euler
from evolvent.networks.building import (
    PAPERS,
    Count,
    ImageNetwork,
    InChannels,
    NetworkOptions,
    Operator,
    Paper,
    StepSize,
    register_family,
)
from evolvent.operators import LinearOperator, make_operator

PAPERS.add(
    "chen2017",
    Paper(
        "chen2017",
        "article",
        "Trainable Nonlinear Reaction Diffusion: A Flexible Framework for Fast and Effective Image Restoration",
        ("Chen, Yunjin", "Pock, Thomas"),
        ("journal", "IEEE Transactions on Pattern Analysis and Machine Intelligence"),
        2017,
    ),
)


class NonlinearDiffusion(Dynamics):
    r"""Nonlinear diffusion of an image, :math:`u' = -K^\top \tanh(K u)`.

    It descends the convex energy :math:`\sum \log\cosh(K u)`, so that two solutions never move apart.

    Args:
        operator: :math:`K`, from the channels of the image to those of the features.

    Shape: (B, C, H, W) to the same.
    """

    def __init__(self, operator: LinearOperator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, t: float, u: Tensor) -> Tensor:
        return -self.operator.adjoint(self.operator(u).tanh())


@dataclass(frozen=True, kw_only=True)
class TrainedDiffusionOptions(NetworkOptions):
    in_channels: InChannels = 3
    features: Annotated[Count, "channels of K u"] = 8
    steps: Annotated[Count, "Euler steps, each with a K of its own"] = 6
    step_size: StepSize = 0.03
    operator: Operator = "periodic"


@register_family("trained_diffusion", TrainedDiffusionOptions, papers=("chen2017",), recipe="denoise-ripples")
def trained_diffusion(options: TrainedDiffusionOptions) -> ImageNetwork:
    """Trained diffusion: an image that is smoothed by Euler steps of nonlinear diffusion."""
    operators = [make_operator(options.operator, options.in_channels, options.features) for _ in range(options.steps)]
    flow = ev.Evolution([NonlinearDiffusion(k) for k in operators], Euler(), step_size=options.step_size)
    return ImageNetwork(nn.Identity(), [flow], nn.Identity(), in_channels=options.in_channels)
