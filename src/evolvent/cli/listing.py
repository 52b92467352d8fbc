"""``evolvent recipes``, ``models`` and ``cite``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evolvent.experiments.recipe import Recipe, StudyRecipe


def recipes() -> None:
    """List the recipes: one for each table, figure or study."""
    from evolvent.cli.display import show_table
    from evolvent.experiments.catalogue import load_recipe, recipe_names
    from evolvent.report.numbers import NONE

    found = [load_recipe(name) for name in recipe_names()]
    rows = [[r.name, r.title, _task(r), *r.scope, f"{r.minutes:g} min" if r.minutes else NONE] for r in found]
    show_table(["recipe", "what it shows", "task", "data", "trainings", "on two cores"], rows)


def _task(recipe: Recipe | StudyRecipe) -> str:
    """The tasks of a recipe's cells; a study has none."""
    from evolvent.experiments.recipe import Recipe

    if not isinstance(recipe, Recipe):
        return "study"
    return ", ".join(dict.fromkeys(cell.task.name for cell in recipe.cells()))


def models(
    pattern: Annotated[str, typer.Argument(help="Shell pattern, e.g. 'resnet*', or the name of one network.")] = "*",
) -> None:
    """List the networks, or print the options, papers and recipe of one."""
    from evolvent._core.errors import UnknownNameError
    from evolvent.analysis import count_parameters
    from evolvent.cli.display import show_table
    from evolvent.networks import create_model, list_models, model_entry
    from evolvent.report.numbers import count

    names = list_models(pattern)
    if not names:
        raise UnknownNameError("network", pattern, list_models(), "`evolvent models` lists all of them.")
    if names == [pattern]:
        _show_network(pattern)
        return
    entries = [model_entry(name) for name in names]
    rows = [
        [e.name, count(count_parameters(create_model(e.name))), e.summary, ", ".join(e.papers), e.recipe]
        for e in entries
    ]
    show_table(["network", "parameters", "what it is", "papers", "recipe"], rows)


def _show_network(name: str) -> None:
    """What one network is, what can be chosen, where it comes from and how to train it."""
    from evolvent.analysis import count_parameters
    from evolvent.cli.display import show_line, show_table
    from evolvent.networks import PAPERS, create_model, model_entry
    from evolvent.report.numbers import count

    entry = model_entry(name)
    show_line(f"{name}: {entry.summary}")
    show_line(f"{count(count_parameters(create_model(name)))} parameters as it is; family {entry.family}")
    columns = ["option", "values", "default", "meaning"]
    rows = [[o.name, o.values, o.default, o.meaning] for o in entry.read_options({}).in_words()]
    if entry.fixed:  # by a member of a family
        columns.insert(3, "set by")
        rows = [[*row[:3], "this name" if row[0] in entry.fixed else "", row[3]] for row in rows]
    show_table(columns, rows)
    for key in entry.papers:
        show_line(f"{key}: {PAPERS.get(key).reference()}")
    show_line(f"train it: evolvent run {entry.recipe}; all papers as BibTeX: evolvent cite {name}")


def cite(name: Annotated[str, typer.Argument(help="A network, a recipe or a paper's key.")]) -> None:
    """Print the papers behind a network or recipe as BibTeX."""
    from evolvent._core.errors import UnknownNameError
    from evolvent.experiments.catalogue import load_recipe, recipe_names
    from evolvent.networks import PAPERS, list_models, model_entry

    if name in list_models():
        keys = model_entry(name).papers
    elif name in recipe_names():
        keys = tuple(load_recipe(name).papers)
    elif name in PAPERS:
        keys = (name,)
    else:
        raise UnknownNameError("network, recipe or paper", name, [*list_models(), *recipe_names(), *PAPERS])
    print("\n\n".join(PAPERS.get(key).bibtex() for key in keys))
