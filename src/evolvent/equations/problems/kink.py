"""How diffusion smooths a kink."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_BEGIN = 1e-14  # so that the formula holds at the start too


def smoothed_kink(distance: Tensor, time: Tensor, diffusion: float) -> Tensor:
    r"""What diffusion makes of the kink :math:`|y|` in a time: the solution of :math:`\kappa_t = D \kappa_{yy}` with
    :math:`\kappa(y, 0) = |y|`.

    .. math:: \kappa = y \operatorname{erf} \frac ys + \frac{s}{\sqrt\pi}\, e^{-y^2 / s^2}, \qquad s = 2 \sqrt{D t}

    Args:
        distance: :math:`y`, from the kink; of either sign.
        time: :math:`t \ge 0`.
        diffusion: :math:`D`.

    >>> smoothed_kink(torch.tensor([0.0, 2.0]), torch.zeros(2), 1.0)
    tensor([1.1284e-07, 2.0000e+00])
    """
    s = torch.sqrt((time + _BEGIN) * (4 * diffusion))
    share = distance / s
    return distance * torch.erf(share) + s * torch.exp(-(share * share)) * (1 / math.sqrt(math.pi))
