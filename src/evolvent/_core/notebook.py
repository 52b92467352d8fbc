"""Tables as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", limit: int = 40) -> str:
    """A table in HTML; numbers are written with four digits, and rows beyond a limit are counted.

    >>> html_table(["a"], [[0.123456]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>0.1235</td></tr></tbody></table>'
    """
    rows = list(rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(_text(cell))}</td>' for cell in row)}</tr>" for row in rows[:limit])
    more = f"<p>and {len(rows) - limit:,} more</p>" if len(rows) > limit else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _text(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else "–" if cell is None else str(cell)
