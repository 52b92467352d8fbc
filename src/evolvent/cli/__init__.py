"""The command line. Commands are thin, and import torch only when they need it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from evolvent._core.errors import EvolventError
from evolvent.cli import analyze, data, evaluate, features, listing, predict, report, run

app = typer.Typer(
    name="evolvent",
    help="Deep networks as evolution equations: train, compare and inspect them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from evolvent import __version__

        print(f"evolvent {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("run")(run.run)
app.command("recipes")(listing.recipes)
app.command("models")(listing.models)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("export")(predict.export)
app.command("features")(features.features)
app.command("analyze")(analyze.analyze)
app.command("report")(report.report)
app.command("cite")(listing.cite)
app.add_typer(data.app, name="data")


def main() -> None:
    """Entry point: an error that the user can act on is one line and exit code 2; a bug keeps its traceback."""
    try:
        app()
    except EvolventError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; finished work is kept, and `evolvent run ... --resume` continues.", file=sys.stderr)
        sys.exit(130)
