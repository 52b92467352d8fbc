"""What a network costs: parameters, multiply-adds, and the activation memory that its gradient strategy keeps."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from evolvent.operators import NonlocalOperator
from evolvent.operators.integral.affinity import Affinity, Pairs, PairSums

T = TypeVar("T")


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def count_multiply_adds(model: nn.Module, image: Tensor) -> int:
    """Multiply-adds of one forward pass: those of convolutions, matrix products and sums over taps, which are nearly
    all.

    Args:
        model: a network; neither its state nor the random numbers are touched.
        image: (C, H, W), only the shape counts.

    >>> count_multiply_adds(nn.Conv2d(2, 4, 3, padding=1), torch.zeros(2, 8, 8)) == 4 * 2 * 9 * 64
    True
    """
    counter = flop_counter()
    with counter, torch.no_grad():
        on_a_copy(model, lambda twin: twin.eval()(image[None]))
    return counter.get_total_flops() // 2


def flop_counter() -> FlopCounterMode:
    """PyTorch's counter, two for each multiply-add; with fused attention on CPUs and products added in place, which it
    leaves out."""
    aten = torch.ops.aten
    left_out = {aten._scaled_dot_product_flash_attention_for_cpu: _attention_flops, aten.baddbmm_: _product_flops}
    return FlopCounterMode(display=False, custom_mapping=left_out)


def _product_flops(total: torch.Size, a: torch.Size, b: torch.Size, *_: object, **__: object) -> int:
    return 2 * a.numel() * b[-1]


def _attention_flops(query: torch.Size, key: torch.Size, value: torch.Size, *_: object, **__: object) -> int:
    return sdpa_flop_count(query, key, value)


def activation_bytes(model: nn.Module, images: Tensor) -> int:
    """Bytes that autograd keeps between the forward and the backward pass of ``images``.

    Counted by hooks on what is saved in a dry run, each storage once and parameters not at all; so the figure is that
    of the gradient strategies the model has at the moment.

    Args:
        images: (B, C, H, W) with B >= 2, as batch normalisation needs.

    >>> activation_bytes(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), torch.zeros(8, 4))
    256
    """

    def run(twin: nn.Module) -> int:
        with KeptBytes(twin) as kept:
            output = twin.train()(images)
            total = kept.total
        del output  # what was kept for it lives as long as it does
        return total

    return on_a_copy(model, run)


class _Held:
    """A tensor that autograd keeps; it is dropped when autograd drops it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


class KeptBytes:
    """Counts, inside its block, the bytes of what autograd keeps: each storage once, the model's own not at all."""

    def __init__(self, model: nn.Module) -> None:
        self._owned = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
        self._held: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._hooks = saved_tensors_hooks(self._keep, lambda held: held.tensor)

    @property
    def total(self) -> int:
        """Bytes that are kept at this moment; what was released again, as after rejected steps, does not count."""
        storages = (held.tensor.untyped_storage() for held in self._held)
        kept = {storage.data_ptr(): storage.nbytes() for storage in storages}
        return sum(size for place, size in kept.items() if place not in self._owned)

    def _keep(self, tensor: Tensor) -> _Held:
        held = _Held(tensor)
        self._held.add(held)
        return held

    def __enter__(self) -> KeptBytes:
        self._hooks.__enter__()
        return self

    def __exit__(self, *fault: object) -> None:
        self._hooks.__exit__(*fault)  # pyright: ignore[reportArgumentType]


def on_a_copy(model: nn.Module, action: Callable[[nn.Module], T]) -> T:
    """Act on a copy of the model and leave the random numbers as they were."""
    with torch.random.fork_rng(devices=[]):
        return action(copy.deepcopy(model))


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
