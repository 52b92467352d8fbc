"""Stopping at the first NaN or infinity, with the layer where it came from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from evolvent._core.errors import NonFiniteError


def check_finite(
    model: nn.Module,
    loss: Tensor,
    step: int,
    gradient_norm: Tensor | None,
    find_checkpoint: Callable[[], int | None] = lambda: None,
) -> None:
    """Raise if the loss or a gradient is NaN or infinite, before the optimiser can spread it.

    Args:
        model: a network after its backward pass.
        loss: the loss of this step.
        step: number of the step, for the message.
        gradient_norm: norm of all gradients; None if there are none.
        find_checkpoint: gives the step of the checkpoint from which a run with a smaller learning rate goes on; None
            if there is none. Called only before an error.

    Raises:
        NonFiniteError: names the step and the layer whose gradient was first not finite: the one nearest to the output
            among all such, since the backward pass meets it first. If only the norm of all gradients overflows, the
            layer with the largest gradient is named, and if the loss alone is not finite, a layer with such weights.
    """
    if torch.isfinite(loss.detach() if gradient_norm is None else loss.detach() + gradient_norm):
        return
    culprit = _culprit(model, bool(loss.isfinite()))
    raise NonFiniteError(
        f"training stopped at step {step}: the loss is {loss.item():g} and {culprit}. {_advice(find_checkpoint())}"
    )


def _advice(checkpoint: int | None) -> str:
    slower = "a smaller optimizer.lr, a schedule.warmup or training.clip_norm"
    if checkpoint is None:
        return f"There is no checkpoint yet. Start again with {slower}, or a smaller step_size."
    return f"Go on from step {checkpoint} with --resume and --set of {slower}; a smaller step_size needs a new run."


def _culprit(model: nn.Module, loss_is_finite: bool) -> str:
    gradients = [(name, p.grad) for name, p in reversed(list(model.named_parameters())) if p.grad is not None]
    for name, gradient in gradients:
        if not gradient.isfinite().all():
            return f"the gradient of {_layer(name)} was the first that was not finite"
    if not loss_is_finite or not gradients:
        return _weights_or_loss(model)
    largest = max(gradients, key=lambda named: named[1].abs().max().item() if named[1].numel() else 0.0)[0]
    return f"the norm of the gradients is not finite, that of {_layer(largest)} being the largest"


def _weights_or_loss(model: nn.Module) -> str:
    """What is not finite where no gradient is to blame: weights or statistics of a layer, or the loss alone."""
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if not value.isfinite().all():
            return f"{_layer(name)} is the first of the weights that is not finite"
    return "all gradients and weights are finite: only the loss overflowed"


def _layer(name: str) -> str:
    return repr(name.removeprefix("model."))
