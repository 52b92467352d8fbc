"""``evolvent data list | check | fetch | example``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, check and fetch data sets.", no_args_is_help=True)

Folder = Annotated[Path | None, typer.Option("--data", help="Folder with data sets; else EVOLVENT_DATA.")]


@app.command("list")
def list_sets(data: Folder = None) -> None:
    """List all data sets and where each is found."""
    from evolvent.cli.display import show_table
    from evolvent.data import describe, list_datasets, locate
    from evolvent.errors import DataError
    from evolvent.report.numbers import count

    rows = []
    for name in list_datasets():
        entry = describe(name)
        try:
            place = locate(name, data).origin
        except DataError:
            place = f"not here: evolvent data fetch {name}" if entry.downloadable else f"not here: {entry.advice}"
        rows.append([name, entry.title, entry.size, f"{count(entry.train_count)} / {count(entry.test_count)}", place])
    show_table(["name", "what it is", "size", "train / test", "where"], rows)


@app.command("check")
def check_set(
    name: Annotated[str, typer.Argument(help="Name of a data set, or your own folder of images, npz or csv file.")],
    data: Folder = None,
) -> None:
    """Read a complete data set, and compare the files of a known one with the published checksums."""
    from evolvent.cli.display import show_line, show_table, show_warning, working
    from evolvent.data import check, check_own, list_datasets
    from evolvent.errors import DataError, UnknownNameError
    from evolvent.report.numbers import count

    own = name not in list_datasets()
    if own and not Path(name).exists():
        advice = "There is no file or folder of this name either; `evolvent data list` lists the known sets."
        raise UnknownNameError("data set", name, list_datasets(), advice)
    with working(f"reading {name}"):
        found = check_own(name) if own else check(name, data)
    published = {True: "as published", False: "differs from the published", None: "none published"}
    rows = [[f.path.name, count(f.size), f.sha256, f.fault or published[f.published]] for f in found.files]
    if own:
        show_line(f"{found.name}: {found.source}")
    else:
        show_table(["file", "bytes", "sha256", "checksum"], rows, title=f"{found.name}: {found.source}")
    for title, part in (("train", found.train), ("validation", found.val), ("test", found.test)):
        if part is not None:
            mean, std = (", ".join(f"{v:.4f}" for v in values) for values in (part.mean, part.std))
            rows = [[label, count(number)] for label, number in part.per_class[:20]]
            rows_are = "images" if part.counted == "pixels" else part.counted
            head = f"{title}: {count(part.count)} {rows_are.removesuffix('s') if part.count == 1 else rows_are}"
            head += f", mean {mean}, deviation {std}" if part.mean else ""
            show_table(["class", part.counted], rows, title=head)
    show_warning(found.warning)
    if not found.ok:
        raise DataError(found.fault)
    print(f"{name} is complete.")


@app.command("example")
def write_example_folder(out: Annotated[Path, typer.Option(help="Folder to make.")] = Path("shapes")) -> None:
    """Write a small folder of images with a folder for each class, to try your own images with."""
    from evolvent.cli.display import show_line
    from evolvent.data import write_example

    show_line(f"three classes of 40 x 56 grey images: {write_example(out)}")


@app.command("fetch")
def fetch_set(
    name: Annotated[str, typer.Argument(help="Name of a data set.")],
    out: Annotated[Path | None, typer.Option(help="Folder to put it in; else the user's cache.")] = None,
) -> None:
    """Download a data set from its original site and check its checksum."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from evolvent.cli.display import console
    from evolvent.data import fetch

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task(name, total=None)

        def draw(file: str, done: int, total: int | None) -> None:
            bars.update(bar, description=file, completed=done, total=total)

        folder = fetch(name, out, draw)
    print(f"{name} lies in {folder}.")
