"""What operators over pairs of pixel strips share: embeddings, subsampling, normaliser."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_choice, check_even, check_images, check_whole
from evolvent._core.errors import ShapeError
from evolvent.groups import Field
from evolvent.operators.convolution import Pointwise, pointwise
from evolvent.operators.differential.field_checks import (
    check_moves_channels,
    check_orthogonal,
    warn_of_uneven_squares,
)
from evolvent.operators.differential.steerable import FieldLinear
from evolvent.operators.integral.affinity import Affinity, Pairs
from evolvent.operators.integral.strips import maxima, pick, strips

Embedding: TypeAlias = Literal["pair", "shared", "none"]
Normaliser: TypeAlias = Literal["count", "row_sum"]


class NonlocalOperator(nn.Module):
    r"""An integral operator whose kernel compares embedded pixel strips instead of positions.

    .. math::
        (\mathcal O v)_i = \frac{c}{\mathcal N_i} \sum_j \omega(\theta(X_i), \phi(X_j))\, (v_j - v_i)
        \quad\text{or}\quad
        \frac{c}{\mathcal N_i} \sum_j \omega(\theta(X_i), \phi(X_j))\, v_j

    Section 4 of Bohn, Griebel, Kannan 2021. Applied to features, the kernel is theirs; :meth:`at` holds the kernel of
    :math:`X` for several uses. Sums are made in float32 at least, whatever the precision of the features.

    Between fields, :math:`\theta` and :math:`\phi` commute with the group. Inner products and distances then do not
    change, so that the operator commutes with the group exactly. With subsampling it does so for fields whose channels
    are only moved, and where the squares fill the map.

    Args:
        channels: number of feature maps :math:`C`, or the fields that they are.
        affinity: :math:`\omega`.
        embedding: ``"pair"`` learns :math:`\theta` and :math:`\phi`, 1x1 convolutions from :math:`C` to :math:`C / 2`
            channels; ``"shared"`` learns :math:`\theta` and uses it on both sides, which makes kernels symmetric;
            ``"none"`` compares the strips themselves.
        normaliser: :math:`\mathcal N_i` is the number of strips in the sum (``"count"``) or the ``"row_sum"`` of the
            kernel, with 0 for the result where that is 0.
        subsample: the strips :math:`j` are the maxima over squares of this many pixels per side; those at the lower and
            right edge may be smaller.

    Shape: (B, channels, H, W) to the same.

    Attributes:
        factor: :math:`c`.
        damping_sign: the sign with which :math:`u' = \pm\mathcal O u` damps.
    """

    factor: float = 1.0
    damping_sign: ClassVar[int]

    def __init__(
        self,
        channels: int | Field,
        affinity: Affinity,
        *,
        embedding: Embedding = "pair",
        normaliser: Normaliser = "count",
        subsample: int = 1,
    ) -> None:
        super().__init__()
        check_whole(subsample=subsample)
        self.field = channels if isinstance(channels, Field) else None
        self.channels = channels.channels if isinstance(channels, Field) else channels
        if self.field is not None:
            _check_field(self.field, subsample)
        if embedding == "none":
            check_whole(channels=self.channels)
        elif self.field is not None:
            check_even(multiplicity=self.field.multiplicity)
        else:
            check_even(channels=self.channels)
        self.affinity = affinity
        self.embedding: Embedding = check_choice("embedding", embedding, get_args(Embedding))
        self.normaliser: Normaliser = check_choice("normaliser", normaliser, get_args(Normaliser))
        self.subsample = subsample
        self.theta = _embedding(channels) if embedding != "none" else None
        self.phi = _embedding(channels) if embedding == "pair" else None

    def forward(self, u: Tensor) -> Tensor:
        return self.at(u)(u)

    def at(self, x: Tensor) -> FrozenOperator:
        """The operator with the kernel of the features ``x``; linear without subsampling."""
        self._check(x)
        with torch.autocast(x.device.type, enabled=False):
            mine, others = self._embed(_widen(x))
            mine, others = strips(mine), pick(strips(others), maxima(others, self.subsample))
            if self.normaliser == "count":
                return FrozenOperator(self, self.affinity.pairs(mine, others, self.factor / others.shape[1]))
            return FrozenOperator(self, self.affinity.pairs_for_means(mine, others, self.channels))

    def _embed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides of the kernel, as images; two embeddings are one convolution."""
        if self.theta is None:
            return x, x
        if self.phi is None:
            shared = pointwise(x, _widen(_matrix(self.theta)))
            return shared, shared
        both = pointwise(x, _widen(torch.cat([_matrix(self.theta), _matrix(self.phi)])))
        mine, others = both.chunk(2, dim=1)
        return mine, others

    @abstractmethod
    def combine(self, pairs: Pairs, v: Tensor, where: Tensor | None) -> Tensor:
        """The sum over :math:`j` for strips ``v``, (B, N, C), with :math:`v_j` those at ``where``, or all.

        Divided by the row sum, if that is the normaliser; :math:`c / N` is in the pairs, if the number of strips is.
        """

    def _check(self, x: Tensor) -> None:
        check_images(x, type(self).__name__, self.channels)
        if self.subsample > min(x.shape[2:]):
            raise ShapeError(
                f"squares of {self.subsample} pixels do not fit into features of shape {tuple(x.shape)}. "
                "Use a smaller subsample or larger images."
            )
        if self.field is not None:
            warn_of_uneven_squares(self, self.field, self.subsample, x.shape[2:], "or use subsample=1")

    def extra_repr(self) -> str:
        return (
            f"{self.channels}, {self.affinity}, embedding={self.embedding!r}, normaliser={self.normaliser!r}, "
            f"subsample={self.subsample}"
        )


