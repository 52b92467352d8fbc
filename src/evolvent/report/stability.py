"""Stability of each evolution: growth of perturbations, energy, spectrum, the way back, the largest step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent.report.analyses import analysed, median, numbers
from evolvent.report.axes import log_axis, new_plot, unit_axis, zero_lines
from evolvent.report.lines import Line, median_line
from evolvent.report.markup import figure, legend, section, swatch, table, text
from evolvent.report.numbers import decimal, percent
from evolvent.report.runs import Series
from evolvent.report.theme import series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 6  # evolutions with panels of their own

Part = dict[str, Any]
Found = list[tuple[Series, list[Part]]]  # the seeds of a series, each with what was found of one evolution
Draw = Callable[["Axes", Series, list[Part]], None]


def stability_section(all_series: Sequence[Series]) -> str:
    """A row of panels for each measure, one panel per evolution; then a table."""
    found = analysed(all_series, "stability")
    if not found:
        return ""
    by_evolution = list(_by_evolution(found))
    rows = [
        _row("Growth of perturbations", "solid: the worst; dashed: random ones", "growth", by_evolution, draw_growth),
        _row("Change of energy", "of the norm where there is no energy", "energy", by_evolution, draw_energy),
        _row("Eigenvalues of the Jacobian", "real and imaginary part", "spectrum", by_evolution, draw_spectrum),
        _row("Error on the way back", "solid: float32; dashed: float64", "back", by_evolution, draw_way_back),
    ]
    lead = (
        "Growth is the size of a perturbation at time t relative to its size at the start of the evolution, which "
        "ends at T. The largest stable step follows from the eigenvalues of the right-hand side and from the "
        "stability limits of the method; oscillations can grow with any step. Steps back are compared in float32."
    )
    shown = [series for series, _ in found]
    html = legend(shown) + "".join(rows) + _table(by_evolution) + _warnings(found)
    return section("stability", "Stability", html, lead)


def _by_evolution(found: list[tuple[Series, list[Part]]]) -> Iterator[Found]:
    most = max(len(seed["evolutions"]) for _, seeds in found for seed in seeds)
    for k in range(min(most, MOST)):
        parts = [(s, [seed["evolutions"][k] for seed in seeds if k < len(seed["evolutions"])]) for s, seeds in found]
        yield [(series, seeds) for series, seeds in parts if seeds]


def _row(title: str, note: str, name: str, by_evolution: Sequence[Found], draw: Draw) -> str:
    panels = [_panel(f"{name}-{k}", f"{title}, evolution {k}", found, draw) for k, found in enumerate(by_evolution, 1)]
    panels = [panel for panel in panels if panel]
    heading = f"<h3>{text(title)} <small>{text(note)}</small></h3>"
    return f'{heading}<div class="panels">{"".join(panels)}</div>' if panels else ""


def _panel(name: str, title: str, found: Found, draw: Draw) -> str:
    drawing, axes = new_plot(height=2.4)
    axes.set_xlabel("time t / T")
    for series, parts in found:
        draw(axes, series, parts)
    if not axes.has_data():
        return ""
    return figure(themed_svg(drawing, f"stability-{name}", title), title.rpartition(", ")[2].capitalize(), "card")


def draw_growth(axes: Axes, series: Series, parts: list[Part]) -> None:
    """The worst growth bold, the random one dashed; on a logarithmic axis once it reaches over a decade."""
    for kind, stroke, width in (("worst", "-", 2.2), ("random", "--", 1.4)):
        times, values = _median([part["growth"] for part in parts], kind)
        _plot(axes, series, times, values, stroke, width)
    positive = [value for line in axes.lines for value in np.asarray(line.get_ydata()) if value > 0]
    if positive and max(positive) / min(positive) > 10:
        log_axis(axes)


def draw_energy(axes: Axes, series: Series, parts: list[Part]) -> None:
    """The relative change of the energy, or of the norm."""
    times, values = _median([part["energy"] for part in parts], "values")
    _plot(axes, series, times, values, "-", 2.2)
    unit_axis(axes.yaxis, "share")


def draw_spectrum(axes: Axes, series: Series, parts: list[Part]) -> None:
    """The eigenvalues of the first seed at all times at which they were taken."""
    values = [value for spectrum in parts[0]["spectra"] for value in spectrum["eigenvalues"]]
    if not values:
        return
    real, imaginary = _thinned(np.array(values, dtype=np.float64)).T
    axes.scatter(real, imaginary, s=9, color=series_sentinel(series.index), alpha=0.55, linewidths=0)
    zero_lines(axes)
    axes.set_xlabel("real part")


def draw_way_back(axes: Axes, series: Series, parts: list[Part]) -> None:
    """Errors of reversible methods; zero, where the way back begins, has no logarithm."""
    for stroke, dtype in (("-", "float32"), ("--", "float64")):
        runs = [run for part in parts for run in part["reconstructions"] if run["dtype"] == dtype]
        if not runs:
            continue
        times, values = _median(runs, "errors")
        _plot(axes, series, times[values > 0], values[values > 0], stroke, 1.8)
    if axes.has_data():
        log_axis(axes)


def _thinned(values: np.ndarray, limit: int = 240) -> np.ndarray:
    """At most about ``limit`` points: a quarter the outermost, the rest evenly chosen among the others."""
    ordered = values[np.argsort(-np.hypot(*values.T), kind="stable")]
    if len(ordered) <= limit:
        return ordered
    outer, inner = ordered[: limit // 4], ordered[limit // 4 :]
    return np.concatenate([outer, inner[:: -(-len(inner) // (limit - limit // 4))]])


def _median(seeds: Sequence[Part], name: str) -> Line:
    lines = [(numbers(seed["times"]) / seed["times"][-1], numbers(seed[name])) for seed in seeds]
    kept = [(times[np.isfinite(values)], values[np.isfinite(values)]) for times, values in lines]
    return median_line(kept)


def _plot(axes: Axes, series: Series, times: np.ndarray, values: np.ndarray, stroke: str, width: float) -> None:
    if values.size:
        marker = "o" if values.size < 3 else None
        axes.plot(times, values, color=series_sentinel(series.index), linewidth=width, linestyle=stroke,
                  marker=marker, markersize=4)  # fmt: skip


def _table(by_evolution: Sequence[Found]) -> str:
    head = ["Variant", "Evolution", "Method", "Steps", "Step", "Largest for decay", "Largest for oscillation",
            "Worst growth", "Random growth", "Energy or norm", "Way back"]  # fmt: skip
    rows = [_cells(series, k, parts) for k, found in enumerate(by_evolution, 1) for series, parts in found]
    return "<h3>Figures at the end of each evolution</h3>" + table("Stability of each evolution", head, rows)


def _cells(series: Series, number: int, parts: list[Part]) -> list[str]:
    first = parts[0]
    back = median(parts, lambda p: max((max(r["errors"]) for r in p["reconstructions"] if r["dtype"] == "float32"),
                                       default=None))  # fmt: skip
    return [
        swatch(series) + text(series.label),
        f"{number} <small>{text(first['name'])}</small>",
        f"<code>{text(first['integrator'])}</code> <small>{text(first['dynamics'])}</small>",
        str(first["steps"]),
        decimal(first["step_size"]),
        _bound(parts, "decay"),
        _bound(parts, "oscillation"),
        decimal(median(parts, lambda p: p["growth"]["worst"][-1]), 3),
        decimal(median(parts, lambda p: p["growth"]["random"][-1]), 3),
        text(percent(median(parts, lambda p: p["energy"]["values"][-1]), 2)),
        decimal(back, 2),
    ]


def _bound(parts: list[Part], name: str) -> str:
    found = median(parts, lambda p: p["bound"][name])
    if found is None:
        return "none"
    return "any grows" if found == 0 else decimal(found, 3)


def _warnings(found: list[tuple[Series, list[Part]]]) -> str:
    lines = [
        f"<li>{swatch(series)}{text(series.label)}: {text(evolution['warning'])}</li>"
        for series, seeds in found
        for evolution in seeds[0]["evolutions"]
        if evolution["warning"]
    ]
    return f"<h3>Steps that are too large</h3><ul>{''.join(lines)}</ul>" if lines else ""
