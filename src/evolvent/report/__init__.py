"""The HTML report of runs, and the tables that summarise them.

Names load when first used: tables do not load what pictures need, and matplotlib is imported only while one is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evolvent.report import plot
    from evolvent.report.page import report_html, write_report
    from evolvent.report.runs import Run, read_run
    from evolvent.report.summary import SummaryRow, summary_csv, summary_rows

__all__ = ["Run", "SummaryRow", "plot", "read_run", "report_html", "summary_csv", "summary_rows", "write_report"]

_HOME = {"report_html": "page", "write_report": "page", "Run": "runs", "read_run": "runs"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "plot":
        return import_module(f"{__name__}.plot")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'summary')}"), name)
