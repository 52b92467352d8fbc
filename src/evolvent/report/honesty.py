"""What a reader must know before believing a table: which data, which settings, and whether a difference is one."""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.experiments.departures import title_on
from evolvent.report.numbers import count, write_difference
from evolvent.report.runs import Run
from evolvent.report.summary import SummaryRow, names_of_data, ranked
from evolvent.tasks.own_data import own_path

_LISTED = 8  # runs that are named one by one
_DIGITS = 8  # of a fingerprint


def data_names(run: Run) -> list[str]:
    """The data of a run, each set once."""
    return names_of_data(run.records)


def honest_title(run: Run) -> str:
    """The recipe's title, and the data if it is not the recipe's own."""
    return title_on(run.recipe, data_names(run)) if run.recipe else run.title


def data_warning(runs: Sequence[Run]) -> str:
    """A sentence if runs on different data stand side by side; else empty."""
    if all(_on_same_data(runs[0], run) for run in runs[1:]):
        return ""
    labels = [f"{run.name} {run.identity}" for run in runs]
    told = [f"{label}: {_told_data(run, runs)}" for label, run in zip(labels, runs, strict=True)]
    listed = "; ".join(list(dict.fromkeys(told))[:_LISTED])
    return f"These runs are on different data, so their figures cannot be compared: {listed}."


def _on_same_data(one: Run, other: Run) -> bool:
    """By content where it is known, as it is of the user's own data, else by name."""
    contents = [{record.data_fingerprint for record in run.records} for run in (one, other)]
    if "" in contents[0] | contents[1]:
        return set(data_names(one)) == set(data_names(other))
    return contents[0] == contents[1]


def _told_data(run: Run, runs: Sequence[Run]) -> str:
    """The names of the data, with path and fingerprint where names do not tell them from those of other runs."""
    names = ", ".join(data_names(run))
    if all(_on_same_data(run, other) for other in runs if data_names(other) == data_names(run)):
        return names
    paths = (own_path(record.cell.data) for record in run.records)
    marks = (record.data_fingerprint[:_DIGITS] for record in run.records)
    return f"{names} ({', '.join(dict.fromkeys(filter(None, paths)))}; content {', '.join(dict.fromkeys(marks))})"


def difference_sentence(rows: Sequence[SummaryRow]) -> str:
    """Whether the best two of variants with one score differ by more than their seeds do; empty for one variant."""
    known = ranked(rows)
    if len(known) < 2 or not known[0].score or not known[0].score.better:
        return ""
    first, second = known[:2]
    one, other = first.score_statistic, second.score_statistic
    assert one
    assert other
    apart = write_difference(abs(one.mean - other.mean), known[0].score.unit)
    if one.std is None or other.std is None:
        return f"{first.label} and {second.label} differ by {apart}; the spread over seeds is not known from one seed."
    spread = max(one.std, other.std)
    seen = f"the spread over seeds ({write_difference(spread, known[0].score.unit)}, standard deviation)"
    if abs(one.mean - other.mean) > 2 * spread:
        return f"On average {first.label} and {second.label} differ by {apart}, more than twice {seen}."
    return (
        f"On average {first.label} and {second.label} differ by {apart}, which does not exceed twice {seen} of "
        f"{count(min(first.n, second.n))} seeds: neither is shown to be better."
    )
