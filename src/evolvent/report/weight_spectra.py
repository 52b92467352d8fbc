"""Eigenvalues of the maps of nonlocal blocks over training, and of all maps of the trained network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evolvent.experiments.spectra import SPECTRA, Place, SpectrumHistory, read_spectra
from evolvent.report.analyses import analysed
from evolvent.report.axes import few_ticks, new_plot, unit_axis
from evolvent.report.markup import figure, legend, section, series_heading, swatch, table, text
from evolvent.report.numbers import NONE, count, decimal, percent
from evolvent.report.runs import Series
from evolvent.report.theme import INK, series_dash, series_sentinel, themed_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_KINDS = {"real_parts": "Real parts of the eigenvalues", "symmetric": "Eigenvalues of the symmetric part"}
_BANDS = ((0.0, 1.0, 0.14), (0.1, 0.9, 0.2), (0.25, 0.75, 0.32))  # from, to, opacity


class Recorded(NamedTuple):
    """What the first seed of a series recorded."""

    series: Series
    history: SpectrumHistory


def spectra_section(all_series: Sequence[Series]) -> str:
    """For each kind of eigenvalue: the share of positive ones, then bands for each map of each variant; then tables."""
    found = list(_recorded(all_series))
    rows = "".join(_kind(found, kind) for kind in _KINDS) if found else ""
    lead = (
        "K1, K2 and so on are the 1×1 maps of the nonlocal blocks. The quadratic form of a map is that of its "
        "symmetric part: positive eigenvalues amplify, negative ones damp. Shades hold all, 80 % and 50 % of the "
        "eigenvalues, the line is their median, and the number after + is the share of positive ones in the end. "
        "Epoch 0 is the start. Of several seeds the first is shown."
    )
    return section("spectra", "Spectra of the maps", rows + _maps(all_series), lead if found else "")


def _recorded(all_series: Sequence[Series]) -> Iterator[Recorded]:
    for series in all_series:
        histories = [read_spectra(record.folder / SPECTRA) for record in series.records]
        first = next((history for history in histories if history and history.epochs), None)
        if first:
            yield Recorded(series, first)


def _kind(found: Sequence[Recorded], kind: str) -> str:
    blocks = sorted({block for one in found for block, _ in getattr(one.history, kind)})
    shares = "".join(_share_panel(found, kind, block) for block in blocks)
    html = f"<h3>{_KINDS[kind]} <small>shares of positive ones: solid K1, dashed K2, dotted others</small></h3>"
    html += legend([one.series for one in found]) + f'<div class="panels">{shares}</div>'
    reach = 1.05 * max(_reach(one.history, kind) for one in found)
    for series, history in found:
        bands = "".join(_band_panel(series, history, kind, place, reach) for place in getattr(history, kind))
        html += f'{series_heading(series) if len(found) > 1 else ""}<div class="panels">{bands}</div>'
    return html


def _reach(history: SpectrumHistory, kind: str) -> float:
    """The largest eigenvalue by size, so that all panels can have one axis."""
    values = [np.abs(row[np.isfinite(row)]) for rows in getattr(history, kind).values() for row in rows]
    return float(max((row.max() for row in values if row.size), default=0.0)) or 1.0


def _share_panel(found: Sequence[Recorded], kind: str, block: int) -> str:
    """The share of positive eigenvalues of all maps of a block, all variants together."""
    drawing, axes = new_plot(height=1.9)
    for series, history in found:
        for (of, stage), rows in getattr(history, kind).items():
            if of == block:
                shares = [(np.asarray(row) > 0).mean() for row in rows]
                stroke = "-" if stage == 1 else ("--" if stage == 2 else ":")
                axes.plot(history.epochs, shares, color=series_sentinel(series.index), linestyle=stroke, linewidth=1.8)
    axes.axhline(0.5, color=INK, linewidth=0.8, alpha=0.6)
    axes.set_ylim(0, 1)
    _over_epochs(axes)
    unit_axis(axes.yaxis, "share")
    title = f"Block {block}, share of positive ones"
    return figure(themed_svg(drawing, f"spectra-{kind}-share-{block}", title), title, "card small")


def _band_panel(series: Series, history: SpectrumHistory, kind: str, place: Place, reach: float) -> str:
    """Bands that hold parts of the eigenvalues of one map."""
    values = np.stack(getattr(history, kind)[place]).astype(np.float64)
    drawing, axes = new_plot(height=2.2)
    colour = series_sentinel(series.index)
    for low, high, opacity in _BANDS:
        edges = np.quantile(values, (low, high), axis=1)
        axes.fill_between(history.epochs, *edges, color=colour, alpha=opacity, linewidth=0)
    axes.plot(
        history.epochs, np.median(values, axis=1), color=colour, linestyle=series_dash(series.index), linewidth=1.8
    )
    axes.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
    axes.set_ylim(-reach, reach)
    _over_epochs(axes)
    name, share = f"Block {place[0]}, K{place[1]}", float((values[-1] > 0).mean())
    description = f"{_KINDS[kind]} of {name} of {series.label} over epochs"
    svg = themed_svg(drawing, f"spectra-{kind}-{series.index}-{place[0]}-{place[1]}", description)
    return figure(svg, f"{name}: {values.shape[1]} eigenvalues, + {share:.2f}", "card")


def _over_epochs(axes: Axes) -> None:
    axes.set_xlabel("epoch")
    few_ticks(axes.xaxis, whole=True)
    axes.margins(x=0.02)


def _maps(all_series: Sequence[Series]) -> str:
    """What ``evolvent analyze RUN spectra`` measured, folded up."""
    return "".join(_details(series, seeds[0]["maps"]) for series, seeds in analysed(all_series, "spectra"))


def _details(series: Series, maps: list[dict[str, Any]]) -> str:
    head = ["Map", "Grid", "Eigenvalues", "Real parts", "Positive", "Symmetric part", "Positive"]
    rows = [
        [f"<code>{text(m['name'])}</code>", "×".join(map(str, m["grid"])) if m["kind"] == "convolution" else NONE,
         count(m["count"]), _range(m["real_parts"]), text(percent(m["positive_share"])), _range(m["symmetric"]),
         text(percent(m["positive_share_symmetric"]))]
        for m in maps
    ]  # fmt: skip
    title = f"<summary>{swatch(series)}<b>{text(series.label)}</b>: {len(maps)} maps of the trained network</summary>"
    note = "Convolutions are taken as periodic on their grid. Ranges are least, median and largest."
    return f"<details>{title}{table(f'Maps of {series.label}', head, rows)}<p><small>{note}</small></p></details>"


def _range(levels: Sequence[float | None]) -> str:
    low, _, middle, _, high = (float("nan") if value is None else value for value in levels)
    return text(" … ".join(decimal(value, 3) for value in (low, middle, high)))
