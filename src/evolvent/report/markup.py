"""Small pieces of HTML. Arguments named ``html`` hold markup; everything else is text and is escaped here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Protocol

from evolvent.report.theme import DASHES, series_colour


class Marked(Protocol):
    """What has a name and a colour of its own."""

    @property
    def label(self) -> str: ...

    @property
    def index(self) -> int: ...


def text(value: object) -> str:
    """Escaped text whose numbers stay on one line with their units.

    >>> text("97.8 % & <b>")
    '97.8\\xa0% &amp; &lt;b&gt;'
    """
    return re.sub(
        r"(?<=\d) (?=%|[kMGT]\b|[KMGT]iB\b|s\b|min\b|h\b|points\b|ms\b)", "\N{NO-BREAK SPACE}", escape(str(value))
    )


def swatch(series: Marked) -> str:
    """The coloured stroke that stands for a series."""
    dash = DASHES[series.index // 8 % len(DASHES)].css
    return f'<span class="key" style="--c:{series_colour(series.index)};border-top-style:{dash}"></span>'


def preformatted(title: str, content: str, is_html: bool = False) -> str:
    """Text that keeps its lines, folded below a title; with ``is_html`` both are markup."""
    title_html, content_html = (title, content) if is_html else (text(title), text(content))
    code = f'<pre tabindex="0"><code>{content_html}</code></pre>'
    return f"<details><summary>{title_html}</summary>{code}</details>"


def series_heading(series: Marked) -> str:
    """Heading of what belongs to one series."""
    return f"<h3>{swatch(series)}{text(series.label)}</h3>"


def legend(all_series: Sequence[Marked]) -> str:
    """Which colour is which series."""
    items = "".join(f"<li>{swatch(series)}{text(series.label)}</li>" for series in all_series)
    return f'<ul class="legend">{items}</ul>'


def section(anchor: str, title: str, html: str, lead: str = "") -> str:
    """A section of the page; none without content."""
    if not html:
        return ""
    intro = f'<p class="lead">{text(lead)}</p>' if lead else ""
    return f'<section id="{anchor}">\n<h2>{text(title)}</h2>\n{intro}{html}\n</section>\n'


def scroll(label: str, html: str, kind: str = "") -> str:
    """A box that scrolls by itself, so that the page never does sideways."""
    return f'<div class="scroll {kind}" role="region" aria-label="{escape(label)}" tabindex="0">{html}</div>'


def table(label: str, head_html: Sequence[str], rows_html: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table whose first column and first row are headers."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in head_html)
    body = "\n".join(_row(row) for row in rows_html)
    markup = f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"
    return scroll(label, markup, kind)


def _row(cells_html: Sequence[str]) -> str:
    first, *others = cells_html
    return f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in others) + "</tr>"


def figure(html: str, caption: str = "", kind: str = "") -> str:
    """A picture with a caption."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f'<figure class="{kind}">{html}{below}</figure>'


def image(source: str, description: str, width: int, height: int) -> str:
    """A picture whose pixels stay sharp when it is enlarged."""
    return f'<img src="{source}" alt="{escape(description)}" width="{width}" height="{height}">'
