"""Checks of an equation that is learned with a network: what went wrong, and what to do about it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError, NonFiniteError
from evolvent.equations import Derivatives, GoverningEquation

_LOST = 1e-3  # first derivative over the features themselves
_VANISHES = 1e-10
_DROWNED = 10.0  # loss of the equation over that of the classes
_DIVERGED = 1e4


class CoordinateLostWarning(UserWarning):
    """A normalisation removes a coordinate, so that its derivatives nearly vanish and no equation is learned."""


class DrownedLossWarning(UserWarning):
    """The loss of the equation is so much larger than that of the classes that the classes are hardly trained."""


def check_derivatives(equation: GoverningEquation, found: Sequence[Derivatives]) -> None:
    """Warn of coordinates that do not reach the features, and refuse derivatives that vanish everywhere.

    Raises:
        ConfigError: if a derivative that the equation asks for is 0 whatever the weights.
    """
    orders = equation.orders()
    for u in found:
        size = _root_mean_square(u.value)
        lost = [name for name in orders if _root_mean_square(u.of(name, 1)) < _LOST * size]
        if lost:
            warnings.warn(
                f"The features hardly depend on {', '.join(lost)}: a normalisation over single channels removes a "
                "shift of all coordinates. Choose model.options.norm=joint, or another one over several channels.",
                CoordinateLostWarning,
                stacklevel=4,
            )
        missing = [
            f"{equation.symbol}_{name * order}"
            for name, highest in orders.items()
            for order in range(2, highest + 1)
            if name not in lost and _root_mean_square(u.of(name, order)) <= _VANISHES * size
        ]
        if missing:
            raise ConfigError(
                f"the equation asks for {', '.join(missing)}, which vanish: the network is piecewise linear in its "
                "coordinates, as ReLU networks are. Use activation=softplus, a normalisation, or a smaller task.orders."
            )


def check_losses(initial: Tensor, governing: Tensor, equation: GoverningEquation) -> None:
    """Raise if the loss of the initial condition or of the equation is not finite, and say why that may be."""
    for name, loss in (("the initial condition", initial), ("the governing equation", governing)):
        if not torch.isfinite(loss.detach()):
            raise NonFiniteError(
                f"training stopped: the loss of {name} is {loss.item():g}; the largest coefficient is "
                f"{equation.sparsity().largest:.3g}. The last good checkpoint stays. Try a smaller optimizer.lr or "
                "task.equation.optimizer.lr, smaller task.powers or task.orders, or training.clip_norm."
            )


def check_coefficients(equation: GoverningEquation) -> None:
    """Raise if a coefficient diverges."""
    sizes = equation.alpha.detach().abs()
    if not sizes.max() <= _DIVERGED:
        worst = equation.terms[int(sizes.nan_to_num(torch.inf).argmax())].text
        raise NonFiniteError(
            f"training stopped: the coefficient of {worst!r} in the governing equation has grown to "
            f"{sizes.max().item():.3g}. Try a smaller task.equation.optimizer.lr, a larger task.sparsity, "
            "or smaller task.powers or task.orders."
        )


def warn_if_drowned(task_loss: float, governing: float) -> bool:
    """Warn if the weighted loss of the equation was far above that of the classes over an epoch; whether it was."""
    if governing <= _DROWNED * task_loss:
        return False
    warnings.warn(
        f"The loss of the governing equation, {governing:.3g}, drowns that of the classes, {task_loss:.3g}, so the "
        "classes are hardly trained. Lower task.governing, or update the equation more often (task.equation).",
        DrownedLossWarning,
        stacklevel=3,
    )
    return True


def _root_mean_square(u: Tensor) -> float:
    return u.detach().double().square().mean().sqrt().item()
