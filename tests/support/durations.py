"""How long tests take: files that take longest start first, and a table shows what each folder of tests costs.

With ``--dist loadfile`` a file runs in one process, so a long file that starts last would keep one process busy while
the others wait. The seconds of each file are stored in ``tests/durations.json``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

STORED = Path(__file__).parents[1] / "durations.json"
BUDGET = 2.5  # core-minutes of a folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help=f"write the seconds of each file to {STORED.name}")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first; new files, of unknown length, before all others."""
    seconds = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    items.sort(key=lambda item: -seconds.get(_file(item.nodeid), float("inf")))  # stable: files stay together


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seconds = _seconds_by_file(terminalreporter)
    if config.getoption("store_durations"):
        STORED.write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if len(seconds) > 1:
        terminalreporter.section("core-minutes by folder")
        for line in _table(seconds):
            terminalreporter.write_line(line)


def _seconds_by_file(terminalreporter: pytest.TerminalReporter) -> dict[str, float]:
    """Setup, call and teardown of every test, from the reports, which come in from other processes too."""
    total: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                total[_file(report.nodeid)] += report.duration
    return {file: round(seconds, 1) for file, seconds in total.items()}


def _table(seconds: dict[str, float]) -> list[str]:
    folders: dict[str, float] = defaultdict(float)
    for file, value in seconds.items():
        folders[_folder(file)] += value / 60
    rows = sorted(folders.items(), key=lambda row: -row[1])
    over = f"  over the budget of {BUDGET}"
    return [f"{minutes:6.1f}  {folder}{over if minutes > BUDGET else ''}" for folder, minutes in rows]


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _folder(file: str) -> str:
    """The folder below ``tests``, or ``tests`` itself; ``src`` for the examples in docstrings."""
    parts = Path(file).parts
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else parts[0]
