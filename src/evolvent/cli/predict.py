"""``evolvent predict`` and ``export``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor, nn


_ROWS = 40  # of the table on the terminal


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of one training.")],
    files: Annotated[list[Path], typer.Argument(help="PNG or JPEG images, folders of them, or CSV tables of points.")],
    csv: Annotated[Path | None, typer.Option(help="Write all answers as a CSV file.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the masks of a segmentation, as PNG; else masks/ in the run.")
    ] = None,
) -> None:
    """Ask a trained network about files: the class of each image or point, or of each pixel."""
    from evolvent._core.errors import ConfigError
    from evolvent.cli.display import show_line, show_table, show_warning, working
    from evolvent.report.numbers import percent
    from evolvent.tasks.prediction import MaskPredictions, load_predictor

    with working(f"reading {run}"):
        predictor = load_predictor(run)
    inputs = predictor.files(files)
    if csv is not None:
        _refuse_replaced_input(csv, inputs)
    with working(f"predicting {len(inputs)} files") as tell, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = predictor(inputs, tell)
    for warning in warned:
        show_warning(str(warning.message))
    if out is not None and not isinstance(found, MaskPredictions):
        raise ConfigError("--out is for the masks of a segmentation; this network gives one class. Use --csv.")
    columns, rows = found.table()
    if csv is not None:
        _write_csv(csv, columns, rows)
    shown = [[percent(cell) if isinstance(cell, float) else str(cell) for cell in row] for row in rows[:_ROWS]]
    show_table(columns, shown)
    if len(rows) > _ROWS:
        show_line(f"and {len(rows) - _ROWS:,} more{'.' if csv is not None else '; --csv FILE writes all.'}")
    if csv is not None:
        show_line(f"answers: {csv}")
    if isinstance(found, MaskPredictions):
        folder = run / "masks" if out is None else out
        found.save(folder)
        show_line(f"masks: {folder}")


def _refuse_replaced_input(csv: Path, inputs: list[str]) -> None:
    from evolvent._core.errors import ConfigError

    if csv.exists() and any(csv.samefile(file) for file in inputs if Path(file).exists()):
        raise ConfigError(f"the answers would replace {csv}, one of the files asked about. Choose another --csv.")


def _write_csv(path: Path, columns: list[str], rows: list[list[Any]]) -> None:
    import csv
    import io

    from evolvent._core.files import write_text

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    write_text(path, text.getvalue())


def export(
    run: Annotated[Path, typer.Argument(help="Run folder of one training.")],
    to: Annotated[str, typer.Option(help="onnx, torch-export or aot.")] = "onnx",
    out: Annotated[Path | None, typer.Option(help="File to write; else model.onnx or model.pt2 in the run.")] = None,
    fixed_steps: Annotated[
        int | None, typer.Option(min=1, help="Fixed steps in the place of each adaptive one, as of odenet.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
) -> None:
    """Write a trained network, with its preprocessing, as a file that runs without this library."""
    from evolvent._core.errors import UnknownNameError
    from evolvent.cli.display import show_line, working
    from evolvent.networks.exporting import SUFFIXES, export_network

    if to not in SUFFIXES:
        raise UnknownNameError("format", to, SUFFIXES, f"Known are {', '.join(SUFFIXES)}.")
    with working(f"reading {run}"):
        network, example, classes = _for_export(run, data)
    path = run / f"model{SUFFIXES[to]}" if out is None else out
    notes = {"classes": classes} if classes else {}
    with working(f"writing {path}"):
        found = export_network(network, example, path, to, notes=notes, fixed_steps=fixed_steps)  # pyright: ignore[reportArgumentType]
    batch = "any number of inputs" if found.any_batch else f"{len(example)} inputs at a time"
    shape = " x ".join(map(str, example.shape[1:]))
    gives = "the probability of each class" if classes else "what the network gives"
    show_line(f"{path}: takes {batch} of shape {shape}, {str(example.dtype).removeprefix('torch.')}; "
              f"gives {gives}; largest difference {found.difference:.1e}")  # fmt: skip
    if found.off_adaptive is not None:
        show_line(f"with {fixed_steps} fixed steps; the adaptive network's answers differ by {found.off_adaptive:.1e}")


def _for_export(run: Path, data: Path | None) -> tuple[nn.Module, Tensor, list[str]]:
    """The network to write, an example of its inputs, and the names of the classes that it gives, if it does."""
    from evolvent.experiments.engine import DataShelf
    from evolvent.experiments.trained import load_trained
    from evolvent.networks._files import model_folder
    from evolvent.tasks.prediction import FILE, load_predictor

    folder = model_folder(run)
    if (folder / FILE).is_file() or not (folder.parent / "result.json").is_file():
        predictor = load_predictor(run)
        return *predictor.for_export(), list(predictor.classes)
    trained = load_trained(folder.parent, DataShelf(data))
    return *trained.task.for_export(trained.material), []
