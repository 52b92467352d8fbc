"""The command line. Commands are thin, and import torch only when they need it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from evolvent._core.errors import EvolventError, PeerError
from evolvent._core.launchers import is_main_process
from evolvent._core.memory import is_out_of_memory
from evolvent._core.stopping import Stopped, listening
from evolvent._core.told_warnings import told_warnings
from evolvent.cli import analyze, data, evaluate, features, listing, predict, report, run, solve

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
app.command("solve")(solve.solve)
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
    """Entry point: an error that the user can act on is one line and exit code 2; a bug keeps its traceback.

    A signal ends with one line that says how to go on, and 128 and the signal's number as exit code.
    """
    parent = os.getppid()
    try:
        with listening(), told_warnings(_warn):
            app()
    except PeerError as error:
        if is_main_process() or os.getppid() != parent:  # one process says it: the first, or those that outlive it
            _say(f"error: {error}")
        sys.exit(1)
    except EvolventError as error:
        _say(f"error: {error}")
        sys.exit(2)
    except BrokenPipeError:  # of `evolvent ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + 13)
    except OSError as error:  # a fault of the system and not of ours, at a place that did not expect it
        where = f"{error.filename}: " if error.filename else ""
        _say(f"error: {where}{error.strerror or error}.")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        advice = "Try a smaller data.batch_size or network, or training.gradient=checkpoint."
        _say(f"error: there is not enough memory. {advice}")
        sys.exit(1)
    except (Stopped, KeyboardInterrupt) as reason:
        stopped = reason if isinstance(reason, Stopped) else Stopped(signal.SIGINT)
        if is_main_process():
            _say(_how_to_go_on(stopped))
        sys.exit(stopped.code)


def _warn(text: str) -> None:
    """Show a warning as the commands show theirs, or on stderr while what they use is not imported."""
    if not is_main_process():
        return
    display: Any = sys.modules.get("evolvent.cli.display")
    if hasattr(display, "show_warning"):
        display.show_warning(text)
    else:
        _say(f"warning: {text}")


def _say(line: str) -> None:
    """Print to stderr; whoever read it may be gone."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _how_to_go_on(stopped: Stopped) -> str:
    asked = "Ctrl-C" if stopped.name == "SIGINT" else stopped.name
    arguments = sys.argv[1:]
    if arguments[:1] != ["run"]:
        return f"stopped by {asked}."
    kept = "a checkpoint is written" if stopped.checkpoint else "what is finished is kept"
    command = shlex.join(["evolvent", *arguments, *([] if "--resume" in arguments else ["--resume"])])
    return f"stopped by {asked}; {kept}. Go on with: {command}"
