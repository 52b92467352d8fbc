"""Fields: functions on a rectangle as colours, beside their reference and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evolvent.report.axes import few_ticks, styled
from evolvent.report.markup import figure, section
from evolvent.report.numbers import decimal
from evolvent.report.pixels import shrink
from evolvent.report.subjects import Found, Group, Subject, folded, groups, left_out, pictured
from evolvent.report.theme import FAINT, themed_svg
from evolvent.tasks.findings import Field

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIMIT = 96  # pixels along the longer side; the picture is smoothed
_SHADES = 64  # fewer compress better than the eye can tell
_VALUES, _SIGNED = "viridis", "RdBu_r"  # colour maps; opaque, so that light and dark pages show the same


def fields_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title, with the first seed of each subject."""
    html = ""
    for k, group in enumerate(groups(subjects, "fields")):
        shown = [(found, f"field-{k}-{n}") for n, found in enumerate(pictured(group))]
        if all(found.items[0].reference is None for found, _ in shown):
            body = f'<div class="panels">{"".join(_alone(found, group, name) for found, name in shown)}</div>'
        else:
            body = "".join(folded(found, group, _with_reference(found, name)) for found, name in shown)
        several = any(len(found.items) > 1 for found in group.found)
        lead = ("Of several seeds the first is shown." if several else "") + left_out(group)
        html += section(f"field-{k}", group.title, body, lead.strip())
    return html


def _alone(found: Found, group: Group, name: str) -> str:
    """The field by itself, with the subject's name above if there are several."""
    field: Field = found.items[0]
    values = np.asarray(field.values, dtype=np.float64)
    return _panel(field, values, limits(values), _VALUES, found.label if len(group.found) > 1 else "", name)


def _with_reference(found: Found, name: str) -> str:
    """Field and reference on one scale, and their difference on its own."""
    field: Field = found.items[0]
    values = np.asarray(field.values, dtype=np.float64)
    if field.reference is None:
        return f'<div class="panels">{_panel(field, values, limits(values), _VALUES, "Network", name)}</div>'
    reference = np.asarray(field.reference, dtype=np.float64)
    common = limits(np.concatenate([values.ravel(), reference.ravel()]))
    difference = values - reference
    reach = max(map(abs, limits(difference))) or 1.0
    panels = [
        _panel(field, values, common, _VALUES, "Network", f"{name}-0"),
        _panel(field, reference, common, _VALUES, "Reference", f"{name}-1"),
        _panel(field, difference, (-reach, reach), _SIGNED, _size(difference, reference), f"{name}-2"),
    ]
    return f'<div class="panels">{"".join(panels)}</div>'


def limits(values: np.ndarray) -> tuple[float, float]:
    """The least and the largest finite value.

    >>> limits(np.array([1.0, np.nan, 3.0]))
    (1.0, 3.0)
    """
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _size(difference: np.ndarray, reference: np.ndarray) -> str:
    """Caption of a difference: its largest value, and its root mean square relative to that of the reference."""
    largest = max(map(abs, limits(difference)))
    scale = np.sqrt(np.nanmean(reference**2)) if np.isfinite(reference).any() else 0.0
    size = np.sqrt(np.nanmean(difference**2)) / scale if scale > 0 and np.isfinite(difference).any() else None
    relative = "" if size is None else f", relative {decimal(float(size), 2)}"
    return f"Difference: at most {decimal(largest, 2)}{relative}"


def _panel(field: Field, values: np.ndarray, span: tuple[float, float], colours: str, caption: str, name: str) -> str:
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(4.3, 3.1), layout="constrained")
    drawing.patch.set_visible(False)
    axes, bar = drawing.subplots(1, 2, width_ratios=(16, 1))
    low, high = span if span[1] > span[0] else (span[0] - 0.5, span[0] + 0.5)
    axes.imshow(_colours(shrink(values, _LIMIT), low, high, colours), extent=field.extent, origin="lower",
                aspect="auto", interpolation="none")  # fmt: skip
    for path in () if field.paths is None else np.asarray(field.paths, dtype=np.float64):
        axes.plot(*path.T, color="white", linewidth=0.7, alpha=0.8)
        axes.plot(*path[-1], "o", color="white", markersize=1.8)
    axes.set(xlim=field.extent[:2], ylim=field.extent[2:])
    _frame(axes)
    axes.set_xlabel(field.x_label)
    axes.set_ylabel(field.y_label)
    _colour_bar(bar, low, high, colours)
    description = f"{field.title}{f', {caption}' if caption else ''}: from {low:.3g} to {high:.3g}"
    return figure(themed_svg(drawing, name, description), caption, "card field")


def _frame(axes: Axes) -> None:
    styled(axes)
    axes.grid(False)
    for axis in (axes.xaxis, axes.yaxis):
        few_ticks(axis)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(FAINT)


def _colour_bar(axes: Axes, low: float, high: float, colours: str) -> None:
    """A column of all shades; drawn as a picture, since matplotlib's own has a path for each shade."""
    shades = np.linspace(low, high, _SHADES)[:, None]
    axes.imshow(_colours(shades, low, high, colours), extent=(0, 1, low, high), origin="lower", aspect="auto",
                interpolation="none")  # fmt: skip
    _frame(axes)
    axes.set_xticks([])
    axes.yaxis.tick_right()


def _colours(values: np.ndarray, low: float, high: float, name: str) -> np.ndarray:
    """Values as opaque colours; what is not finite is transparent.

    Shape: (H, W) -> (H, W, 4) uint8.
    """
    from matplotlib import colormaps

    known = np.isfinite(values)
    place = np.where(known, (np.where(known, values, low) - low) / (high - low), 0.0)
    pixels = colormaps[name](np.rint(np.clip(place, 0, 1) * (_SHADES - 1)) / (_SHADES - 1), bytes=True)
    pixels[~known] = 0
    return pixels
