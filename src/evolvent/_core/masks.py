"""Random masks for dropout, drawn several to a random number where that is faster."""

from __future__ import annotations

import torch
from torch import Tensor


def keep_mask(
    shape: tuple[int, ...],
    dropped: float,
    *,
    dtype: torch.dtype,
    device: torch.device,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""0 for what is dropped, :math:`1 / (1 - p)` for what is kept, independent of each other.

    On a CPU four entries share a random number, so that masks take a fraction of the time of torch's own.

    Args:
        shape: of the mask.
        dropped: :math:`p`, to within 1/65536 on a CPU.
        dtype, device: of the mask.
        generator: torch's own of the device unless given.

    >>> keep_mask((2, 3), 0.0, dtype=torch.float32, device=torch.device("cpu")).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    count = torch.Size(shape).numel()
    if device.type == "cpu":
        words = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None, generator=generator)
        kept = words.view(torch.int16)[:count] >= round(dropped * 65536) - 32768
    else:
        kept = torch.rand(count, device=device, generator=generator) >= dropped
    return kept.to(dtype).mul_(1 / (1 - dropped)).view(shape)
