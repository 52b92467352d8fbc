"""What is shown of long work, and when."""

import pytest

from evolvent.estimators import progress
from evolvent.estimators.progress import ProgressLine


@pytest.fixture
def clock(monkeypatch):
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def work(clock, shown, seconds=(1, 3, 4, 15)):
    with ProgressLine("counting", shown=shown) as line:
        tell = line.stage("first")
        for second in seconds:
            clock[0] = 100.0 + second
            tell(second / 20)


def test_log_has_a_line_now_and_then(clock, capsys):
    work(clock, True)
    assert capsys.readouterr().err.splitlines() == ["counting: first, 15%", "counting: first, 75%"]


@pytest.mark.parametrize("shown", [None, False])
def test_nothing_is_shown_where_there_is_no_terminal(clock, capsys, shown):
    work(clock, shown)
    assert capsys.readouterr().err == ""


def test_short_work_is_silent(clock, capsys):
    work(clock, True, seconds=(0.5, 1.9))
    assert capsys.readouterr().err == ""


def test_terminal_has_a_bar(clock, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    work(clock, True)
    assert "counting: first" in capsys.readouterr().err
