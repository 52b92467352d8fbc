"""Tables of findings: variants side by side where they fit, else one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from evolvent.report.markup import section, swatch, table, text
from evolvent.report.numbers import NONE, count, write
from evolvent.report.subjects import Found, Group, Subject, groups, left_out, pictured
from evolvent.report.summary import statistic
from evolvent.report.theme import series_colour
from evolvent.tasks.findings import Table, Unit, Value

_ROWS = 120  # of a table at most
_JOINED = 24  # columns of a joined table at most


def tables_section(subjects: Sequence[Subject]) -> str:
    """All tables; those of numbers are joined over subjects, with medians over seeds."""
    html = "".join(_joined(group) if _can_join(group) else _blocks(group) for group in groups(subjects, "tables"))
    return section("tables", "Tables", html)


def _can_join(group: Group) -> bool:
    """Whether every table names the rows in its first column and gives numbers in the few others."""
    tables: list[Table] = [item for found in group.found for item in found.items]
    first = tables[0]
    same = all(one.columns == first.columns and _units(one) == _units(first) for one in tables)
    if not same or not 1 < len(first.columns) <= 1 + _JOINED // len(group.found):
        return False
    values = [value for one in tables for row in one.rows for value in row[1:]]
    return all(value is None or isinstance(value, int | float) for value in values)


def _joined(group: Group) -> str:
    """A row for each name; for each column of the tables a column for each subject, or one if they agree."""
    first: Table = group.found[0].items[0]
    names = list(dict.fromkeys(row[0] for found in group.found for one in found.items for row in one.rows))
    heads, columns = [text(first.columns[0])], [[text(name) for name in names]]
    for place, (title, unit) in enumerate(zip(first.columns[1:], _units(first)[1:], strict=True), 1):
        medians = [_medians(found, place) for found in group.found]
        alike = all(values == medians[0] for values in medians)
        for found, values in list(zip(group.found, medians, strict=True))[: 1 if alike else None]:
            labelled = f"{swatch(found)}{text(found.label)}<br><small>{text(title)}</small>"
            heads.append(text(title) if alike else labelled)
            columns.append([_cell(values.get(name), unit, found) for name in names])
    rows = [list(row) for row in zip(*columns, strict=True)][:_ROWS]
    note = "Medians over seeds." if any(len(found.items) > 1 for found in group.found) else ""
    return _headed(group.title, table(group.title, heads, rows), note, len(names))


def _medians(found: Found, place: int) -> dict[Value, float | int | None]:
    """The median over seeds of one column for each row; None where nothing was measured."""
    values: dict[Value, list[float | int | None]] = {}
    for one in found.items:
        for row in one.rows:
            values.setdefault(row[0], []).append(row[place])
    return {name: of_name[0] if len(set(of_name)) == 1 else _median(of_name) for name, of_name in values.items()}


def _median(values: Sequence[float | int | None]) -> float | None:
    return over_seeds.median if (over_seeds := statistic(values)) else None


def _blocks(group: Group) -> str:
    """A table for each subject, that of the first seed."""
    html, most = "", 0
    for found in pictured(group):
        one: Table = found.items[0]
        units = _units(one)
        rows = [[_cell(v, unit, found) for v, unit in zip(row, units, strict=False)] for row in one.rows[:_ROWS]]
        label = f"<h4>{swatch(found)}{text(found.label)}</h4>" if len(group.found) > 1 else ""
        html += label + table(f"{group.title}, {found.label}", [text(column) for column in one.columns], rows)
        most = max(most, len(one.rows))
    note = " Of several seeds the first." if any(len(found.items) > 1 for found in group.found) else ""
    return _headed(group.title, html, note + left_out(group), most)


def _headed(title: str, html: str, note: str, rows: int) -> str:
    note += f" The first {_ROWS} of {count(rows)} rows are shown." if rows > _ROWS else ""
    below = f"<p><small>{text(note.strip())}</small></p>" if note.strip() else ""
    return f'<div class="figures"><h3>{text(title)}</h3>{html}{below}</div>'


def plain_rows(one: Table) -> list[list[str]]:
    """A table's values as text, each in its unit."""
    return [[_written(value, unit) for value, unit in zip(row, _units(one), strict=False)] for row in one.rows]


def _units(one: Table) -> list[Unit]:
    """The unit of every column."""
    rest = len(one.columns) - len(one.units)
    return [*one.units, *(["number"] * rest)]  # pyright: ignore[reportReturnType]


def _written(value: Value, unit: Unit) -> str:
    match value:
        case None:
            return NONE
        case str():
            return value
        case int() if unit == "number":
            return count(value)
    return write(value, unit)


def _cell(value: Value, unit: Unit, found: Found) -> str:
    """A value in its unit; a share has a bar."""
    written = text(_written(value, unit))
    if unit != "share" or not isinstance(value, int | float) or not 0 <= value <= 1:
        return written
    return f'{written}<i class="share" style="--c:{series_colour(found.index)};--s:{value:.3f}"></i>'
