"""Configuration and environment, with what differs between variants marked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from evolvent.experiments.recipe import leaves
from evolvent.report.bounds import first_few
from evolvent.report.markup import preformatted, section, swatch, table, text
from evolvent.report.numbers import NONE, count
from evolvent.report.runs import Run, Series

_OWN = ("recipe", "variant", "seed")  # keys that name a cell rather than set it up
_VARIANTS = 12  # that have columns and complete configurations; of more the first few are shown
_FEW = 3  # complete configurations of many variants
_VALUES = 8  # of one setting or one entry of the environment at most
_SETTINGS = 60  # that differ at most


def configuration_section(runs: Sequence[Run], all_series: Sequence[Series]) -> str:
    """Differences first, then complete configurations, then the environment."""
    shown = [series for series in all_series if series.records]
    configs = [_config(series) for series in shown]
    differing = differing_paths(configs)
    table_of = _difference_table if len(shown) <= _VARIANTS else _value_table
    parts = [table_of(shown, configs, differing[:_SETTINGS])] if differing else []
    complete = len(shown) if len(shown) <= _VARIANTS else _FEW
    for series, config in zip(shown[:complete], configs, strict=False):
        parts.append(_complete(series, config, differing, with_key=complete == len(shown)))
    if complete < len(shown):
        parts.append(f"<p><small>{text(f'The first {_FEW} of {count(len(shown))} variants.')}</small></p>")
    return section("configuration", "Configuration", "".join(parts)) + _environment(runs)


def _config(series: Series) -> dict[str, Any]:
    """A variant's configuration; all its seeds in place of one."""
    config = series.records[0].cell.model_dump(mode="json")
    seeds = [record.cell.seed for record in series.records]
    return config | {"seed": seeds if len(seeds) <= _VALUES else f"{len(seeds)} seeds from {seeds[0]} to {seeds[-1]}"}


def differing_paths(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Paths of the leaves that are not the same in all configurations.

    >>> differing_paths([{"variant": "x", "a": 1}, {"variant": "y", "a": 2}])
    ['a']
    """
    flat = [dict(leaves(config)) for config in configs]
    paths = dict.fromkeys(path for values in flat for path in values if path not in _OWN)
    parents = {path.rpartition(".")[0] for path in paths}  # empty in one configuration, with leaves in another
    missing = object()
    return [
        path
        for path in paths
        if path not in parents and any(v.get(path, missing) != flat[0].get(path, missing) for v in flat)
    ]


def _difference_table(shown: Sequence[Series], configs: Sequence[dict[str, Any]], differing: Sequence[str]) -> str:
    head = ["Setting", *(swatch(series) + text(series.label) for series in shown)]
    flat = [dict(leaves(config)) for config in configs]
    rows = [[f"<code>{text(path)}</code>", *(_value(values, path) for values in flat)] for path in differing]
    return "<h3>What differs</h3>" + table("Settings that differ between variants", head, rows, "differences")


def _value_table(shown: Sequence[Series], configs: Sequence[dict[str, Any]], differing: Sequence[str]) -> str:
    """The values that each setting takes, for more variants than a table has columns."""
    flat = [dict(leaves(config)) for config in configs]
    rows = []
    for path in differing:
        met = list({repr(values[path]): values[path] for values in flat if path in values}.values())
        written = first_few([scalar(value) for value in met[:_VALUES]] + [""] * (len(met) - _VALUES), _VALUES)
        rows.append([f"<code>{text(path)}</code>", count(len(met)), f"<code>{text(', '.join(written))}</code>"])
    label = "Settings that differ between variants"
    return "<h3>What differs</h3>" + table(label, ["Setting", "Values", "Which"], rows, "differences")


def _value(values: dict[str, Any], path: str) -> str:
    return f"<code>{text(scalar(values[path]))}</code>" if path in values else NONE


def scalar(value: Any) -> str:
    """A leaf as YAML on one line.

    >>> scalar([1, 2]), scalar("on"), scalar(None)
    ('[1, 2]', "'on'", 'null')
    """
    dumped = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return dumped.strip().removesuffix("...").strip()


def _complete(series: Series, config: dict[str, Any], differing: Sequence[str], with_key: bool) -> str:
    lines = "\n".join(_lines(config, "", 0, set(differing)))
    title = f"Complete configuration of {text(series.label)}"
    return preformatted((swatch(series) if with_key else "") + title, lines, is_html=True)


def _lines(config: dict[str, Any], prefix: str, depth: int, marked: set[str]) -> Iterator[str]:
    for name, value in config.items():
        head, path = "  " * depth + text(scalar(name)), f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield f"{head}:"
            yield from _lines(value, f"{path}.", depth + 1, marked)
        else:
            line = f"{head}: {text(scalar(value))}"
            yield f"<mark>{line}</mark>" if path in marked else line


def _environment(runs: Sequence[Run]) -> str:
    """Versions, seeds and threads; a column per run, all values that its cells met."""
    found = [environment_values(run) for run in runs]
    names = dict.fromkeys(name for values in found for name in values)
    heads = [text(f"{run.name} {run.identity}") for run in runs] if len(runs) > 1 else ["Value"]
    rows = [[text(name), *(text(values.get(name, NONE)) for values in found)] for name in names]
    html = table("Environment of the runs", ["Name", *heads], rows) if rows else ""
    return section("environment", "Environment", html)


def environment_values(run: Run) -> dict[str, str]:
    """Every entry of the cells' environments; the first few of differing values."""
    met: dict[str, dict[str, None]] = {}
    for record in run.records:
        for path, value in leaves(record.environment):
            met.setdefault(path, {})[value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)] = None
    return {path: ", ".join(first_few(list(values), _VALUES)) for path, values in met.items()}
