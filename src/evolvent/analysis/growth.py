"""How a perturbation of the initial state grows along an evolution."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State
from evolvent.analysis.linearisation import largest_singular_value, linearise, unit_rows
from evolvent.analysis.states import StateLayout, spread
from evolvent.evolution import Evolution


@dataclass(frozen=True)
class Growth:
    """Growth of perturbations, relative to their size at the start."""

    times: tuple[float, ...]
    random: tuple[float, ...]  # mean over random perturbations and samples
    worst: tuple[float, ...]  # of the perturbation that grows most up to that time, largest over samples


def perturbation_growth(
    evolution: Evolution,
    u0: State,
    *,
    probes: int = 4,
    size: float = 1e-2,
    points: int = 9,
    iterations: int = 50,
    tolerance: float = 1e-4,
    batched: bool = True,
    generator: torch.Generator | None = None,
) -> Growth:
    r"""Growth :math:`\|\Phi_t(u_0 + e) - \Phi_t(u_0)\| / \|e\|` of the flow :math:`\Phi_t` along time.

    For random :math:`e` it is measured; for the worst small :math:`e` it is the norm of the flow's Jacobian,
    :math:`\|\partial \Phi_t / \partial u_0\|_2`, by power iteration, which bounds it from below.

    Args:
        evolution: measured in evaluation mode and left as it was.
        u0: initial states. Features give growth of features; a pair gives growth of the whole state.
        probes: random perturbations of each sample.
        size: their norm relative to the state's.
        points: times at which to look, evenly spread.
        iterations, tolerance: see :func:`~evolvent.analysis.linearisation.largest_singular_value`.
        batched: whether the first axis counts independent samples.
        generator: for the random perturbations; a fixed one unless given.

    >>> from evolvent.dynamics import Hamiltonian
    >>> from evolvent.integrators import Verlet
    >>> flow = Evolution([Hamiltonian(2) for _ in range(4)], Verlet(), step_size=0.1)
    >>> found = perturbation_growth(flow, torch.randn(2, 4, 8, 8))
    >>> found.times, found.worst[0]
    ((0.0, 0.1, 0.2, 0.3..., 0.4), 1.0)
    """
    layout = StateLayout.of(u0, batched)
    generator = generator or torch.Generator().manual_seed(0)
    chosen = spread(evolution.steps + 1, points)
    with evaluation_mode(evolution), torch.enable_grad():
        x = layout.rows(u0).detach().requires_grad_()
        values = _values(evolution, layout, x)
        random = _random_growth(evolution, layout, x.detach(), [v.detach() for v in values], probes, size, generator)
        worst, direction = [1.0], _noise(x, generator)
        for j in chosen[1:]:
            # some noise, in case the previous direction is orthogonal to the leading one at this time
            start = direction + 0.3 * _noise(x, generator)
            map_ = linearise(lambda rows, j=j: _values(evolution, layout, rows)[j], x, values[j])
            norms, direction = largest_singular_value(map_, start, iterations, tolerance)
            worst.append(norms.max().item())
    times = tuple(j * evolution.step_size for j in chosen)
    return Growth(times, tuple(random[j].item() for j in chosen), tuple(worst))


def _values(evolution: Evolution, layout: StateLayout, rows: Tensor) -> list[Tensor]:
    return [layout.rows(u) for u in evolution.trajectory(layout.state(rows))]


def _noise(x: Tensor, generator: torch.Generator) -> Tensor:
    """Directions of length one."""
    return unit_rows(torch.randn(x.shape, dtype=x.dtype, generator=generator).to(x.device))


@torch.no_grad()
def _random_growth(
    evolution: Evolution,
    layout: StateLayout,
    x: Tensor,
    values: list[Tensor],
    probes: int,
    size: float,
    generator: torch.Generator,
) -> Tensor:
    """(times,)"""
    norms = x.norm(dim=1, keepdim=True)
    length = size * torch.where(norms > 0, norms, torch.ones_like(norms))
    found = []
    for _ in range(probes):
        moved = _values(evolution, layout, x + length * _noise(x, generator))
        found.append(torch.stack([(a - b).norm(dim=1) / length[:, 0] for a, b in zip(moved, values, strict=True)]))
    return torch.stack(found).mean(dim=(0, 2))
