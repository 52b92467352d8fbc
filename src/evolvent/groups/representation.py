"""How the numbers at a point change when the plane is rotated or mirrored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError
from evolvent.groups.group import Group

_ROUNDING = 1e-6  # of products of matrices that a user may have given in single precision


@dataclass(frozen=True, eq=False)
class Representation:
    r"""Matrices :math:`\rho(g)` with :math:`\rho(g h) = \rho(g)\, \rho(h)`.

    Args:
        group: whose elements are represented.
        matrices: one for each element, (order, size, size).
        name: for people.

    >>> regular(Group(4))
    regular(C4), 4 x 4
    """

    group: Group
    matrices: np.ndarray
    name: str

    def __post_init__(self) -> None:
        shape = np.shape(self.matrices)
        if len(shape) != 3 or shape[0] != self.group.order or shape[1] != shape[2]:
            raise ConfigError(
                f"a representation of {self.group} has a square matrix for each of its {self.group.order} elements, "
                f"({self.group.order}, size, size), got shape {shape}."
            )
        if not self._keeps_products():
            raise ConfigError(
                f"the matrices of {self.name!r} are not a representation of {self.group}: that of a product must be "
                "the product of the matrices, and that of element 0 the identity."
            )

    def _keeps_products(self) -> bool:
        """Whether products with a generator on the left agree, seen by their action on one random vector."""
        m, v = np.asarray(self.matrices), np.random.default_rng(0).standard_normal(np.shape(self.matrices)[1])
        moved = m @ v  # (order, size)
        bound = _ROUNDING * max(1.0, float(np.abs(m).max(initial=0))) ** 2 * max(1, self.size)
        off = [m[g] @ moved.T - moved[self.group.table[g]].T for g in self.group.generators]
        return all(bool(np.all(np.abs(difference) <= bound)) for difference in [moved[0] - v, *off])

    @property
    def size(self) -> int:
        return self.matrices.shape[1]

    @cached_property
    def character(self) -> np.ndarray:
        """The trace of each matrix; two representations are alike up to a change of basis if these are."""
        return np.trace(self.matrices, axis1=1, axis2=2)

    @cached_property
    def permutation(self) -> np.ndarray | None:
        """Where each element moves the entries, (order, size), if all it does is to move them."""
        m = self.matrices
        moved = m.argmax(axis=1)
        exact = np.take_along_axis(m, moved[:, None, :], axis=1)
        return moved if np.all(exact == 1) and np.count_nonzero(m) == moved.size else None

    @cached_property
    def orthogonal(self) -> bool:
        """Whether lengths are kept, which all representations made in this package do."""
        return bool(np.allclose(self.matrices @ self.matrices.mT, np.eye(self.size), atol=1e-10))

    @property
    def contragredient(self) -> Representation:
        r"""How linear forms change, :math:`\rho(g^{-1})^\top`: for orthogonal matrices as vectors do."""
        if self.orthogonal:
            return self
        return Representation(self.group, self.matrices[self.group.inverses].mT, f"contragredient of {self.name}")

    @cached_property
    def invariants(self) -> np.ndarray:
        """An orthonormal basis of the vectors that no element changes, (size, count)."""
        return range_of(self.matrices.mean(axis=0))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Representation)
            and self.group == other.group
            and np.array_equal(self.matrices, other.matrices)
        )

    def __hash__(self) -> int:
        return hash((self.group, self.size))

    def __repr__(self) -> str:
        return f"{self.name}, {self.size} x {self.size}"


def range_of(projection: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what a projection gives, (size, rank); its singular values are 0, or 1 and more."""
    vectors, values, _ = np.linalg.svd(projection)
    return vectors[:, values > 0.5]


def trivial(group: Group) -> Representation:
    """Nothing changes: a plain image, or a scalar."""
    return Representation(group, np.ones((group.order, 1, 1)), f"trivial({group})")


def sign(group: Group) -> Representation:
    """Mirrorings change the sign, or, in a cyclic group of even order, every second rotation does."""
    if not group.mirrored and group.rotations % 2:
        raise ConfigError(f"{group} has no sign representation: it has no mirrorings, and its order is odd.")
    turn, flip = np.arange(group.order) % group.rotations, np.arange(group.order) // group.rotations
    signs = (-1.0) ** (flip if group.mirrored else turn)
    return Representation(group, signs[:, None, None], f"sign({group})")


