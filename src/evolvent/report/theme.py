"""Colours of the report, and how a matplotlib figure becomes SVG that takes them from the page.

Figures are drawn in sentinel colours; in the SVG each sentinel is replaced by a CSS variable, so that one picture
serves light and dark pages.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT_PAGE, DARK_PAGE = "#ffffff", "#16191e"
# Hues after Okabe and Ito, moved until they differ for colour-blind eyes too and stand out from their page.
LIGHT = ("#006fc1", "#df3a14", "#167a52", "#95417b", "#7c7d0a", "#304841", "#7635c6", "#a81619")
DARK = ("#58c3ff", "#ff7b5e", "#1fea99", "#e284ae", "#d3d622", "#d4c0c2", "#9293ff", "#e36082")
INK, FAINT = "#010203", "#010204"  # sentinels of text and axes, and of grid lines
_SENTINELS = tuple(f"#0101{0x10 + k:02x}" for k in range(len(LIGHT)))


@dataclass(frozen=True)
class Dash:
    """A stroke, as CSS and as matplotlib name it."""

    css: str
    stroke: str


DASHES = (Dash("solid", "-"), Dash("dashed", "--"), Dash("dotted", ":"))


def series_colour(index: int) -> str:
    """CSS colour of the series with this number."""
    return f"var(--c{index % len(LIGHT)})"


def series_sentinel(index: int) -> str:
    """The colour to draw that series with in matplotlib."""
    return _SENTINELS[index % len(LIGHT)]


def series_dash(index: int) -> str:
    """Line style of a series; changes when the colours begin again."""
    return DASHES[index // len(LIGHT) % len(DASHES)].stroke


def style_sheet() -> str:
    """The report's CSS, colours of both themes included."""
    rules = resources.files("evolvent.report").joinpath("style.css").read_text(encoding="utf-8")
    light = _variables(LIGHT, LIGHT_PAGE)
    dark = _variables(DARK, DARK_PAGE)
    return f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{rules}"


def _variables(palette: tuple[str, ...], page: str) -> str:
    return f"--page:{page};" + "".join(f"--c{k}:{colour};" for k, colour in enumerate(palette))


def themed_svg(figure: Figure, name: str, description: str) -> str:
    """A figure as inline SVG in the page's colours.

    Args:
        name: starts every id in the SVG; must be unique on the page.
        description: what the picture shows, for those who cannot see it.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None})
    return adopt_svg(buffer.getvalue(), name, description)


def adopt_svg(svg: str, name: str, description: str) -> str:
    """Fit matplotlib's SVG into a page: no global style, ids of its own, the page's font and colours."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.S)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.S)
    box = re.search(r'viewBox="([^"]*)"', body)
    opening = f'<svg class="plot" role="img" aria-label="{escape(description)}" viewBox="{box[1] if box else ""}">'
    body = re.sub(r"<svg[^>]*>", lambda _: opening, body, count=1)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r'xlink:href="#', f'href="#{name}-', body)
    body = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", body)
    body = re.sub(r'(?<= d=")[^"]*', _rounded, body)
    for sentinel, colour in _colours().items():
        body = body.replace(sentinel, colour)
    return re.sub(r"\n\s*", "\n", body).strip()


def _rounded(path: re.Match[str]) -> str:
    """A path with two decimals of a point: finer than a screen shows, at two thirds of the size."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}", path[0])


def _colours() -> dict[str, str]:
    series = {sentinel: series_colour(k) for k, sentinel in enumerate(_SENTINELS)}
    return {INK: "var(--soft)", FAINT: "var(--line)", **series}
