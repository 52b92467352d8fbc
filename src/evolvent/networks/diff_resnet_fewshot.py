"""Diff-ResNet for few-shot tasks: a residual block, then diffusion between all points of an episode."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

import torch
from annotated_types import Ge
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, ShapeError
from evolvent.graphs import dense_affinity, laplacian, normalise
from evolvent.networks._options import Count, NetworkOptions, NumClasses
from evolvent.networks._registry import ModelSpec, register_family, register_member
from evolvent.operators.graph_diffusion import UnstableDiffusionWarning

Reading: TypeAlias = Literal["paper", "code"]


@dataclass(frozen=True, kw_only=True)
class FewShotOptions(NetworkOptions):
    num_classes: NumClasses = 5
    in_features: Annotated[Count, "features of a point"] = 512
    gamma: Annotated[float, Ge(0), "strength of one diffusion step"] = 0.5
    diffusion_steps: Annotated[int, Ge(0), "diffusion steps; 0 for none"] = 10
    n_top: Annotated[int, Ge(2), "weights kept in each row of the graph"] = 8
    sigma_neighbour: Annotated[Count, "sigma of a point is the distance of the neighbour of this number"] = 4
    reading: Annotated[
        Reading, "whether a point counts among its own n_top and sigma_neighbour as in the paper or as in its code"
    ] = "paper"
    allow_unstable: Annotated[bool, "run diffusion steps that are too large for a graph, with a warning"] = False


class FewShotNetwork(nn.Module):
    r"""A residual block, diffusion on the graph of an episode's own points, and an affine map.

    .. math:: u = x + W_2\, \sigma(W_1 x + b_1) + b_2, \qquad y = C\,(I - \gamma L)^r u + c

    Wang et al., appendix E.3.2. :math:`L` is the Laplacian of the symmetrically normalised Gaussian weights between
    the points of an episode, made of the points as they come in.

    Shape: (T, N, in_features) to (T, N, num_classes), for T episodes of N points; (N, in_features) for one.
    """

    spec: ModelSpec

    def __init__(self, options: FewShotOptions) -> None:
        super().__init__()
        self.options = options
        width = options.in_features
        self.fc1 = nn.Linear(width, width)
        self.fc2 = nn.Linear(width, width)
        self.classifier = nn.Linear(width, options.num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.forward_features(x))

    def forward_features(self, x: Tensor) -> Tensor:
        """The features after diffusion, which the last affine map reads."""
        u = self.convect(x)
        if not self.diffuses:
            return u
        step = self.options.gamma * self.laplacian(x)
        for _ in range(self.options.diffusion_steps):
            u = u - step @ u
        return u

    def convect(self, x: Tensor) -> Tensor:
        """The residual block alone: features before diffusion."""
        self._check(x)
        return x + self.fc2(torch.relu(self.fc1(x)))

    @property
    def diffuses(self) -> bool:
        """Whether points of an episode influence each other."""
        return self.options.diffusion_steps > 0 and self.options.gamma > 0

    def weights(self, x: Tensor) -> Tensor:
        """Symmetric weights between the points of each episode, without gradients.

        Shape: (..., N, in_features) to (..., N, N).
        """
        options = self.options
        self_counts = 1 if options.reading == "code" else 0  # the code takes distances below the n_top-th of all
        n_top, neighbour = options.n_top - self_counts, options.sigma_neighbour - self_counts
        if n_top < 2 or neighbour < 1:
            raise ConfigError(
                f"as the code reads them, n_top must be at least 3 and sigma_neighbour at least 2, got {options.n_top} "
                f"and {options.sigma_neighbour}."
            )
        return normalise(dense_affinity(x.detach(), n_top, sigma_neighbour=neighbour), "symmetric")

    def laplacian(self, x: Tensor) -> Tensor:
        """The Laplacian of :meth:`weights`; steps that are too large for it are refused."""
        L = laplacian(self.weights(x))
        if not torch.compiler.is_compiling():
            self._check_stable(L)
        return L

    def propagator(self, x: Tensor) -> Tensor:
        r""":math:`(I - \gamma L)^r`, all diffusion steps in one matrix.

        Shape: (..., N, in_features) to (..., N, N).
        """
        identity = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device)
        if not self.diffuses:
            return identity.expand(*x.shape[:-2], -1, -1)
        step = identity - self.options.gamma * self.laplacian(x)
        return torch.linalg.matrix_power(step, self.options.diffusion_steps)

    def _check_stable(self, L: Tensor) -> None:
        r""":math:`\gamma \lambda_{max} \le 2`; eigenvalues are computed only if Gershgorin's bound does not tell."""
        gamma = self.options.gamma
        bound = 2 * L.diagonal(dim1=-2, dim2=-1).amax(-1)
        doubtful = gamma * bound > 2
        if not doubtful.any():
            return
        largest = torch.linalg.eigvalsh(L[doubtful] if L.ndim > 2 else L)[..., -1].max().item()
        if gamma * largest <= 2 * (1 + 1e-5):
            return
        if self.options.allow_unstable:
            warnings.warn(
                f"gamma {gamma:g} is too large for explicit diffusion on the graphs of some episodes, in which some "
                "differences between points may grow.",
                UnstableDiffusionWarning,
                stacklevel=2,
            )
            return
        strength = gamma * self.options.diffusion_steps
        enough = math.ceil(1.01 * strength * largest / 2)  # so that the step is stable as it is printed
        raise ConfigError(
            f"gamma {gamma:g} is too large for explicit diffusion on the graph of an episode, whose largest eigenvalue "
            f"is {largest:.3f}; gamma up to {2 / largest:.3f} is stable. For the same strength take {enough} "
            f"diffusion_steps with gamma {strength / enough:.3g}, or set allow_unstable."
        )

    def _check(self, x: Tensor) -> None:
        if x.ndim not in (2, 3) or x.shape[-1] != self.options.in_features:
            raise ShapeError(
                f"this network takes points of {self.options.in_features} features, as (episodes, points, features), "
                f"got {tuple(x.shape)}. Create it with other in_features, or change the points."
            )


@register_family("diff_resnet_fewshot", FewShotOptions, papers=("wang2024",), recipe="diffresnet-table2-cpu")
def diff_resnet_fewshot(options: FewShotOptions) -> FewShotNetwork:
    r"""Diff-ResNet for few-shot tasks: points of an episode move by themselves, then towards their neighbours.

    .. math:: u = x + W_2\, \sigma(W_1 x + b_1) + b_2, \qquad y = C\,(I - \gamma L)^r u + c

    Wang, Dou, Bao, Shi, section 5.3 and appendix E.3. The paper keeps the ``n_top`` largest weights of a
    row, that of the point itself included, and :math:`\sigma` is the distance of the neighbour of number
    ``sigma_neighbour``. Its code keeps distances below the ``n_top``-th smallest and counts the point itself for
    :math:`\sigma` too, so that (8, 4) are six neighbours and the third one there; ``reading: code`` is that.

    Shape: (T, N, in_features) to (T, N, num_classes), for T episodes of N points; (N, in_features) for one.

    >>> import evolvent as ev
    >>> network = ev.create_model("diff_resnet_fewshot", in_features=16)
    >>> network(torch.randn(3, 20, 16)).shape
    torch.Size([3, 20, 5])
    """
    return FewShotNetwork(options)


register_member("resnet_fewshot", "diff_resnet_fewshot", diffusion_steps=0)
