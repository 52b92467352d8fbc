"""Feature maps as fields: vectors at every point that change with the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_images, check_whole, told
from evolvent._core.errors import ConfigError
from evolvent.groups.group import Group
from evolvent.groups.representation import Representation, regular, restrict, trivial


@dataclass(frozen=True)
class Field:
    r"""Several fields of one kind, stored as feature maps.

    A transformation :math:`g` of the plane changes them to :math:`[g f](x) = \rho(g)\, f(g^{-1} x)` (eq. (2) of He et
    al. 2022).

    Args:
        representation: :math:`\rho`, of one field.
        multiplicity: how many there are.

    Shape: features are (B, channels, H, W); the channels of one field follow each other.

    >>> Field(regular(Group(8)), 4).channels
    32
    """

    representation: Representation
    multiplicity: int

    def __post_init__(self) -> None:
        if not isinstance(self.representation, Representation):
            raise ConfigError(
                f"a field is of a representation, such as regular(cyclic(8)), got {told(self.representation)}."
            )
        check_whole(1, multiplicity=self.multiplicity)

    @property
    def group(self) -> Group:
        return self.representation.group

    @property
    def size(self) -> int:
        """Channels of one field."""
        return self.representation.size

    @property
    def channels(self) -> int:
        return self.multiplicity * self.size

    def check(self, u: Tensor, taker: str) -> None:
        """Refuse tensors that are not features of this field."""
        check_images(u, taker, self.channels, advice=f"These are the channels of {self}.")

    def fibres(self, u: Tensor) -> Tensor:
        """The features with an axis for fields and one for the channels of each, (B, multiplicity, size, H, W)."""
        return u.unflatten(1, (self.multiplicity, self.size))

    def act(self, u: Tensor, g: int) -> Tensor:
        r""":math:`\rho(g)` on the channels; points stay where they are."""
        self.check(u, "Field.act")
        (g,) = self.group.check_elements((g,))
        matrix = torch.as_tensor(self.representation.matrices[g], dtype=u.dtype, device=u.device)
        return torch.einsum("ij,bmjyx->bmiyx", matrix, self.fibres(u)).flatten(1, 2)

    def transform(self, u: Tensor, g: int) -> Tensor:
        r""":math:`\rho(g)\, f(g^{-1} x)`, exactly: for the elements that move pixels onto pixels."""
        return move_pixels(self.act(u, g), self.group, g)

    def restricted(self, subgroup: Group) -> tuple[Field, Tensor | None]:
        """The same features as fields of a smaller group, and the order in which to take the channels.

        A regular field becomes several regular fields; the order is None if channels stay where they are.
        """
        kept = self.group.embedding(subgroup)
        if self.representation != regular(self.group):
            return Field(restrict(self.representation, subgroup), self.multiplicity), None
        # right cosets of the subgroup: each is moved as the subgroup's own elements are
        cosets = np.unique(np.sort(self.group.table[kept], axis=0), axis=1)[0]
        order = self.group.table[np.ix_(kept, cosets)].T.reshape(-1)
        field = Field(regular(subgroup), self.multiplicity * len(cosets))
        if np.array_equal(order, np.arange(self.size)):
            return field, None
        every = self.size * np.arange(self.multiplicity)[:, None] + order
        return field, torch.from_numpy(every.reshape(-1))

    def __str__(self) -> str:
        return f"{self.multiplicity} x {self.representation.name}"


def scalars(group: Group, multiplicity: int = 1) -> Field:
    """Plain feature maps, such as the channels of an image."""
    return Field(trivial(group), multiplicity)


def regular_fields(group: Group, multiplicity: int) -> Field:
    """Fields with one channel for each element of the group."""
    return Field(regular(group), multiplicity)


def move_pixels(u: Tensor, group: Group, g: int) -> Tensor:
    r""":math:`f(g^{-1} x)` for a symmetry of the grid of pixels.

    >>> move_pixels(torch.tensor([[[[1, 2], [3, 4]]]]), Group(4), 1).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    if g not in group.grid_symmetries:
        raise ConfigError(
            f"element {g} of {group} ({group.element_name(g)}) does not move pixels onto pixels. Those that do are "
            f"{list(group.grid_symmetries)}."
        )
    quarter_turns = round(4 * (g % group.rotations) / group.rotations)
    u = u.flip(-2) if g >= group.rotations else u
    return torch.rot90(u, quarter_turns, (-2, -1))
