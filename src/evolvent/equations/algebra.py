"""Truncated power series in several variables: which coefficients are kept, and how they multiply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import factorial, prod

from torch import Tensor

Index = tuple[int, ...]
Term = tuple[int, int, int]  # positions of two factors and of their product


class Algebra:
    r"""Power series :math:`\sum_\alpha u_\alpha \varepsilon^\alpha` with the multi-indices :math:`\alpha` of a lower set.

    A lower set has, with an index, every smaller one; what falls outside of it is dropped from products.

    Args:
        indices: the multi-indices, one entry for each variable; smaller ones are added.

    >>> algebra((1, 0), (0, 2)).indices
    ((0, 0), (0, 1), (1, 0), (0, 2))
    """

    def __init__(self, indices: frozenset[Index]) -> None:
        below = {low for index in indices for low in product(*(range(n + 1) for n in index))}
        self.indices = tuple(sorted(below, key=lambda index: (sum(index), index)))
        self.order = max(map(sum, self.indices))
        places = {index: k for k, index in enumerate(self.indices)}
        self.terms = tuple(
            (i, j, places[total])
            for i, a in enumerate(self.indices)
            for j, b in enumerate(self.indices)
            if (total := tuple(x + y for x, y in zip(a, b, strict=True))) in places
        )
        self.proper_terms = tuple((i, j, k) for i, j, k in self.terms if i)  # the first factor is not a constant
        self.factorials = tuple(prod(map(factorial, index)) for index in self.indices)

    def powers(self, parts: Tensor) -> list[Mapping[int, Tensor]]:
        """Powers 1, 2, ..., order of the series without its constant; each has the coefficients that do not vanish.

        Args:
            parts: coefficients (len(indices), ...).
        """
        coefficients = parts.unbind()
        found = [dict(enumerate(coefficients))]
        found[0].pop(0)
        while len(found) < self.order:
            found.append(self._times(found[0], found[-1]))
        return found[: self.order]

    def _times(self, a: Mapping[int, Tensor], b: Mapping[int, Tensor]) -> dict[int, Tensor]:
        total: dict[int, Tensor] = {}
        for i, j, k in self.terms:
            if i in a and j in b:
                total[k] = total[k].addcmul(a[i], b[j]) if k in total else a[i] * b[j]
        return total

    def positions(self, indices: Iterable[Sequence[int]]) -> list[int]:
        """Where the multi-indices stand among :attr:`indices`."""
        return [self.indices.index(tuple(index)) for index in indices]


@lru_cache(maxsize=256)
def _made(indices: frozenset[Index]) -> Algebra:
    return Algebra(indices)


def algebra(*indices: Index) -> Algebra:
    """The smallest algebra with these multi-indices; the same one for the same indices."""
    return _made(frozenset(indices))
