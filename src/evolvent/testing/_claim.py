"""A claim that is measured; unlike ``assert`` it is measured under ``python -O`` too."""

from __future__ import annotations

from torch import Tensor


def claim(holds: bool, message: str) -> None:
    """Raise :class:`AssertionError` unless ``holds``."""
    if not holds:
        raise AssertionError(message)


def finite_gradient(gradient: Tensor | None, owner: str) -> Tensor:
    """The gradient, which must be there and finite."""
    if gradient is None:
        raise AssertionError(f"{owner} gets no gradient, it must get one.")
    claim(bool(gradient.isfinite().all()), f"{owner} gets a gradient that is not finite.")
    return gradient
