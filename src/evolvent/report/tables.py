"""Tables of findings: variants side by side where they fit, else one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.report.markup import key, section, table, text
from evolvent.report.numbers import NONE, capital, count, write
from evolvent.report.subjects import Found, Group, Subject, groups, left_out
from evolvent.report.summary import statistic
from evolvent.report.theme import series_colour
from evolvent.tasks.findings import Table, Unit, Value

_ROWS = 120  # of a table at most
_BLOCKS = 12  # tables of one title at most


def tables_section(subjects: Sequence[Subject]) -> str:
    """All tables; those of one value per row are joined over subjects, with medians over seeds."""
    html = "".join(_joined(group) if _can_join(group) else _blocks(group) for group in groups(subjects, "tables"))
    return section("tables", "Tables", html)


def _can_join(group: Group) -> bool:
    """Whether every table names the rows in its first column and gives one number in its second."""
    tables: list[Table] = [item for found in group.found for item in found.items]
    first = tables[0]
    same = all(one.columns == first.columns and _units(one) == _units(first) for one in tables)
    values = [row[1] for one in tables for row in one.rows] if same and len(first.columns) == 2 else ["not a number"]
    return all(value is None or isinstance(value, int | float) for value in values)


def _joined(group: Group) -> str:
    """A row for each name, a column for each subject."""
    first: Table = group.found[0].items[0]
    medians = [_medians(found) for found in group.found]
    names = list(dict.fromkeys(name for of_subject in medians for name in of_subject))
    unit = _units(first)[1]
    alone = len(group.found) == 1
    heads = [text(first.columns[1])] if alone else [key(found) + text(found.label) for found in group.found]
    pairs = list(zip(group.found, medians, strict=True))
    rows = [[text(name), *(_cell(values.get(name), unit, found) for found, values in pairs)] for name in names[:_ROWS]]
    note = " Medians over seeds." if any(len(found.items) > 1 for found in group.found) else ""
    what = "" if alone else f"{capital(first.columns[1])} of each variant."
    return _headed(group.title, table(group.title, [text(first.columns[0]), *heads], rows), what + note, len(names))


def _medians(found: Found) -> dict[Value, float | int | None]:
    """The median over seeds for each row; None where nothing was measured."""
    values: dict[Value, list[float | int | None]] = {}
    for one in found.items:
        for name, value in one.rows:
            values.setdefault(name, []).append(value)
    return {name: of_name[0] if len(of_name) == 1 else _median(of_name) for name, of_name in values.items()}


def _median(values: Sequence[float | int | None]) -> float | None:
    return over_seeds.median if (over_seeds := statistic(values)) else None


def _blocks(group: Group) -> str:
    """A table for each subject, that of the first seed."""
    html, most = "", 0
    for found in group.found[:_BLOCKS]:
        one: Table = found.items[0]
        units = _units(one)
        rows = [[_cell(v, unit, found) for v, unit in zip(row, units, strict=False)] for row in one.rows[:_ROWS]]
        label = f"<h4>{key(found)}{text(found.label)}</h4>" if len(group.found) > 1 else ""
        html += label + table(f"{group.title}, {found.label}", [text(column) for column in one.columns], rows)
        most = max(most, len(one.rows))
    note = " Of several seeds the first." if any(len(found.items) > 1 for found in group.found) else ""
    return _headed(group.title, html, note + left_out(group, _BLOCKS), most)


def _headed(title: str, html: str, note: str, rows: int) -> str:
    note += f" The first {_ROWS} of {count(rows)} rows are shown." if rows > _ROWS else ""
    below = f"<p><small>{text(note.strip())}</small></p>" if note.strip() else ""
    return f'<div class="figures"><h3>{text(title)}</h3>{html}{below}</div>'


def _units(one: Table) -> list[Unit]:
    """The unit of every column."""
    rest = len(one.columns) - len(one.units)
    return [*one.units, *(["number"] * rest)]  # pyright: ignore[reportReturnType]


def _cell(value: Value, unit: Unit, found: Found) -> str:
    """A value in its unit; a share has a bar."""
    match value:
        case None:
            return NONE
        case str():
            return text(value)
        case int() if unit == "number":
            return count(value)
    if unit == "share" and 0 <= value <= 1:
        bar = f'<i class="share" style="--c:{series_colour(found.index)};--s:{value:.3f}"></i>'
        return text(write(value, unit)) + bar
    return text(write(value, unit))
