"""Batch normalisation and bias of fields."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from evolvent._core.errors import ShapeError
from evolvent.groups import Field, Representation
from evolvent.operators.differential.constants import ConstantsModule
from evolvent.operators.differential.field_checks import check_fields, check_orthogonal
from evolvent.operators.differential.inference import ChannelAffine, HasOrdinaryForm


class FieldBatchNorm(HasOrdinaryForm, ConstantsModule):
    r"""Batch normalisation that commutes with the group: one mean, deviation and scale for each field.

    .. math:: v = w\, \frac{u - P \operatorname E u}{\sqrt{\operatorname E |u - P \operatorname E u|^2 / d + \epsilon}}
              + \sum_k b_k e_k

    :math:`P` is the projection on the vectors that no element of the group changes, the :math:`e_k` span them, and
    :math:`d` is the size of a field. Expectations are over batch and pixels; in evaluation those of training are used,
    as :class:`torch.nn.BatchNorm2d` does. For regular and quotient fields this is a batch normalisation of each field
    as if it were one channel, with two parameters; scalars are normalised as usual. Only this case is synchronised
    between processes by :class:`torch.nn.SyncBatchNorm`.

    Args:
        field: of any orthogonal representation.
        eps: :math:`\epsilon`.
        momentum: weight of the newest batch in the running statistics; None for their mean over all batches.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> norm = FieldBatchNorm(regular_fields(cyclic(8), 4))
    >>> norm(torch.randn(2, 32, 5, 5)).shape, sum(p.numel() for p in norm.parameters())
    (torch.Size([2, 32, 5, 5]), 8)
    """

    directions: Tensor
    coordinates: Tensor

    def __init__(self, field: Field, eps: float = 1e-5, momentum: float | None = 0.1) -> None:
        super().__init__()
        check_fields(self, field)
        check_orthogonal(field, "FieldBatchNorm")
        self.in_field = self.out_field = field
        self.one_channel = _moves_entries_anywhere(field.representation)
        if self.one_channel:
            self.norm = nn.BatchNorm2d(field.multiplicity, eps, momentum)
        else:
            directions = invariant_directions(field.representation)
            self.add_constant("directions", directions)
            self.add_constant("coordinates", np.linalg.pinv(directions))
            self.norm = _FibreBatchNorm(field.multiplicity, directions.shape[1], eps, momentum)

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldBatchNorm")
        if self.norm.training and u.numel() == self.in_field.multiplicity:
            raise ShapeError(
                f"FieldBatchNorm in training needs more than one number of each field, got shape {tuple(u.shape)}. "
                "Take more images or pixels, or use eval()."
            )
        if self.one_channel:
            return self._as_one_channel(u)
        return self.norm(self.in_field.fibres(u), self.directions, self.coordinates).flatten(1, 2)

    def _as_one_channel(self, u: Tensor) -> Tensor:
        """All numbers of a field are one channel; what lies channel after channel in memory stays so."""
        fields = self.in_field.multiplicity
        if u.transpose(0, 1).is_contiguous() and not u.is_contiguous():
            planes = u.transpose(0, 1)
            return self.norm(planes.reshape(1, fields, -1, u.shape[3])).view(planes.shape).transpose(0, 1)
        return self.norm(u.reshape(u.shape[0], fields, self.in_field.size * u.shape[2], u.shape[3])).view(u.shape)

    def dense(self) -> ChannelAffine:
        """What this is in evaluation, for inference."""
        norm, size = self.norm, self.in_field.size
        assert norm.running_mean is not None
        assert norm.running_var is not None
        directions = norm.weight.new_ones(size, 1) if self.one_channel else self.directions
        mean, bias = (t.view(self.in_field.multiplicity, -1) @ directions.T for t in (norm.running_mean, norm.bias))
        factor = (norm.weight * torch.rsqrt(norm.running_var + norm.eps)).view(-1, 1).expand(-1, size)
        return ChannelAffine(factor.flatten(), (bias - factor * mean).flatten())

    def extra_repr(self) -> str:
        return str(self.in_field)


class _FibreBatchNorm(_NormBase):
    """The general case, on features with an axis for fields and one for the channels of each, (B, fields, d, H, W).

    The base class makes gradient strategies leave its statistics alone when they compute a step again.
    """

    def __init__(self, fields: int, directions: int, eps: float, momentum: float | None) -> None:
        super().__init__(fields, eps, momentum)
        self.bias = nn.Parameter(torch.zeros(fields, directions))
        self.running_mean = torch.zeros(fields, directions)

    def forward(self, v: Tensor, directions: Tensor, coordinates: Tensor) -> Tensor:
        wide = v.to(torch.promote_types(v.dtype, self.weight.dtype))
        measured = self.training and v.numel() > 0
        mean = wide.mean(dim=(0, 3, 4)) @ coordinates.T if measured else self.running_mean
        assert mean is not None
        centred = wide - (mean @ directions.T)[:, :, None, None]
        variance = centred.square().mean(dim=(0, 2, 3, 4)) if measured else self.running_var
        assert variance is not None
        if measured:
            self._follow(mean, variance, v.numel() // len(variance))
        scale = self.weight * torch.rsqrt(variance + self.eps)
        shift = self.bias @ directions.T
        return (centred * scale[:, None, None, None] + shift[:, :, None, None]).to(v.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics; as in PyTorch, their variance is the unbiased one."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        share = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var.dtype), share)

    def _check_input_dim(self, input: Tensor) -> None:
        """The layer around this one has checked it."""


class FieldBias(HasOrdinaryForm, ConstantsModule):
    r"""A shift along the vectors that no element of the group changes, :math:`v = u + \sum_k b_k e_k`.

    Args:
        field: how features transform; a regular field has one such direction, on which all its channels agree.

    Shape: (B, field.channels, H, W) to the same.

    >>> from evolvent.groups import cyclic, regular_fields
    >>> FieldBias(regular_fields(cyclic(8), 4)).bias.shape
    torch.Size([4, 1])
    """

    directions: Tensor

    def __init__(self, field: Field) -> None:
        super().__init__()
        check_fields(self, field)
        self.in_field = self.out_field = field
        directions = invariant_directions(field.representation)
        self.add_constant("directions", directions)
        self.bias = nn.Parameter(torch.zeros(field.multiplicity, directions.shape[1]))

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldBias")
        return u + self._shift().to(u.dtype).view(-1, 1, 1)

    def dense(self) -> ChannelAffine:
        """The same as a shift of channels, for inference."""
        shift = self._shift().flatten()
        return ChannelAffine(torch.ones_like(shift), shift)

    def _shift(self) -> Tensor:
        return self.bias @ self.directions.T

    def extra_repr(self) -> str:
        return str(self.in_field)


def invariant_directions(representation: Representation) -> np.ndarray:
    """Vectors that span those that no element changes, (size, count).

    They are the same whatever basis a linear algebra library comes up with: in some entries they are unit vectors.
    Where entries are only moved, each is 1 on those that are moved to each other, and 0 elsewhere.

    >>> from evolvent.groups import cyclic, direct_sum, regular, trivial
    >>> invariant_directions(direct_sum(trivial(cyclic(2)), regular(cyclic(2)))).T.round(12).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    found, entries = representation.invariants, []
    for entry in range(len(found)):
        if np.linalg.matrix_rank(found[[*entries, entry]], tol=1e-6) > len(entries):
            entries.append(entry)
    return found @ np.linalg.inv(found[entries]) + 0.0


def _moves_entries_anywhere(representation: Representation) -> bool:
    """Whether it moves entries, and each to every place: then all have one mean."""
    return representation.permutation is not None and representation.invariants.shape[1] == 1
