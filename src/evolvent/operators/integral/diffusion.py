"""Nonlocal diffusion between pixel strips."""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor

from evolvent._core.checks import check_choice
from evolvent.groups import Field
from evolvent.operators.integral.affinity import Affinity, DotProduct, Gaussian, Pairs, safe_divide, vanishes
from evolvent.operators.integral.operator import Embedding, NonlocalOperator, Normaliser
from evolvent.operators.integral.strips import centre

AffinityName: TypeAlias = Literal["dot", "gaussian"]

_AFFINITIES: dict[str, type[Affinity]] = {"dot": DotProduct, "gaussian": Gaussian}


class NonlocalDiffusion(NonlocalOperator):
    r"""Every pixel strip moves towards, or away from, all others by their affinity.

    .. math::
        (\mathcal L v)_i = \frac{1}{\mathcal N_i} \sum_j \omega(\theta(X_i), \phi(X_j))\, (v_j - v_i), \qquad
        \omega(x, y) = \lambda\, x^\top y \;\text{ or }\; e^{\lambda x^\top y}

    Eq. 3.1 and 4.1 of Bohn, Griebel, Kannan 2021. For symmetric, non-negative kernels (``"gaussian"`` with embedding
    ``"shared"`` or ``"none"``, all strips, normaliser ``"count"``) :math:`-\mathcal L` is positive semidefinite and the
    flow :math:`u' = \mathcal L u` lets energy and variance decay. The dot product may be negative.

    Args:
        channels: number of feature maps, or the fields that they are.
        affinity: ``"dot"`` or ``"gaussian"``.
        scale: :math:`\lambda > 0`.
        embedding, normaliser, subsample: see :class:`~evolvent.operators.NonlocalOperator`.

    Shape: (B, channels, H, W) to the same.

    >>> import torch
    >>> L = NonlocalDiffusion(4, "gaussian")
    >>> L(torch.ones(1, 4, 3, 3)).abs().max().item()  # constants do not diffuse
    0.0
    """

    damping_sign = 1

    def __init__(
        self,
        channels: int | Field,
        affinity: AffinityName = "dot",
        *,
        scale: float = 1.0,
        embedding: Embedding = "pair",
        normaliser: Normaliser = "count",
        subsample: int = 1,
    ) -> None:
        kernel = _AFFINITIES[check_choice("affinity", affinity, _AFFINITIES)](scale)
        super().__init__(channels, kernel, embedding=embedding, normaliser=normaliser, subsample=subsample)

    def combine(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        return differences(self, pairs, v, where)


def differences(operator: NonlocalOperator, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
    r""":math:`\sum_j \omega_{ij} (v_j - v_i)`, over the row sum if that is the normaliser."""
    if operator.normaliser == "count":
        return operator.affinity.differences(pairs, v, where)
    mine, others = centre(v, where)
    if isinstance(operator.affinity, Gaussian):  # whose row sums cannot vanish
        return operator.affinity.means(pairs, others) - mine
    weighted, row = operator.affinity.sums(pairs, others)
    return safe_divide(weighted, row) - mine.masked_fill(vanishes(row), 0.0)
