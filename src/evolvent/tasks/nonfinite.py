"""Stopping at the first NaN or infinity, with the layer where it came from."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent._core.errors import NonFiniteError


def check_finite(
    model: nn.Module, loss: Tensor, step: int, gradient_norm: Tensor | None, kept: int | None = None
) -> None:
    """Raise if the loss or a gradient is NaN or infinite, before the optimiser can spread it.

    Args:
        model: a network after its backward pass.
        loss: the loss of this step.
        step: number of the step, for the message.
        gradient_norm: norm of all gradients; None if there are none.
        kept: step of the checkpoint from which the training can go on; None if there is none.

    Raises:
        NonFiniteError: names the step and the layer whose gradient was first not finite: the one nearest to the output
            among all such, since the backward pass meets it first. If only the norm of all gradients overflows, the
            layer with the largest gradient is named.
    """
    if torch.isfinite(loss.detach() if gradient_norm is None else loss.detach() + gradient_norm):
        return
    if kept is None:
        advice = "There is no checkpoint yet. Start again with a smaller optimizer.lr"
    else:
        advice = f"The checkpoint of step {kept} stays. Go on from it with --resume and a smaller --set optimizer.lr"
    culprit = _culprit(model, bool(loss.isfinite()))
    raise NonFiniteError(
        f"training stopped at step {step}: the loss is {loss.item():g} and {culprit}. {advice}, "
        "or with a schedule.warmup, training.clip_norm or smaller step_size."
    )


def _culprit(model: nn.Module, loss_is_finite: bool) -> str:
    gradients = [(name, p.grad) for name, p in reversed(list(model.named_parameters())) if p.grad is not None]
    for name, gradient in gradients:
        if not gradient.isfinite().all():
            return f"the gradient of {_layer(name)} was the first that was not finite"
    if not loss_is_finite or not gradients:
        return "no layer has a gradient that is not finite"
    largest = max(gradients, key=lambda named: named[1].abs().max().item() if named[1].numel() else 0.0)[0]
    return f"the norm of the gradients is not finite, that of {_layer(largest)} being the largest"


def _layer(name: str) -> str:
    return repr(name.removeprefix("model."))
