"""Directives whose tables are read from the code, so that the pages cannot disagree with it."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.main
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _escaped(cell: str) -> str:
    """Angle brackets are placeholders here, not HTML."""
    text = cell.replace("|", r"\|")
    return text if "<br>" in text else text.replace("<", r"\<")


class Table(SphinxDirective):
    """A directive that parses the Markdown its subclass makes."""

    optional_arguments = 2

    def run(self) -> list[Any]:
        return self.parse_text_to_nodes(self.markdown())

    def markdown(self) -> str:
        raise NotImplementedError


class NetworkTable(Table):
    """Registered networks."""

    def markdown(self) -> str:
        from evolvent.analysis import count_parameters
        from evolvent.networks import create_model, list_models, model_entry

        rows = []
        for name in list_models():
            entry = model_entry(name)
            papers = ", ".join(f"`{key}`" for key in entry.papers)
            count = f"{count_parameters(create_model(name)):,}"
            rows.append([f"`{name}`", entry.summary, count, papers, f"`{entry.recipe}`"])
        return markdown_table(["network", "what it is", "parameters", "papers", "recipe"], rows)


class NetworkOptions(Table):
    """The options of each family of networks, from its class of options."""

    def markdown(self) -> str:
        from evolvent.networks import list_models, model_entry

        families = [entry for entry in map(model_entry, list_models()) if entry.name == entry.family]
        return "\n\n".join(f"**`{entry.name}`**\n\n{self._table(entry.options)}" for entry in families)

    @staticmethod
    def _table(options: Any) -> str:
        hints, defaults = typing.get_type_hints(options, include_extras=True), vars(options())
        rows = [
            [f"`{name}`", _type_name(hints[name]), _default(defaults[name]), meaning]
            for name, meaning in options.descriptions().items()
        ]
        return markdown_table(["option", "value", "default", "meaning"], rows)


class IntegratorTable(Table):
    """Methods with what they claim."""

    def markdown(self) -> str:
        from evolvent.testing import all_integrators

        rows = []
        for method in all_integrators():
            claims = [str(method.order), "yes" if method.reversible else "no", _reference(method.acts_on, "dynamics")]
            rows.append([_reference(type(method), "integrators"), _first_line(method), *claims])
        return markdown_table(["method", "what it is", "order", "reversible", "acts on"], rows)


class DynamicsTable(Table):
    """Right-hand sides; contracts are left out."""

    def markdown(self) -> str:
        from evolvent import dynamics

        offered = [getattr(dynamics, name) for name in dynamics.__all__]
        classes = [k for k in offered if inspect.isclass(k) and not inspect.isabstract(k)]
        kinds = [k for k in classes if issubclass(k, dynamics.Dynamics)]
        rows = [[_reference(kind, "dynamics"), _first_line(kind)] for kind in kinds]
        return markdown_table(["dynamics", "what it is"], rows)


class GradientTable(Table):
    """Gradient strategies."""

    def markdown(self) -> str:
        from evolvent.gradients import STRATEGIES

        found = {name: STRATEGIES.get(name) for name in STRATEGIES.names()}
        rows = [
            [f"`{name}`", _reference(kind, "gradients"), _first_line(kind), "yes" if kind.exact else "no"]
            for name, kind in found.items()
        ]
        return markdown_table(["name", "class", "what it is", "exact"], rows)


class RecipeTable(Table):
    """Recipes that ship with the package."""

    def markdown(self) -> str:
        from evolvent.experiments.catalogue import load_recipe, recipe_names

        found = [load_recipe(name) for name in recipe_names()]
        rows = [[f"`{r.name}`", r.title, *r.scope] for r in found]
        return markdown_table(["recipe", "what it shows", "data", "trainings"], rows)


class DatasetTable(Table):
    """Known data sets."""

    def markdown(self) -> str:
        from evolvent.data import describe, list_datasets

        rows = [self._row(describe(name)) for name in list_datasets()]
        head = ["name", "what it is", "size", "train / test", "files that are recognised", "from"]
        return markdown_table(head, rows)

    @staticmethod
    def _row(entry: Any) -> list[str]:
        size = entry.size.replace("x", "×") if entry.kind == "images" else entry.size
        layouts = "<br>".join(layout.title for layout in entry.layouts)
        ways = [shipped.title for shipped in entry.shipped] + (["download"] if entry.downloadable else [])
        counts = f"{entry.train_count:,} / {entry.test_count:,}"
        return [f"`{entry.name}`", entry.title, size, counts, layouts, ", ".join(ways) or "your own folder"]


class RecipeKeys(Table):
    """Keys of a recipe that all tasks share, from the pydantic models."""

    def markdown(self) -> str:
        from evolvent.experiments.recipe import Cell, Recipe

        sections = ("model", "optimizer", "schedule", "training")
        own = ["name", "title", "question", "papers", "minutes", "variants", "seeds", "published"]
        rows = [row for row in key_rows(Recipe) if row[0] in own]
        rows += [row for row in key_rows(Cell) if row[0].split(".")[0] in sections]
        return key_table(rows)


class TaskKeys(Table):
    """Keys of the ``task`` and ``data`` sections of one task."""

    required_arguments = 1

    def markdown(self) -> str:
        from evolvent.tasks import TASKS

        kind = TASKS.get(self.arguments[0])
        return key_table([*key_rows(kind.Settings, "task."), *key_rows(kind.Data, "data.")])


class ExportTable(Table):
    """What compilers and exporters make of each network, as ``benchmarks/exports.py`` measured it."""

    def markdown(self) -> str:
        rows = _stored("exports")["networks"]
        columns = {"compile": "torch.compile", "torch-export": "torch.export", "onnx": "ONNX", "aot": "AOT"}
        lines = [[f"`{name}`", *(self._cell(row.get(column)) for column in columns)] for name, row in rows.items()]
        return markdown_table(["network", *columns.values()], lines)

    @staticmethod
    def _cell(found: dict[str, Any] | None) -> str:
        if found is None:
            return "not measured"
        if "reason" in found:
            return found["reason"]
        fixed = f" ({found['fixed steps']} fixed steps)" if "fixed steps" in found else ""
        return (f"{found['difference']:.0e}" if found["difference"] else "0") + fixed


class FaultTable(Table):
    """Faults of a running training, as ``benchmarks/faults.py`` measured them."""

    def markdown(self) -> str:
        rows = [
            [name, str(row["exit code"]), row["message"], "yes" if row["resumable"] else "no"]
            for name, row in _stored("faults")["faults"].items()
        ]
        return markdown_table(["fault", "exit code", "message", "resumable"], rows)


class DamageTable(Table):
    """Damaged files, as ``benchmarks/damage.py`` measured them."""

    def markdown(self) -> str:
        outcomes = ("refused", "harmless", "silently loaded", "traceback")
        rows = [
            [damage, *(str(found.get(outcome, 0)) for outcome in outcomes)]
            for damage, found in _stored("damage")["files"].items()
        ]
        return markdown_table(["damage", *outcomes], rows)


class FuzzTable(Table):
    """Nonsense, as ``benchmarks/fuzz.py`` measured it."""

    def markdown(self) -> str:
        kinds = {"recipe_case": "recipes with `--set`", "call_case": "calls from Python"}
        outcomes = ("ok", "refused", "traceback", "hang", "message")
        rows = [
            [seed, kinds[kind], *(str(found.get(outcome, 0)) for outcome in outcomes)]
            for seed, cases in _stored("fuzz")["seeds"].items()
            for kind, found in cases.items()
        ]
        head = ["seed", "cases", "worked", "refused in one line", "tracebacks", "hangs", "messages too long"]
        return markdown_table(head, rows)


def _stored(name: str) -> dict[str, Any]:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def key_table(rows: Sequence[Sequence[str]]) -> str:
    return markdown_table(["key", "value", "default", "remark"], [[f"`{key}`", *rest] for key, *rest in rows])


def key_rows(model: type[BaseModel], prefix: str = "") -> Iterator[list[str]]:
    """Dotted key, type, default and description of every field, nested models included."""
    for name, field in model.model_fields.items():
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, BaseModel):
            yield from key_rows(nested, f"{prefix}{name}.")
            continue
        value = _type_name(field.annotation) + _limits(field.metadata)
        yield [f"{prefix}{name}", value, _default(field.get_default()), field.description or ""]


class CommandOptions(Table):
    """Arguments and options of a command, from the command itself."""

    required_arguments = 1

    def markdown(self) -> str:
        from evolvent.cli import app

        command: Any = typer.main.get_command(app)
        for name in self.arguments:
            command = command.commands[name]
        rows = [[f"`{self._call(p)}`", p.help or ""] for p in command.params if p.name != "help"]
        return f"{command.help}\n\n{markdown_table(['argument or option', 'meaning'], rows)}"

    @staticmethod
    def _call(parameter: Any) -> str:
        name = parameter.metavar or parameter.name.upper()
        if not parameter.opts[0].startswith("-"):  # an argument
            return f"{name} ..." if parameter.nargs == -1 else name
        return ", ".join(parameter.opts) + ("" if parameter.is_flag else f" {name}")


def _reference(kind: type, room: str) -> str:
    return f"{{py:class}}`~evolvent.{room}.{kind.__name__}`"


def _first_line(thing: object) -> str:
    """First paragraph of a docstring, its mathematics as Markdown has it."""
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":math:`([^`]*)`", r"$\1$", paragraph)


def _type_name(annotation: Any) -> str:
    """A type as a reader of YAML calls it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is typing.Annotated:
        constraints = [c for note in arguments[1:] for c in getattr(note, "metadata", [note])]
        return _type_name(arguments[0]) + _limits(constraints)
    if origin is list or arguments[1:] == (...,):
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return "mapping"
    if origin is tuple:
        return " and ".join(map(_type_name, arguments))
    if arguments:  # a union
        return " or ".join(_type_name(a) for a in arguments)
    if issubclass(annotation, BaseModel):
        return "mappings"
    return {"str": "text", "int": "integer", "float": "number", "bool": "true or false", "NoneType": "null"}.get(
        annotation.__name__, annotation.__name__
    )


def _limits(constraints: Sequence[Any]) -> str:
    found = ", ".join(filter(None, map(_limit, constraints)))
    return f" ({found})" if found else ""


def _limit(constraint: Any) -> str:
    if hasattr(constraint, "min_length"):
        return f"at least {constraint.min_length}"
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return ", ".join(f"{sign} {getattr(constraint, key)}" for key, sign in signs.items() if hasattr(constraint, key))


def _default(value: Any) -> str:
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "null"
    if value in ({}, []):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("network-table", NetworkTable)
    app.add_directive("network-options", NetworkOptions)
    app.add_directive("integrator-table", IntegratorTable)
    app.add_directive("dynamics-table", DynamicsTable)
    app.add_directive("gradient-table", GradientTable)
    app.add_directive("recipe-table", RecipeTable)
    app.add_directive("dataset-table", DatasetTable)
    app.add_directive("recipe-keys", RecipeKeys)
    app.add_directive("task-keys", TaskKeys)
    app.add_directive("command-options", CommandOptions)
    app.add_directive("export-table", ExportTable)
    app.add_directive("fault-table", FaultTable)
    app.add_directive("damage-table", DamageTable)
    app.add_directive("fuzz-table", FuzzTable)
    return {"parallel_read_safe": True}
