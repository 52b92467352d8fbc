"""What pages say of the command line, of names and of files is so."""

from __future__ import annotations

import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from evolvent.cli import app
from evolvent.data import list_datasets
from evolvent.experiments.catalogue import recipe_names
from evolvent.networks import PAPERS, list_models, model_entry

ROOT = Path(__file__).parents[2]
_CALL = re.compile(r"(?:^|\s)(?:evolvent|-m evolvent\.cli) +(.*)")


def calls(page) -> list[str]:
    """The arguments of all calls of ``evolvent`` in the shell blocks of a page."""
    found = []
    for block in page.blocks("console", "bash", "shell", "sh"):
        for line in re.sub(r"\\\n", " ", block.text).splitlines():
            is_input = block.language != "console" or line.startswith("$ ")
            match = _CALL.search(line)
            if is_input and match and not line.startswith("#"):
                found.append(re.sub(r"\$\w+", "0", match[1]))
    return found


def parsed(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """The verbs and the values of a call; raises what the command line would report."""
    command: Any = typer.main.get_command(app)
    verbs: list[str] = []
    while hasattr(command, "commands"):
        assert arguments, f"{verbs} needs a further verb"
        assert arguments[0] in command.commands, f"there is no verb {arguments[0]!r} after {verbs}"
        verbs.append(arguments[0])
        command, arguments = command.commands[arguments[0]], arguments[1:]
    return verbs, command.make_context(verbs[-1], list(arguments)).params


def test_shell_examples_are_calls_the_command_line_takes(page):
    for call in calls(page):
        verbs, values = parsed(shlex.split(call))
        match verbs:
            case ["run"]:
                assert values["recipe"].endswith(".yaml") or values["recipe"] in recipe_names(), call
            case ["models"]:
                assert list_models(values["pattern"]), call
            case ["cite"]:
                assert values["name"] in {*list_models(), *recipe_names(), *PAPERS}, call
            case ["data", "check"]:
                assert values["name"] in {*list_datasets(), "photos", "shapes"}, call  # or a folder of the reader's
            case ["data", "fetch"]:
                assert values["name"] in list_datasets(), call


def test_pages_import_public_modules_alone(page):
    for block in page.blocks("python"):
        assert not re.search(r"(?:from|import)\s+evolvent[\w.]*\._", block.text), block.text


def test_a_wrong_option_would_be_found():
    with pytest.raises(Exception, match="No such option: --device"):
        parsed(["run", "demo", "--device", "2"])


def test_verbs_in_running_text_exist(page):
    groups = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for words in re.findall(r"`evolvent ([a-z][^`]*)`", page.text):
        verb, *rest = words.split()
        assert verb in groups, words
        if hasattr(groups[verb], "commands") and rest:
            assert rest[0].rstrip(",") in groups[verb].commands, words


def test_make_goals_exist(page):
    goals = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for goal in re.findall(r"(?:`|\$ )make ([a-z-]+)", page.text):
        assert goal in goals


def test_every_command_has_an_example():
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for verb in [f"{name} {inner}" for inner in getattr(command, "commands", [])] or [name]:
            assert f"$ evolvent {verb}" in text


def test_readme_table_is_the_registry():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|.*\| `([\w-]+)` \|$", text, re.M)
    shown = {name: recipe for names, recipe in rows for name in re.findall(r"\w+", names)}
    assert shown == {name: model_entry(name).recipe for name in list_models()}


def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.text):
        if "://" in target or target.split("/")[-2:-1] == ["gallery"]:
            continue
        assert (page.path.parent / target).exists(), target


def test_files_of_the_package_exist(page):
    for name in re.findall(r"`(src/evolvent/[\w/.]+)`", page.text):
        assert (ROOT / name).exists() or "/my_" in name, name


def test_names_that_the_reference_is_asked_for_exist(page):
    for role, name in re.findall(r"\{(?:py:)?(func|class|mod|meth|exc)\}`(?:[^`<]*<|~)?(evolvent[\w.]*)", page.text):
        assert pkgutil.resolve_name(name), f"{role} {name}"


def test_the_reference_documents_every_family():
    text = (ROOT / "docs" / "api" / "networks.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"automodule:: (\S+)\n   :members:(.*)", text))
    for name in list_models():
        build = model_entry(name).build
        assert build.__module__ in shown, f"docs/api/networks.md lacks an automodule entry for {build.__module__}"
        members = [member.strip() for member in shown[build.__module__].split(",")]
        assert members == [""] or build.__name__ in members, name
