"""What each variant costs: bars and a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evolvent.experiments.record import Cost
from evolvent.report.markup import figure, key, section, table, text
from evolvent.report.numbers import count, memory, short
from evolvent.report.runs import Series
from evolvent.report.theme import series_colour


def cost_section(all_series: Sequence[Series]) -> str:
    """Parameters, multiply-adds and activation memory side by side."""
    costs = [(series, series.results[0].cost) for series in all_series if series.results]
    if not costs:
        return ""
    bars = [
        _bars("Parameters", costs, lambda cost: cost.parameters, count),
        _bars("Multiply-adds of one image, forward", costs, lambda cost: cost.multiply_adds, short),
        _bars("Activations kept for the backward pass of a batch", costs, lambda cost: cost.activation_bytes, memory),
    ]
    lead = "Activation memory is what the gradient strategy keeps for the backward pass of one training batch."
    return section("cost", "Cost", f'<div class="panels">{"".join(bars)}</div>{_table(costs)}', lead)


def _bars(
    title: str, costs: Sequence[tuple[Series, Cost]], measure: Callable[[Cost], int], write: Callable[[float], str]
) -> str:
    largest = max(measure(cost) for _, cost in costs) or 1
    rows = "".join(
        f"<li><span>{text(series.label)}</span><b>{text(write(measure(cost)))}</b>"
        f'<i style="--c:{series_colour(series.index)};width:{100 * measure(cost) / largest:.1f}%"></i></li>'
        for series, cost in costs
    )
    return figure(f'<ul class="bars">{rows}</ul>', title, "card")


def _table(costs: Sequence[tuple[Series, Cost]]) -> str:
    head = ["Variant", "Gradient", "Batch", "Activations", "Per image", "Parameters", "Multiply-adds", "Device"]
    rows = [
        [
            key(series) + text(series.label),
            text(cost.gradient),
            count(cost.batch_size),
            text(memory(cost.activation_bytes)),
            text(memory(cost.activation_bytes / max(cost.batch_size, 1))),
            count(cost.parameters),
            text(short(cost.multiply_adds)),
            text(cost.device),
        ]
        for series, cost in costs
    ]
    return table("Cost of each variant", head, rows)
