"""What a page compares: variants with the findings of their seeds, or the seeds of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from evolvent.report.markup import swatch, text
from evolvent.report.numbers import count
from evolvent.report.runs import Series
from evolvent.tasks.findings import Findings

_READ = 120  # findings of a page at most
_PICTURED, _FEW = 6, 3  # subjects with pictures of their own at most, and how many of more are shown
_OPEN = 2  # subjects whose pictures are not folded
_OF_FIRST: dict[str, Any] = {"label_maps": [], "fields": [], "features": [], "animations": []}  # large, of one seed
_TITLES = 24  # tables, curves or pictures of one kind at most


@dataclass(frozen=True)
class Subject:
    """A variant with what was found with each of its seeds, or one seed of a study."""

    label: str
    index: int  # chooses the colour
    findings: list[Findings]
    seeds: int = 1  # how many have findings; more than those read if they are many


@dataclass(frozen=True)
class Found:
    """Things of one title that a subject found, one for each seed."""

    subject: Subject
    items: list[Any]

    @property
    def label(self) -> str:
        return self.subject.label

    @property
    def index(self) -> int:
        return self.subject.index


@dataclass(frozen=True)
class Group:
    """Things of one title over all subjects that have it."""

    title: str
    found: list[Found]


def read_subjects(all_series: Sequence[Series]) -> list[Subject]:
    """The findings of each variant, of its first seeds if there are very many."""
    most = max(1, _READ // max(1, len(all_series)))
    subjects = []
    for series in all_series:
        finished = [record for record in series.records if record.result]
        findings = []
        for found in (record.findings for record in finished[:most]):
            if found:
                findings.append(replace(found, **(_OF_FIRST if findings else {}), arrays={}))
        subjects.append(Subject(series.label, series.index, findings, len(finished)))
    return subjects


def groups(subjects: Sequence[Subject], kind: str) -> list[Group]:
    """What the subjects found of one kind (a field of findings that is a list), by title."""
    collected: dict[tuple[str, int], dict[int, Found]] = {}
    for place, subject in enumerate(subjects):
        for findings in subject.findings:
            seen: Counter[str] = Counter()
            for item in getattr(findings, kind):
                of_title = collected.setdefault((item.title, seen[item.title]), {})
                of_title.setdefault(place, Found(subject, [])).items.append(item)
                seen[item.title] += 1
    return [Group(title, list(found.values())) for (title, _), found in islice(collected.items(), _TITLES)]


def seeds_read(subjects: Sequence[Subject]) -> str:
    """A sentence if only some of the seeds were read; else empty."""
    cut = [subject for subject in subjects if len(subject.findings) < subject.seeds]
    if not cut:
        return ""
    return f" Of {count(cut[0].seeds)} seeds the first {count(len(cut[0].findings))} are taken."


def subject_heading(found: Found, group: Group) -> str:
    """A heading, unless there is only one subject."""
    return f"<h3>{swatch(found)}{text(found.label)}</h3>" if len(group.found) > 1 else ""


def folded(found: Found, group: Group, html: str) -> str:
    """What belongs to one subject; of many subjects all but the first are folded."""
    if len(group.found) == 1:
        return html
    is_open = len(group.found) <= _OPEN or found is group.found[0]
    title = f"<summary>{swatch(found)}<h3>{text(found.label)}</h3></summary>"
    return f"<details{' open' if is_open else ''}>{title}{html}</details>"


def pictured(group: Group) -> list[Found]:
    """The subjects with pictures of their own: all, or the first few of many."""
    return group.found if len(group.found) <= _PICTURED else group.found[:_FEW]


def left_out(group: Group) -> str:
    """A sentence on the subjects for which there is no room; empty if there are none."""
    shown = len(pictured(group))
    return f" The first {shown} of {count(len(group.found))} are shown." if shown < len(group.found) else ""
