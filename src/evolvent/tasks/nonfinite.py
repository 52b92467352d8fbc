"""Stopping at the first NaN or infinity, with the layer where it came from."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent._core.errors import NonFiniteError


def check_finite(model: nn.Module, loss: Tensor, step: int, gradient_norm: Tensor | None) -> None:
    """Raise if the loss or a gradient is NaN or infinite, before the optimiser can spread it.

    Args:
        model: a network after its backward pass.
        loss: the loss of this step.
        step: number of the step, for the message.
        gradient_norm: norm of all gradients; None if there are none.

    Raises:
        NonFiniteError: names the step and the layer whose gradient was first not finite: the one nearest to the output
            among all such, since the backward pass meets it first.
    """
    if torch.isfinite(loss.detach() if gradient_norm is None else loss.detach() + gradient_norm):
        return
    raise NonFiniteError(
        f"training stopped at step {step}: the loss is {loss.item():g} and the gradient of "
        f"{_first_nonfinite(model)} was the first that was not finite. The last good checkpoint stays. "
        "Try a smaller optimizer.lr, a schedule.warmup, training.clip_norm, or a smaller step_size of the network."
    )


def _first_nonfinite(model: nn.Module) -> str:
    for name, parameter in reversed(list(model.named_parameters())):
        if parameter.grad is not None and not parameter.grad.isfinite().all():
            return repr(name.removeprefix("model."))
    return "no layer"
