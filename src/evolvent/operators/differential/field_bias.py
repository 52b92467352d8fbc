"""A bias of fields."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.groups import Field
from evolvent.operators.differential.constants import ConstantsModule
from evolvent.operators.differential.field_norm import invariant_directions


class FieldBias(ConstantsModule):
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
        self.in_field = self.out_field = field
        directions = invariant_directions(field.representation)
        self.add_constant("directions", directions)
        self.bias = nn.Parameter(torch.zeros(field.multiplicity, directions.shape[1]))

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, "FieldBias")
        return u + (self.bias @ self.directions.T).to(u.dtype).view(-1, 1, 1)

    def extra_repr(self) -> str:
        return str(self.in_field)
