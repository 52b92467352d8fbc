r"""A residual network that is written down, not trained, and separates two classes: Theorem 1 of Wang et al. 2024."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, DataError, ShapeError
from evolvent._core.state import State
from evolvent.analysis.separation import ParallelHyperplanes, parallel_hyperplanes
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution
from evolvent.integrators import Euler


class Shear(Dynamics):
    r"""Points move along :math:`\beta` by a function of their place along :math:`n \perp \beta`, which stays.

    .. math:: F(u) = \sum_{i=1}^w \lambda_i \max(n \cdot u - b_i, 0)\, \beta

    Eq. (5) of the paper with :math:`w_i = n` and :math:`a_i = \lambda_i \beta`, as in its appendix B.

    Args:
        normal, push: :math:`n` and :math:`\beta`, shared by all layers.
        knots, slopes: :math:`b_i` and :math:`\lambda_i`.
    """

    def __init__(self, normal: nn.Parameter, push: nn.Parameter, knots: Tensor, slopes: Tensor) -> None:
        super().__init__()
        self.normal, self.push = normal, push
        self.knots, self.slopes = nn.Parameter(knots), nn.Parameter(slopes)

    def forward(self, t: float, u: State) -> Tensor:
        assert isinstance(u, Tensor)
        along = torch.relu((u @ self.normal)[:, None] - self.knots) @ self.slopes
        return along[:, None] * self.push


class SeparatingNetwork(nn.Module):
    r"""A flow of points, and the hyperplane :math:`\beta \cdot u = c` that separates two classes at its end.

    Shape: (N, d) to (N,), positive for the second class.
    """

    def __init__(self, evolution: Evolution, push: nn.Parameter, offset: Tensor) -> None:
        super().__init__()
        self.evolution = evolution
        self.push, self.offset = push, nn.Parameter(offset)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_features(x) @ self.push - self.offset

    def forward_features(self, x: Tensor) -> Tensor:
        """The points at the end of the flow, (N, d)."""
        return self.evolution(x)


def separating_network(x: Tensor, subclasses: Tensor, labels: Tensor, width: int = 1) -> SeparatingNetwork:
    r"""Write down a residual network that makes two classes linearly separable.

    Theorem 1: if parallel hyperplanes separate the :math:`M` subclasses, :math:`2M + O(d)` parameters and :math:`\lceil
    M / w \rceil` layers of width :math:`w` do. All points move by :math:`g(n \cdot u)\, \beta` with :math:`\beta \perp
    n`, where :math:`g` is piecewise linear with one knot for each subclass. The paper matches :math:`g` at one place of
    each subclass, which is enough for subclasses that are points; here knots lie at the upper ends of the subclasses,
    and :math:`g` is at most 0 on all of one class and at least 1 on all of the other, scaled beyond the classes' extent
    along :math:`\beta`. There are :math:`2M + 2d + 1` parameters.

    Args:
        x: points, of two coordinates or more.
        subclasses: which each belongs to.
        labels: the class of each, one of two; that of all points of a subclass is the same.
        width: units :math:`w` of a layer; the last may have fewer.

    Shape: (N, d), int64 (N,) and int64 (N,).

    Raises:
        DataError: if no parallel hyperplanes were found; diffusion brings subclasses to where there are some.

    >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.2], [2.0, 0.0], [3.0, 0.2]])
    >>> network = separating_network(x, torch.arange(4), torch.tensor([0, 1, 0, 1]), width=2)
    >>> (network(x) > 0).tolist(), sum(p.numel() for p in network.parameters())
    ([False, True, False, True], 13)
    """
    check_whole(1, width=width)
    planes, classes = _planes(x, subclasses), labels.unique().tolist()
    if len(classes) != 2 or labels.shape != subclasses.shape:
        raise ConfigError(
            f"the construction is for two classes and a label for each point, got {len(classes)} classes."
        )
    second = labels == classes[1]
    knots, slopes = _profile(planes, x, subclasses, second)
    push = _orthogonal(planes.normal)
    across = x @ push
    below, above = across[~second].max(), across[second].min()
    reach = across.max() - across.min()
    scale = below - above + torch.where(reach > 0, reach, 1)  # so that classes end as far apart as they are wide
    normal, direction, count = nn.Parameter(planes.normal), nn.Parameter(push), -(-len(knots) // width)
    layers = [
        Shear(normal, direction, b, count * scale * s)
        for b, s in zip(knots.split(width), slopes.split(width), strict=True)
    ]
    return SeparatingNetwork(Evolution(layers, Euler(), step_size=1 / count), direction, (below + above + scale) / 2)


def _planes(x: Tensor, subclasses: Tensor) -> ParallelHyperplanes:
    if x.ndim != 2 or x.shape[1] < 2:
        raise ShapeError(
            f"points need two coordinates at least, to move along one and keep another, got {tuple(x.shape)}."
        )
    found = parallel_hyperplanes(x, subclasses)
    if found is None:
        raise DataError(
            "no parallel hyperplanes that separate all subclasses were found. Let the points diffuse on their graph "
            "first (evolvent.operators.GraphDiffusion), which brings each subclass together."
        )
    return found


def _profile(planes: ParallelHyperplanes, x: Tensor, subclasses: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    r"""Knots and changes of slope of :math:`g`: at most 0 on the first class, at least 1 on the second."""
    along = x.double() @ planes.normal.double()
    high, level, slope = 2 * along.min().item() - along.max().item() - 1, 0.0, 0.0
    knots, changes = [], []
    for label in planes.order:
        here = subclasses == label
        if not bool((second[here] == second[here][0]).all()):
            raise DataError(f"the points of subclass {label} have different labels; divide it.")
        low, goal = along[here].min().item(), float(second[here][0])
        fine = level >= 1 if goal else level <= 0
        wanted = 0.0 if fine else (goal - level) / (low - high)
        knots.append(high)
        changes.append(wanted - slope)
        level, slope, high = level + wanted * (along[here].max().item() - high), wanted, along[here].max().item()
    return torch.tensor(knots, dtype=torch.float64).to(x), torch.tensor(changes, dtype=torch.float64).to(x)


def _orthogonal(normal: Tensor) -> Tensor:
    """A unit vector orthogonal to another."""
    axis = torch.zeros_like(normal)
    axis[normal.abs().argmin()] = 1
    rest = axis - (axis @ normal) * normal
    return rest / rest.norm()
