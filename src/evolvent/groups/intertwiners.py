"""Linear maps that commute with a group: the building blocks of equivariant layers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from evolvent._core.errors import ConfigError
from evolvent.groups.representation import Representation, range_of


def intertwiner_count(before: Representation, after: Representation) -> int:
    r"""The dimension of the space of intertwiners, :math:`\frac 1 {|G|} \sum_g \chi_{before}(g)\, \chi_{after}(g)`."""
    _check_one_group(before, after)
    return round(float(np.mean(before.character * after.character)))


@lru_cache(maxsize=8)  # the layers of a network ask for the same ones
def intertwiners(before: Representation, after: Representation) -> np.ndarray:
    r"""An orthonormal basis of the maps :math:`B` with :math:`\rho_{after}(g)\, B = B\, \rho_{before}(g)` for all g.

    Args:
        before: how the argument changes.
        after: how the result changes.

    Returns: (count, after.size, before.size), not to be written to.

    >>> from evolvent.groups import Group, irrep, regular
    >>> intertwiners(irrep(Group(8), 1), regular(Group(8))).shape
    (2, 8, 2)
    """
    _check_one_group(before, after)
    if before.permutation is not None:
        found = _along_orbits(before, after)
    elif after.permutation is not None and before.orthogonal:
        found = _along_orbits(after, before).swapaxes(1, 2)
    else:
        found = _null_space(before, after)
    found.flags.writeable = False
    return found


def _along_orbits(before: Representation, after: Representation) -> np.ndarray:
    r"""If entries are only moved, a column of B decides those of its whole orbit, :math:`B_{g x} = \rho(g) B_x`.

    The column itself must not change under the elements that keep x.
    """
    assert before.permutation is not None
    found, seen = [], np.zeros(before.size, dtype=bool)
    for x in range(before.size):
        if seen[x]:
            continue
        orbit = before.permutation[:, x]
        seen[orbit] = True
        keeping = after.matrices[orbit == x]
        kept = range_of(keeping.mean(axis=0))  # (after.size, count)
        basis = np.zeros((kept.shape[1], after.size, before.size))
        basis[:, :, orbit] = np.moveaxis(after.matrices @ kept, 0, 2).swapaxes(0, 1)
        found.append(basis / np.linalg.norm(basis, axis=(1, 2), keepdims=True))
    return np.concatenate(found)


def _null_space(before: Representation, after: Representation) -> np.ndarray:
    """The maps that commute with the generators, by a singular value decomposition."""
    size = after.size * before.size
    rows = [np.zeros((1, size))]
    for g in before.group.generators:
        left = np.kron(after.matrices[g], np.eye(before.size))
        rows.append(left - np.kron(np.eye(after.size), before.matrices[g].T))
    _, values, vectors = np.linalg.svd(np.concatenate(rows))
    rank = int((values > 1e-9 * max(1.0, values[0])).sum())
    return vectors[rank:].reshape(-1, after.size, before.size)


def _check_one_group(before: Representation, after: Representation) -> None:
    if before.group != after.group:
        raise ConfigError(
            f"maps between representations of {before.group} and {after.group} are asked for. Restrict one of them to "
            "the other's group."
        )
