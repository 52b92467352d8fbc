"""What each variant costs: the whole network, and layer by layer where that was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.experiments.record import Cost
from evolvent.report.analyses import analysed
from evolvent.report.axes import few_ticks, new_plot
from evolvent.report.markup import figure, legend, section, swatch, table, text
from evolvent.report.numbers import count, memory, milliseconds, percent, short
from evolvent.report.runs import Series
from evolvent.report.theme import series_colour, series_dash, series_sentinel, themed_svg

_MEASURES = {
    "multiply_adds": "Multiply-adds of one row, forward",
    "activation_bytes": "Activations kept for the backward pass",
    "seconds": "Time of the batch, forward",
}
_UNITS = {
    "multiply_adds": ((1e9, "G"), (1e6, "M"), (1e3, "k")),
    "activation_bytes": ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")),
    "seconds": ((1.0, "s"), (1e-3, "ms")),
}
Found = list[tuple[Series, dict[str, Any]]]


def cost_section(all_series: Sequence[Series]) -> str:
    """Parameters, multiply-adds and activation memory side by side."""
    costs = [(series, series.results[0].cost) for series in all_series if series.results]
    if not costs:
        return ""
    bars = [
        _bars("Parameters", costs, lambda cost: cost.parameters, count),
        _bars("Multiply-adds of one row, forward", costs, lambda cost: cost.multiply_adds, short),
        _bars("Activations kept for the backward pass of a batch", costs, lambda cost: cost.activation_bytes, memory),
    ]
    lead = "Activation memory is what the gradient strategy keeps for the backward pass of one training batch."
    return section("cost", "Cost", f'<div class="panels">{"".join(bars)}</div>{_table(costs)}', lead)


def _bars(
    title: str,
    costs: Sequence[tuple[Series, Cost]],
    measure: Callable[[Cost], int | None],
    write: Callable[[float | None], str],
) -> str:
    measured = [(series, value) for series, cost in costs if (value := measure(cost)) is not None]
    largest = max((value for _, value in measured), default=0) or 1
    rows = "".join(
        f"<li><span>{text(series.label)}</span><b>{text(write(value))}</b>"
        f'<i style="--c:{series_colour(series.index)};width:{100 * value / largest:.1f}%"></i></li>'
        for series, value in measured
    )
    return figure(f'<ul class="bars">{rows}</ul>', title, "card") if rows else ""


def _table(costs: Sequence[tuple[Series, Cost]]) -> str:
    head = ["Variant", "Gradient", "Batch", "Activations", "Per row", "Parameters", "Multiply-adds", "Device"]
    rows = [
        [
            swatch(series) + text(series.label),
            text(cost.gradient),
            count(cost.batch_size),
            text(memory(cost.activation_bytes)),
            text(memory(None if cost.activation_bytes is None else cost.activation_bytes / max(cost.batch_size, 1))),
            count(cost.parameters),
            text(short(cost.multiply_adds)),
            text(cost.device),
        ]
        for series, cost in costs
    ]
    return table("Cost of each variant", head, rows)


def layers_section(all_series: Sequence[Series]) -> str:
    """A panel for each measure, then the tables, folded."""
    found: Found = [(series, seeds[0]) for series, seeds in analysed(all_series, "cost")]
    if not found:
        return ""
    panels = "".join(_layer_panel(found, measure) for measure in _MEASURES)
    sizes = dict.fromkeys(str(table_["batch_size"]) for _, table_ in found)
    lead = (
        f"Layers in the order of the network, for a batch of {' and '.join(sizes)}. Times are the least of "
        "several runs on the machine that analysed it; parameters, multiply-adds and memory are exact."
    )
    html = legend([series for series, _ in found]) + f'<div class="panels">{panels}</div>'
    return section("layers", "Cost per layer", html + "".join(_layer_table(*pair) for pair in found), lead)


def _layer_panel(found: Found, measure: str) -> str:
    title = _MEASURES[measure]
    largest = max((layer[measure] for _, costs in found for layer in costs["layers"]), default=0)
    size, unit = next(((size, unit) for size, unit in _UNITS[measure] if largest >= size), _UNITS[measure][-1])
    drawing, axes = new_plot(height=2.2)
    for series, costs in found:
        values = np.array([layer[measure] for layer in costs["layers"]], dtype=np.float64) / size
        places = np.arange(1, len(values) + 1)
        colour, dash = series_sentinel(series.index), series_dash(series.index)
        axes.step(places, values, where="mid", color=colour, linewidth=1.6, linestyle=dash)
        axes.plot(places, values, "o", color=colour, markersize=3.5)
    axes.set_xlabel("layer")
    few_ticks(axes.xaxis, whole=True)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} {unit}")
    return figure(themed_svg(drawing, f"layers-{measure}", f"{title}, layer by layer"), title, "card")


def _layer_table(series: Series, costs: dict[str, Any]) -> str:
    head = ["Layer", "Name", "Kind", "Parameters", "Multiply-adds", "Activations", "Time", "Share of time"]
    total = costs["total"]
    rows = [[str(k), *_layer_cells(layer, total)] for k, layer in enumerate(costs["layers"], 1)]
    layers = len(rows)
    rows += [["between", *_layer_cells(layer, total)] for layer in costs["between"]]
    rows.append(["all", *_layer_cells(total, total)])
    plain = f"Without the hooks that time its layers the network takes {milliseconds(costs['plain_seconds'])}."
    title = f"<summary>{swatch(series)}<b>{text(series.label)}</b>: {layers} layers</summary>"
    body = table(f"Layers of {series.label}", head, rows)
    return f"<details>{title}{body}<p><small>{text(plain)}</small></p></details>"


def _layer_cells(layer: dict[str, Any], total: dict[str, Any]) -> list[str]:
    return [
        f"<code>{text(layer['name'])}</code>",
        text(layer["kind"]),
        count(layer["parameters"]),
        text(short(layer["multiply_adds"])),
        text(memory(layer["activation_bytes"])),
        text(milliseconds(layer["seconds"])),
        text(percent(layer["seconds"] / (total["seconds"] or 1))),
    ]
