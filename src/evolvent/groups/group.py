"""Rotations and mirrorings of the plane: the finite groups C_n and D_n."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError, shortened


@dataclass(frozen=True)
class Group:
    r"""The cyclic group :math:`C_n` of rotations, or the dihedral group :math:`D_n`, which has mirrorings too.

    Elements are numbers. Element :math:`k < n` is the rotation :math:`r^k` by :math:`2 \pi k / n` counter-clockwise;
    in :math:`D_n`, element :math:`n + k` is :math:`r^k s`, where :math:`s` mirrors :math:`(x_1, x_2)` to
    :math:`(x_1, -x_2)`. The first axis of the plane goes right, the second up.

    Args:
        rotations: :math:`n`.
        mirrored: whether there are mirrorings.

    >>> D4 = Group(4, mirrored=True)
    >>> D4.name, D4.order, D4.product(4, 1)  # a quarter turn, then the mirroring
    ('D4', 8, 7)
    """

    rotations: int
    mirrored: bool = False

    def __post_init__(self) -> None:
        check_whole(1, rotations=self.rotations)

    @property
    def name(self) -> str:
        return f"{'D' if self.mirrored else 'C'}{self.rotations}"

    @property
    def order(self) -> int:
        """How many elements the group has."""
        return self.rotations * (1 + self.mirrored)

    @cached_property
    def table(self) -> np.ndarray:
        """The products: entry (a, b) is the element that does b first, then a."""
        n = self.rotations
        turn, flip = np.arange(self.order) % n, np.arange(self.order) // n
        turned = turn[:, None] + np.where(flip, -1, 1)[:, None] * turn[None, :]
        return turned % n + n * (flip[:, None] ^ flip[None, :])

    @cached_property
    def inverses(self) -> np.ndarray:
        """The inverse of each element."""
        return np.argmin(self.table, axis=1)  # element 0 is the identity

    @cached_property
    def matrices(self) -> np.ndarray:
        """How each element acts on the plane, (order, 2, 2); quarter turns are exact."""
        angle = 2 * math.pi * np.arange(self.rotations) / self.rotations
        turns = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, 2, 2)
        whole = np.round(turns)
        turns = np.where(np.abs(turns - whole) < 1e-12, whole, turns) + 0.0  # no negative zeros
        return np.concatenate([turns, turns @ np.diag([1.0, -1.0])]) if self.mirrored else turns

    @property
    def generators(self) -> tuple[int, ...]:
        """Elements whose products are all others."""
        turns = (1,) if self.rotations > 1 else ()
        return (*turns, self.rotations) if self.mirrored else turns

    @cached_property
    def grid_symmetries(self) -> tuple[int, ...]:
        """The elements that move a square grid of pixels onto itself: quarter turns and mirrorings along axes."""
        return tuple(g for g in range(self.order) if np.array_equal(self.matrices[g], np.round(self.matrices[g])))

    def product(self, a: int, b: int) -> int:
        """The element that does b first, then a."""
        a, b = self.check_elements((a, b))
        return int(self.table[a, b])

    def inverse(self, a: int) -> int:
        """The element that undoes a."""
        (a,) = self.check_elements((a,))
        return int(self.inverses[a])

    def element_name(self, g: int) -> str:
        """An element for people: the angle of the rotation, and whether it follows the mirroring."""
        angle = f"{360 * (g % self.rotations) / self.rotations:g}°"
        return f"mirrored, {angle}" if g >= self.rotations else angle

    def check_elements(self, elements: Iterable[int]) -> list[int]:
        """The numbers of elements as they are, if they are those of this group."""
        try:
            found = [operator.index(g) for g in elements]
        except TypeError:
            given = shortened(repr(elements), 40)
            raise ConfigError(
                f"{self.name} takes a list of elements among 0 ... {self.order - 1}, got {given}."
            ) from None
        if outside := [g for g in found if g not in range(self.order)]:
            raise ConfigError(f"elements of {self.name} are 0 ... {self.order - 1}, got {outside[:20]}.")
        return found

    def check_subgroup(self, elements: Iterable[int]) -> tuple[int, ...]:
        """The elements in order, if they are a subgroup."""
        found = sorted(set(self.check_elements(elements)))
        if not found:
            raise ConfigError(f"a subgroup of {self.name} has element 0 at least, got no elements.")
        missing = sorted(set(self.table[np.ix_(found, found)].flatten().tolist()) - set(found))
        if missing:
            raise ConfigError(
                f"{found[:20]} is not a subgroup of {self.name}: products of its elements give {missing[:5]} too. "
                "Add them, or use Group.generated, which does so."
            )
        return tuple(found)

    def generated(self, *generators: int) -> tuple[int, ...]:
        """The smallest subgroup that contains these elements.

        >>> Group(4, mirrored=True).generated(2)
        (0, 2)
        """
        self.check_elements(generators)
        found = {0}
        while True:
            more = found | {self.product(a, b) for a in (*found, *generators) for b in (*found, *generators)}
            if more == found:
                return tuple(sorted(found))
            found = more

    def embedding(self, subgroup: Group) -> np.ndarray:
        """Which element of this group each element of a smaller group is.

        >>> Group(4, mirrored=True).embedding(Group(2)).tolist()
        [0, 2]
        """
        if self.rotations % subgroup.rotations or subgroup.mirrored > self.mirrored:
            raise ConfigError(
                f"{subgroup.name} is not contained in {self.name}. Take {'C or D' if self.mirrored else 'C'} with a "
                f"number of rotations that divides {self.rotations}."
            )
        turns = np.arange(subgroup.rotations) * (self.rotations // subgroup.rotations)
        return np.concatenate([turns, self.rotations + turns]) if subgroup.mirrored else turns

    def __str__(self) -> str:
        return self.name


def cyclic(n: int) -> Group:
    """The rotations by multiples of a full turn divided by n."""
    return Group(n)


def dihedral(n: int) -> Group:
    """The rotations of :func:`cyclic` and the mirrorings at n axes."""
    return Group(n, mirrored=True)
