"""What a network would cost if its nonlocal operators wrote down the matrix of all pairs."""

from __future__ import annotations

from torch import Tensor, nn

from evolvent.analysis.cost import count_multiply_adds, on_a_copy
from evolvent.operators import NonlocalOperator
from evolvent.operators.affinity import Affinity, Pairs, PairSums


def count_all_pairs(model: nn.Module, image: Tensor) -> int:
    r"""Multiply-adds of one forward pass if every kernel were an :math:`N \times M` matrix, made once and kept.

    This is what papers count: :math:`N M D` for the kernel and :math:`N M C` for each use of it, with :math:`N` pixel
    strips, :math:`M` strips to sum over and :math:`D` embedded channels out of :math:`C`. How our operators evaluate
    the same sums, :func:`count_multiply_adds` counts: a dot product costs less, as its sums are re-associated, and
    distances cost a little more, as they are made in every stage and not kept.

    Args:
        model: a network; it is left as it was.
        image: (C, H, W), only the shape counts.

    >>> import torch
    >>> from evolvent.networks.nonlocal_block import NonlocalBlock
    >>> embed_and_map = 2 * 64 * 4 * 2 + 2 * 64 * 4 * 4
    >>> pairs = 64 * 64 * 2 + 2 * 64 * 64 * 4
    >>> count_all_pairs(NonlocalBlock(4), torch.zeros(4, 8, 8)) == embed_and_map + pairs
    True
    """

    def count(twin: nn.Module) -> int:
        for module in twin.modules():
            if isinstance(module, NonlocalOperator):
                module.affinity = _MatrixOfPairs()
        return count_multiply_adds(twin, image)

    return on_a_copy(model, count)


class _MatrixOfPairs(Affinity):
    """Stands for any kernel and makes the products that it takes; the values mean nothing."""

    def pairs(self, x: Tensor, y: Tensor, factor: float = 1.0) -> Pairs:
        return Pairs(x @ y.mT, y)

    def sums(self, pairs: Pairs, v: Tensor) -> PairSums:
        return PairSums(pairs.x @ v, pairs.x.sum(-1, keepdim=True))
