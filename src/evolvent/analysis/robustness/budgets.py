"""Budgets of attacks: the largest change of a pixel, as a share of the range from black to white."""

from __future__ import annotations

from collections.abc import Sequence, Sized

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, shortened

PAPER_BUDGETS = (0.5 / 255, 1 / 255, 3 / 255)
"""Those of the PR-Net paper, Appendix G."""


def check_budgets(budgets: Sequence[float], name: str = "eps") -> None:
    """Refuse budgets outside (0, 1), and none at all."""
    if isinstance(budgets, str) or not isinstance(budgets, Sized):
        raise ConfigError(f"{name} is a list of budgets, such as [1/255, 3/255], got {told(budgets)}.")
    if not len(budgets):
        raise ConfigError("an attack needs a budget eps, such as 3/255, got none.")
    for eps in budgets:
        if not hasattr(eps, "__float__"):
            raise ConfigError(f"{name} must be a number, such as 3/255 without quotes, got {told(eps)}.")
        if eps >= 1:
            meant = f"Did you mean {eps:g}/255?" if eps < 255 else "Give less than 1, as in 3/255."
            raise ConfigError(
                f"{name} is {eps:g}, but pixels lie between 0 and 1, so that every image is within reach. {meant}"
            )
        if not eps > 0:
            raise ConfigError(f"{name} must be positive, as in 3/255, got {eps:g}.")


def parse_budgets(text: str, name: str = "eps") -> list[float]:
    """Budgets as the command line takes them.

    >>> parse_budgets("0.5/255, 0.01")
    [0.00196078431372549, 0.01]
    """
    found = [_number(part, name) for part in text.split(",")]
    check_budgets(found, name)
    return found


def _number(text: str, name: str) -> float:
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        given = shortened(repr(text))
        raise ConfigError(f"{name} must be a number or a fraction such as 3/255, got {given}.") from None


def budget_text(eps: float) -> str:
    """A budget in levels of a byte.

    >>> budget_text(3 / 255), budget_text(0.5 / 255)
    ('3/255', '0.5/255')
    """
    return f"{round(255 * eps, 4):g}/255"