def irrep(group: Group, frequency: int, parity: int = 0) -> Representation:
    r"""The irreducible representation of a frequency: rotation by :math:`k` times the angle.

    Frequencies are :math:`0 \dots n / 2`. At 0 and at :math:`n / 2` there are one number and, in :math:`D_n`, two kinds
    of it, which parity 0 and 1 tell apart: mirrorings keep it or change its sign.

    >>> irrep(Group(8), 1).size, irrep(Group(8), 4).size
    (2, 1)
    """
    n = group.rotations
    edge = frequency == 0 or 2 * frequency == n
    if not 0 <= 2 * frequency <= n or parity not in (0, 1) or (parity and not (edge and group.mirrored)):
        raise ConfigError(
            f"{group} has irreducible representations of frequencies 0 ... {n // 2}, and of parity 1 only if it is "
            f"mirrored, at frequency 0 or half of its rotations, got frequency {frequency}, parity {parity}."
        )
    turn, flip = np.arange(group.order) % n, np.arange(group.order) // n
    name = f"irrep({group}, {frequency}{', 1' if parity else ''})"
    if edge:
        signs = (-1.0) ** (turn * (frequency > 0) + flip * parity)
        return Representation(group, signs[:, None, None], name)
    angle = 2 * math.pi * frequency * turn / n
    turns = np.stack([np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle)], axis=-1).reshape(-1, 2, 2)
    turns[flip == 1] = turns[flip == 1] @ np.diag([1.0, -1.0])
    return Representation(group, turns, name)


def irreps(group: Group) -> list[Representation]:
    """All irreducible representations over the real numbers, the trivial one first."""
    n, found = group.rotations, []
    for frequency in range(n // 2 + 1):
        edge = frequency == 0 or 2 * frequency == n
        found += [irrep(group, frequency, parity) for parity in range(2 if edge and group.mirrored else 1)]
    return found


@lru_cache(maxsize=64)
def regular(group: Group) -> Representation:
    """One number for each element, moved as elements are: the values seen from each orientation."""
    return Representation(group, _permutations(group.table, group.order), f"regular({group})")


def quotient(group: Group, subgroup: Iterable[int]) -> Representation:
    """One number for each coset of a subgroup: a regular representation whose values agree along the subgroup.

    Args:
        group: the whole group.
        subgroup: its elements; see :meth:`Group.generated`.

    >>> quotient(Group(8), [0, 4]).size
    4
    """
    elements = group.check_subgroup(subgroup)
    coset_of = group.table[:, elements].min(axis=1)  # the smallest element stands for its coset
    cosets, number = np.unique(coset_of, return_inverse=True)
    moved = number[group.table[:, cosets]]
    name = f"quotient({group}, {len(elements)} elements)"
    return Representation(group, _permutations(moved, len(cosets)), name)


def _permutations(moved: np.ndarray, size: int) -> np.ndarray:
    matrices = np.zeros((len(moved), size, size))
    np.put_along_axis(matrices, moved[:, None, :], 1.0, axis=1)
    return matrices


def direct_sum(*parts: Representation) -> Representation:
    """Several representations side by side."""
    group, size = _one_group(parts), sum(part.size for part in parts)
    matrices, start = np.zeros((group.order, size, size)), 0
    for part in parts:
        matrices[:, start : start + part.size, start : start + part.size] = part.matrices
        start += part.size
    return Representation(group, matrices, " + ".join(part.name for part in parts))


def tensor_product(a: Representation, b: Representation) -> Representation:
    r"""The representation :math:`\rho_a(g) \otimes \rho_b(g)` on products of entries, those of b counting fastest."""
    group = _one_group((a, b))
    size = a.size * b.size
    matrices = np.einsum("gij,gkl->gikjl", a.matrices, b.matrices).reshape(-1, size, size)
    return Representation(group, matrices, f"{a.name} x {b.name}")


def restrict(representation: Representation, subgroup: Group) -> Representation:
    """The same matrices, for the elements of a smaller group only."""
    kept = representation.group.embedding(subgroup)
    return Representation(subgroup, representation.matrices[kept], f"{representation.name} on {subgroup}")


def _one_group(parts: Sequence[Representation]) -> Group:
    for part in parts:
        if not isinstance(part, Representation):
            raise ConfigError(f"representations are expected, each as an argument of its own, got {told(part)}.")
    groups = {part.group for part in parts}
    if len(groups) != 1:
        names = ", ".join(sorted(group.name for group in groups)) or "none"
        raise ConfigError(f"these representations must be of one group, got {names}. Use restrict to make them so.")
    return groups.pop()
