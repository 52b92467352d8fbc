"""A model of the time that layer-parallel solves take on many workers, by the steps and messages one after another."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class StepCosts:
    """Seconds of one step and of one message.

    Attributes:
        forward: a step without graph.
        taped: a step with graph.
        pull_back: its derivative with respect to the state.
        weights: its derivative with respect to the weights.
        backprop: both at once.
        message: handing one state to a neighbour.
    """

    forward: float
    taped: float
    pull_back: float
    weights: float
    backprop: float
    message: float


def critical_path(steps: int, coarsening: int, levels: int, workers: int, cycles: int) -> tuple[int, int]:
    """Steps and messages that one solve makes one after another on the busiest of ``workers``.

    On one worker these are all steps that :class:`~evolvent.gradients.LayerParallel` makes, which a test counts.
    """
    c = coarsening
    while levels > 2 and -(-steps // c ** (levels - 1)) < workers:
        levels -= 1
    blocks = -(-steps // c ** (levels - 1))
    local, whole = min(-(-blocks // min(workers, blocks)) * c ** (levels - 1), steps), steps
    count, messages = local - local // c, 0  # the first relaxation of fine points
    for level in range(levels - 1):
        coarse = local // c
        fine = local - coarse
        per_cycle = 3 * coarse + 2 * fine + (fine if level else 0)  # C, F, residual, coarse step, F; F on entering
        exchanges = 1 + (2 * math.ceil(math.log2(workers)) if level == 0 else 0)  # the norm is summed over all
        count += cycles * per_cycle
        messages += cycles * exchanges if workers > 1 else 0
        local, whole = coarse, -(-whole // c)
    return count + cycles * whole, messages + cycles * (workers - 1)


def modelled_speedup(
    steps: int, coarsening: int, levels: int, workers: int, cycles: tuple[int, int], costs: StepCosts
) -> float:
    """Serial time of a forward and backward pass over the modelled time on ``workers``.

    Args:
        cycles: V-cycles of the forward and of the backward solve.
    """
    forward, sent = critical_path(steps, coarsening, levels, workers, cycles[0])
    backward, sent_back = critical_path(steps, coarsening, levels, workers, cycles[1])
    share = -(-steps // workers)
    taped = share * (1 + 1 / (coarsening - 1)) * costs.taped + share * costs.weights
    seconds = forward * costs.forward + backward * costs.pull_back + taped + (sent + sent_back) * costs.message
    return steps * (costs.taped + costs.backprop) / seconds
