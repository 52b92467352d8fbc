"""What each layer costs: curves over depth, and a table for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.report.analyses import analysed
from evolvent.report.axes import plain_axes, whole_numbers
from evolvent.report.curves import new_plot
from evolvent.report.markup import figure, key, legend, section, table, text
from evolvent.report.numbers import count, memory, percent, short
from evolvent.report.runs import Series
from evolvent.report.theme import series_dash, series_sentinel, themed_svg

MEASURES = {
    "multiply_adds": "Multiply-adds of one image, forward",
    "activation_bytes": "Activations kept for the backward pass",
    "seconds": "Time of the batch, forward",
}
_UNITS = {
    "multiply_adds": ((1e9, "G"), (1e6, "M"), (1e3, "k")),
    "activation_bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")),
    "seconds": ((1.0, "s"), (1e-3, "ms")),
}
Found = list[tuple[Series, dict[str, Any]]]


def layers_section(all_series: Sequence[Series]) -> str:
    """A panel for each measure, then the tables, folded."""
    found: Found = [(series, seeds[0]) for series, seeds in analysed(all_series, "cost")]
    if not found:
        return ""
    panels = "".join(_panel(found, measure) for measure in MEASURES)
    sizes = dict.fromkeys(str(table_["batch_size"]) for _, table_ in found)
    lead = (
        f"Layers in the order of the network, for a batch of {' and '.join(sizes)}. Times are the least of "
        "several runs on the machine that analysed it; parameters, multiply-adds and memory are exact."
    )
    html = legend([series for series, _ in found]) + f'<div class="panels">{panels}</div>'
    return section("layers", "Cost per layer", html + "".join(_details(*pair) for pair in found), lead)


def milliseconds(seconds: float) -> str:
    """A short time.

    >>> milliseconds(0.01234)
    '12.3 ms'
    """
    return f"{1000 * seconds:.3g} ms"


def _panel(found: Found, measure: str) -> str:
    title = MEASURES[measure]
    largest = max((layer[measure] for _, costs in found for layer in costs["layers"]), default=0)
    size, unit = next(((size, unit) for size, unit in _UNITS[measure] if largest >= size), _UNITS[measure][-1])
    drawing, axes = new_plot(height=2.2)
    plain_axes(axes)
    for series, costs in found:
        values = np.array([layer[measure] for layer in costs["layers"]], dtype=np.float64) / size
        places = np.arange(1, len(values) + 1)
        colour, dash = series_sentinel(series.index), series_dash(series.index)
        axes.step(places, values, where="mid", color=colour, linewidth=1.6, linestyle=dash)
        axes.plot(places, values, "o", color=colour, markersize=3.5)
    axes.set_xlabel("layer")
    whole_numbers(axes)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} {unit}")
    return figure(themed_svg(drawing, f"layers-{measure}", f"{title}, layer by layer"), title, "card")


def _details(series: Series, costs: dict[str, Any]) -> str:
    head = ["Layer", "Name", "Kind", "Parameters", "Multiply-adds", "Activations", "Time", "Share of time"]
    total = costs["total"]
    rows = [[str(k), *_cells(layer, total)] for k, layer in enumerate(costs["layers"], 1)]
    layers = len(rows)
    rows += [["between", *_cells(layer, total)] for layer in costs["between"]]
    rows.append(["all", *_cells(total, total)])
    plain = f"Without the hooks that time its layers the network takes {milliseconds(costs['plain_seconds'])}."
    title = f"<summary>{key(series)}<b>{text(series.label)}</b>: {layers} layers</summary>"
    body = table(f"Layers of {series.label}", head, rows)
    return f"<details>{title}{body}<p><small>{text(plain)}</small></p></details>"


def _cells(layer: dict[str, Any], total: dict[str, Any]) -> list[str]:
    return [
        f"<code>{text(layer['name'])}</code>",
        text(layer["kind"]),
        count(layer["parameters"]),
        text(short(layer["multiply_adds"])),
        text(memory(layer["activation_bytes"])),
        text(milliseconds(layer["seconds"])),
        text(percent(layer["seconds"] / (total["seconds"] or 1))),
    ]
