"""Decay of energy and variance under a nonlocal diffusion whose kernel is held."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole
from evolvent._core.errors import ConfigError
from evolvent.operators import FractionalLaplacian, NonlocalDiffusion, NonlocalOperator

_PIXELS = 4096  # whose square still fits into memory many times


@dataclass(frozen=True)
class DiffusionDecay:
    r"""Energy :math:`\|u\|^2` and variance along time, and what changes the energy; all summed over samples.

    .. math:: \frac{d}{dt} \|u\|^2 = 2 \langle u, \mathcal L u \rangle = \text{gain} - \text{dissipation}, \qquad
              \text{gain} = \sum_i (\mathcal L u^2)_i, \qquad
              \text{dissipation} = \sum_{ij} \frac{\omega_{ij}}{\mathcal N_i} |u_j - u_i|^2
    """

    times: tuple[float, ...]
    energy: tuple[float, ...]
    variance: tuple[float, ...]  # over the pixels, summed over channels
    rate: tuple[float, ...]  # of the energy
    dissipation: tuple[float, ...]  # not negative if the kernel is not
    gain: tuple[float, ...]  # zero if the kernel is symmetric

    @property
    def decays(self) -> bool:
        """Whether neither energy nor variance ever rises by more than rounding of the features."""
        return all(
            after <= before + 1e-12 * self.energy[0]
            for values in (self.energy, self.variance)
            for before, after in pairwise(values)
        )


@torch.no_grad()
def diffusion_decay(
    operator: NonlocalOperator, u0: Tensor, *, end_time: float | None = None, steps: int = 40
) -> DiffusionDecay:
    r"""Solve :math:`u_t = \mathcal L u` from ``u0``, with the kernel of ``u0``, and measure energy and variance.

    Eq. 3.3 of Bohn, Griebel, Kannan 2021, who state :math:`\frac{d}{dt} \|u\|^2 \le 0` and
    :math:`\frac{d}{dt} \mathrm{Var}\, u \le 0` after Gilboa and Osher. The proof multiplies the equation by :math:`u`
    and exchanges :math:`i` and :math:`j`. It needs a kernel that is symmetric, so that there is no gain, and not
    negative, so that there is dissipation. Both parts are measured, so that kernels that are neither, such as the
    embedded ones of the paper's networks, show what they do. The solution is exact in time, by the exponential of the
    matrix of all pairs, in float64.

    Args:
        operator: a diffusion, :class:`~evolvent.operators.NonlocalDiffusion` or
            :class:`~evolvent.operators.FractionalLaplacian`, without subsampling.
        u0: features, (B, C, H, W).
        end_time: four times the variance over its first rate of change, unless given.
        steps: times at which to measure, besides the start.

    >>> from evolvent.operators import NonlocalDiffusion
    >>> L = NonlocalDiffusion(4, "gaussian", embedding="none", scale=0.1)
    >>> diffusion_decay(L, torch.randn(2, 4, 5, 5)).decays
    True
    """
    _check(operator, u0, end_time, steps)
    matrix = diffusion_matrix(operator, u0)
    u = u0.double().flatten(2).mT  # (B, N, C)
    end_time = _time_scale(matrix, u) if end_time is None else end_time
    propagator = torch.linalg.matrix_exp(end_time / steps * matrix)
    path = [u]
    for _ in range(steps):
        path.append(propagator @ path[-1])
    return DiffusionDecay(
        times=tuple(end_time * k / steps for k in range(steps + 1)),
        energy=tuple(v.square().sum().item() for v in path),
        variance=tuple(_fluctuation(v).square().mean(1).sum().item() for v in path),
        rate=tuple(_rate(matrix, v) for v in path),
        dissipation=tuple((matrix * torch.cdist(v, v).square()).sum().item() for v in path),
        gain=tuple((matrix @ v.square()).sum().item() for v in path),
    )


@torch.no_grad()
def diffusion_matrix(operator: NonlocalOperator, x: Tensor) -> Tensor:
    r"""A nonlocal operator with the kernel of ``x`` and the sign that damps, as a matrix on pixel strips, in float64.

    Args:
        operator: any nonlocal operator without subsampling, which would not be linear.
        x: features, (B, C, H, W).

    Shape: (B, H W, H W).
    """
    wide, x = copy.deepcopy(operator).double(), x.double()
    pixels = x.shape[2] * x.shape[3]
    units = torch.eye(pixels, dtype=x.dtype, device=x.device).expand(len(x), -1, -1)  # a channel for each pixel
    columns = wide.at(x)(units.unflatten(2, tuple(x.shape[2:])))
    return wide.damping_sign * columns.flatten(2).mT


def _check(operator: NonlocalOperator, u0: Tensor, end_time: float | None, steps: int) -> None:
    if not isinstance(operator, NonlocalDiffusion | FractionalLaplacian):
        raise ConfigError(
            f"{type(operator).__name__} sums strips and not their differences, so it is not a diffusion. "
            "Use NonlocalDiffusion or FractionalLaplacian."
        )
    if operator.subsample != 1:
        raise ConfigError(f"pooled strips do not make a linear flow, so subsample must be 1, got {operator.subsample}.")
    if u0.shape[2] * u0.shape[3] > _PIXELS:
        raise ConfigError(f"the matrix of all pairs is for up to {_PIXELS} pixels, got {tuple(u0.shape[2:])}.")
    check_whole(steps=steps)
    if end_time is not None:
        check_positive(end_time=end_time)


def _fluctuation(u: Tensor) -> Tensor:
    return u - u.mean(1, keepdim=True)


def _rate(matrix: Tensor, u: Tensor) -> float:
    return 2 * (u * (matrix @ u)).sum().item()


def _time_scale(matrix: Tensor, u: Tensor) -> float:
    fluctuation = _fluctuation(u)
    rate = abs(_rate(matrix, fluctuation))
    return 4 * fluctuation.square().sum().item() / rate if rate else 1.0
