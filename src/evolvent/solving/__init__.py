"""Problems solved in one call: a plan within a budget, the solution that comes of it, and whether to trust it.

Names load when first used, since the engine imports Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolvent._core.lazy import attach

if TYPE_CHECKING:
    from evolvent.solving.loading import load
    from evolvent.solving.plan import METHODS, Pace
    from evolvent.solving.solution import OutsideDomainWarning, Solution
    from evolvent.solving.solve import solve

_NAMES = {
    "loading": ("load",),
    "plan": ("METHODS", "Pace"),
    "solution": ("OutsideDomainWarning", "Solution"),
    "solve": ("solve",),
}

__all__ = ["METHODS", "OutsideDomainWarning", "Pace", "Solution", "load", "solve"]

__getattr__, __dir__ = attach(__name__, (), {f"{__name__}.{home}": names for home, names in _NAMES.items()})