@dataclass(frozen=True)
class FrozenOperator:
    """A nonlocal operator whose kernel stays that of some features, while it acts on others."""

    operator: NonlocalOperator
    pairs: Pairs  # of embedded strips

    def __call__(self, v: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        operator = self.operator
        with torch.autocast(v.device.type, enabled=False):
            wide = _widen(v)
            sums = operator.combine(self.pairs, strips(wide), maxima(wide, operator.subsample))
            if operator.normaliser == "row_sum" and operator.factor != 1:
                sums = operator.factor * sums
            return _narrow(sums.mT.reshape(v.shape), v.dtype)


def _widen(u: Tensor) -> Tensor:
    """In float32 at least; gradients too large for the precision of ``u`` stop at its largest number."""
    wide = u.to(torch.promote_types(u.dtype, torch.float32))
    if wide is not u and wide.requires_grad:
        largest = torch.finfo(u.dtype).max
        wide.register_hook(lambda g: g.clamp(-largest, largest))
    return wide


def _narrow(u: Tensor, dtype: torch.dtype) -> Tensor:
    """In ``dtype``, which float16 sums of a power kernel may not fit into: they stop at its largest number."""
    largest = torch.finfo(dtype).max
    return u if u.dtype == dtype else u.clamp(-largest, largest).to(dtype)


def _embedding(channels: int | Field) -> Pointwise | FieldLinear:
    if isinstance(channels, Field):
        linear = FieldLinear(channels, Field(channels.representation, channels.multiplicity // 2))
        nn.init.normal_(linear.weight, std=linear.weight[0].numel() ** -0.5)
        return linear
    conv = Pointwise(channels, channels // 2)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="linear")
    return conv


def _matrix(embedding: Pointwise | FieldLinear) -> Tensor:
    return embedding.kernel() if isinstance(embedding, FieldLinear) else embedding.weight


def _check_field(field: Field, subsample: int) -> None:
    check_orthogonal(field, "a nonlocal operator")
    if subsample > 1:
        check_moves_channels(field, "the maximum over squares of pixels", "subsample=1")
