"""``evolvent features``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def features(
    run: Annotated[Path, typer.Argument(help="Run folder of a trained classifier of images.")],
    out: Annotated[Path, typer.Option(help="The npz file to write.")],
    first: Annotated[int | None, typer.Option(min=0, help="First class; else those the network never saw.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Number of classes; with --first.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
) -> None:
    """Write the features of images of new classes, for few-shot tasks."""
    from evolvent._core.errors import ConfigError
    from evolvent.cli.display import show_line, working
    from evolvent.data import write_features
    from evolvent.tasks.class_ranges import ClassRange
    from evolvent.tasks.fewshot import features_of_run

    if (first is None) != (count is None):
        raise ConfigError("give both --first and --count, or neither.")
    classes = None if first is None or count is None else ClassRange(first=first, count=count)
    with working(f"computing features of {run}"):
        found = features_of_run(run, classes, data)
    write_features(out, found)
    show_line(f"{len(found.features):,} feature vectors of {len(found.sizes)} classes: {out}")
