"""The training loop of all studies; networks this small need no engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.tasks import evaluating

History: TypeAlias = dict[str, list[float]]
"""What was measured during a training, by name."""


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch_at: Callable[[int], tuple[Tensor, Tensor]],
    steps: range,
    *,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    measure: Callable[[int, float], Mapping[str, float]] | None = None,
    every: int = 1,
    tell: Callable[[float], None] | None = None,
) -> History:
    """Train a network, and measure it now and then.

    Args:
        model: trained in training mode, which it is left in.
        optimizer: over its parameters; any kind, those that evaluate the objective several times a step included.
        batch_at: inputs and classes of a step, such as :meth:`evolvent.data.Batches.at`; asked once for each step.
        steps: numbers of the steps.
        loss: of the network's answers, given the classes.
        schedule: of the learning rate, advanced after each step.
        measure: called with the number of steps taken and the loss of the last; what it gives joins the history.
        every: steps from one measurement to the next.
        tell: called with the share of the steps that have been taken, at each measurement.

    >>> from evolvent.tasks.accuracy import accuracy
    >>> x, y = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1])
    >>> model = nn.Linear(1, 2)
    >>> sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    >>> found = fit(model, sgd, lambda step: (x, y), range(50), every=25, measure=lambda step, loss: {"loss": loss})
    >>> found["loss"][1] < found["loss"][0], accuracy(model(x), y)
    (True, 1.0)
    """
    history: History = {}
    for step in steps:
        model.train()
        last = _step(model, optimizer, batch_at(step), loss)
        if schedule:
            schedule.step()
        done = step - steps.start + 1
        if done % every == 0:
            for name, value in (measure(done, last) if measure else {}).items():
                history.setdefault(name, []).append(value)
            if tell:
                tell(done / len(steps))
    return history


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[Tensor, Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> float:
    """The loss before the step."""

    def objective() -> float:
        optimizer.zero_grad()
        found = loss(model(batch[0]), batch[1])
        found.backward()
        return found.item()

    return optimizer.step(objective)


def answers_of(model: nn.Module, inputs: Tensor) -> Tensor:
    """What the network answers in evaluation mode."""
    with evaluating(model):
        return model(inputs)
