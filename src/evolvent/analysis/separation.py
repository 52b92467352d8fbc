r"""How far apart subclasses lie against how large they are, along a diffusion, and what follows for separating them.

Section 4 and appendices A, C and D of Wang, Dou, Bao, Shi 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_not_negative, check_whole
from evolvent._core.errors import ConfigError, ShapeError
from evolvent.graphs import SparseMatrix, check_points, connected_components, laplacian, subgraph

_DENSE = 4096  # nodes whose eigenvalues are computed densely
_DIRECTIONS = 4096  # tried for separating hyperplanes


@dataclass(frozen=True)
class Separation:
    r"""The least distance :math:`L` between subclasses and the largest diameter :math:`D` of one, both squared.

    .. math:: L = \min_{A \ne B} \min_{x \in A, y \in B} \|x - y\|^2, \qquad D = \max_A \max_{x, y \in A} \|x - y\|^2

    Section 4.1 of the paper defines both with squares. Its Theorem 2 and the figures that it gives for XOR
    (:math:`D = 1.5`, :math:`L = 0.5`) are lengths, and so is :attr:`length_ratio`.

    >>> Separation(distance=4.0, diameter=1.0).length_ratio
    2.0
    """

    distance: float
    diameter: float

    @property
    def ratio(self) -> float:
        """:math:`L / D`; infinite where every subclass is a point."""
        return self.distance / self.diameter if self.diameter > 0 else math.inf

    @property
    def length_ratio(self) -> float:
        r""":math:`\sqrt{L / D}`."""
        return math.sqrt(self.ratio)


def separation(x: Tensor, subclasses: Tensor) -> Separation:
    """The least distance between subclasses, and the largest diameter of one.

    Args:
        x: points.
        subclasses: which each belongs to.

    Shape: (N, d) and int64 (N,).

    >>> separation(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1]))
    Separation(distance=4.0, diameter=1.0)
    """
    _check(x, subclasses)
    parts = [x[subclasses == label].double() for label in subclasses.unique()]
    between = [_squares(a, b).min().item() for k, a in enumerate(parts) for b in parts[k + 1 :]]
    return Separation(min(between, default=math.inf), max(_squares(a, a).max().item() for a in parts))


def _squares(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square()


def separation_bound(subclasses: int, dimensions: int) -> float:
    r"""The ratio of lengths :math:`L / D` from which :math:`M - 1` parallel hyperplanes separate :math:`M` subclasses.

    .. math:: \frac LD \ge \frac{M (M - 1) \sqrt\pi}{4}\, d

    Theorem 2. It is sufficient, and far from necessary.

    >>> round(separation_bound(4, 2), 2)
    10.63
    """
    check_whole(1, subclasses=subclasses, dimensions=dimensions)
    return subclasses * (subclasses - 1) * math.sqrt(math.pi) / 4 * dimensions


@dataclass(frozen=True)
class ParallelHyperplanes:
    r"""Hyperplanes :math:`n \cdot x = c_m` with one subclass between each two neighbours.

    Attributes:
        normal: :math:`n`, of length one.
        offsets: :math:`c_1 < c_2 < \dots`, one less than there are subclasses, in the middle of the gaps.
        order: the subclasses from below to above.
        margin: half the narrowest gap.
    """

    normal: Tensor
    offsets: list[float]
    order: list[int]
    margin: float

    def between(self, x: Tensor) -> Tensor:
        """The subclass whose slab each point lies in, int64 (N,)."""
        place = torch.searchsorted(torch.tensor(self.offsets, dtype=torch.float64), (x.double() @ self.normal.double()))
        return torch.tensor(self.order)[place]


def parallel_hyperplanes(x: Tensor, subclasses: Tensor, directions: int = _DIRECTIONS) -> ParallelHyperplanes | None:
    """Parallel hyperplanes that separate all subclasses with the widest gap over many directions; None if none do.

    In the plane directions are evenly spaced; in more dimensions they are drawn, from a fixed seed. Where the
    condition of :func:`separation_bound` holds, many directions separate.

    Args:
        x: points.
        subclasses: which each belongs to.
        directions: how many are tried.

    Shape: (N, d) and int64 (N,).
    """
    _check(x, subclasses)
    labels = subclasses.unique()
    normals = _directions(x.shape[1], directions).to(x.device)
    seen = x.double() @ normals.T  # (N, directions)
    low = torch.stack([seen[subclasses == label].amin(0) for label in labels])
    high = torch.stack([seen[subclasses == label].amax(0) for label in labels])
    order = low.argsort(dim=0)
    gaps = low.gather(0, order)[1:] - high.gather(0, order)[:-1]  # negative where slabs overlap
    narrowest = gaps.amin(0) if len(gaps) else torch.full_like(seen[0], math.inf)
    best = int(narrowest.argmax())
    if narrowest[best] <= 0:
        return None
    ranks = order[:, best]
    middles = (low[ranks[1:], best] + high[ranks[:-1], best]) / 2
    return ParallelHyperplanes(
        normals[best].to(x.dtype), middles.tolist(), labels[ranks].tolist(), narrowest[best].item() / 2
    )


def _directions(dimensions: int, count: int) -> Tensor:
    """Unit vectors (count, dimensions); opposite ones are the same."""
    if dimensions == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    if dimensions == 2:
        angles = torch.arange(count, dtype=torch.float64) * math.pi / count
        return torch.stack([angles.cos(), angles.sin()], dim=1)
    drawn = torch.randn(count, dimensions, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return drawn / drawn.norm(dim=1, keepdim=True)


def predicted_rate(weights: SparseMatrix, gamma: float = 1.0, *, steps: bool = True) -> float:
    r"""How fast diffusion shrinks the squared diameter of the slowest component: :math:`D(t) \sim e^{-\rho t}`.

    .. math:: \rho = -2 \max_{\lambda \ne 0} \ln |1 - \gamma \lambda| \;\text{ (steps)}, \qquad
              \rho = 2 \gamma \min_{\lambda \ne 0} \operatorname{Re} \lambda \;\text{ (continuous time)}

    over the eigenvalues of the Laplacians of all components, each without one zero: the spectral gap of appendix D. As
    the centres come to rest, :math:`L / D` grows at the same rate. It is zero for a directed graph some component of
    which does not come together, since several sets of nodes have no edge out of them.

    Args:
        weights: :math:`W`, normalised.
        gamma: strength :math:`\gamma` of a step.
        steps: for explicit steps :math:`u - \gamma L u`, :math:`t` counting them; else for :math:`u' = -\gamma L u`.
    """
    check_not_negative(gamma=gamma)
    found, component = [math.inf], connected_components(weights)
    for number in range(int(component.max()) + 1):
        nodes = (component == number).nonzero().flatten()
        if len(nodes) > _DENSE:
            raise ConfigError(
                f"eigenvalues of components of up to {_DENSE} nodes are computed, got {len(nodes)} nodes."
            )
        if len(nodes) > 1:
            values = np.linalg.eigvals(laplacian(subgraph(weights, nodes)).dense().double().cpu().numpy())
            rest = np.delete(values, np.abs(values).argmin())
            with np.errstate(divide="ignore"):
                rates = -np.log(np.abs(1 - gamma * rest)) if steps else gamma * rest.real
            found.append(2 * max(0.0, float(rates.min())))
    return min(found)


def measured_rate(diameters: Sequence[float]) -> float:
    r"""The rate :math:`\rho` of :math:`D_k \sim e^{-\rho k}`, fitted to the second half of what is above rounding.

    >>> round(measured_rate([math.exp(-0.5 * k) for k in range(20)]), 6)
    0.5
    """
    usable = [d for d in diameters if d > 1e-22 * diameters[0]]  # squares, of points in float64
    late = range(len(usable) // 2, len(usable))
    if len(late) < 2:
        raise ConfigError(f"a rate needs at least four diameters above rounding, got {len(usable)}.")
    return -float(np.polyfit(late, np.log(usable[len(usable) // 2 :]), 1)[0])


@dataclass(frozen=True)
class StepNorms:
    r"""Norms of an explicit step :math:`I - \gamma L`: it contracts where the norm is at most one."""

    euclidean: float
    maximum: float


def step_norms(weights: SparseMatrix, gamma: float) -> StepNorms:
    r"""How much an explicit step can enlarge features.

    For symmetric weights both norms are one if :math:`\gamma \le 1 / \max_i d_i` with the sums of rows :math:`d_i`
    (Proposition 2, which the paper states for equal :math:`d_i`). For directed ones that holds for the maximum norm.

    Args:
        weights: :math:`W`, up to some thousand nodes.
        gamma: strength of the step.
    """
    check_not_negative(gamma=gamma)
    L = laplacian(weights).dense().double()
    step = torch.eye(len(L), dtype=L.dtype, device=L.device) - gamma * L
    return StepNorms(torch.linalg.matrix_norm(step, 2).item(), step.abs().sum(dim=1).max().item())


def _check(x: Tensor, subclasses: Tensor) -> None:
    check_points(x)
    if len(x) == 0 or subclasses.shape != (len(x),):
        raise ShapeError(f"{len(x)} points need as many subclasses, and one at least, got {tuple(subclasses.shape)}.")
