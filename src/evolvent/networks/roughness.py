"""How fast the weights of a network change in time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent.evolution import Evolution, evolutions
from evolvent.networks.nonlocal_block import NonlocalBlock


def weight_roughness(model: nn.Module) -> Tensor:
    r"""Sum of :math:`h \sum_j \bigl\|\tfrac{K_{j+1} - K_j}{h}\bigr\|_F^2` over the units of a network.

    Eq. 4.8 of Bohn, Griebel, Kannan 2021 without its factor. A nonlocal block parts the blocks of its unit into two
    evolutions; the sum runs over the blocks on both sides of it and leaves the nonlocal block itself out.

    >>> import evolvent as ev
    >>> flat, bent = (ev.create_model("nonlocal_hamiltonian", channels=(4,), blocks=n, image_size=8) for n in (1, 3))
    >>> weight_roughness(flat).item(), weight_roughness(bent).item() > 0
    (0.0, True)
    """
    inside = [evolution.roughness() for _, evolution in evolutions(model)]
    across = [before.roughness_to(after) for before, after in _parted(model)]
    return sum(inside + across, torch.zeros(()))


def _parted(model: nn.Module) -> list[tuple[Evolution, Evolution]]:
    """Evolutions of one unit, with its nonlocal block between them."""
    sequences = [list(m) for m in model.modules() if isinstance(m, nn.Sequential)]
    return [
        (before, after)
        for parts in sequences
        for before, between, after in zip(parts, parts[1:], parts[2:], strict=False)
        if isinstance(before, Evolution) and isinstance(between, NonlocalBlock) and isinstance(after, Evolution)
    ]
