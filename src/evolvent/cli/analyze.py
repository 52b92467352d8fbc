"""``evolvent analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from evolvent.analysis import EvolutionStability, FieldOfView, LayerTable, MapSpectrum


def analyze(
    run: Annotated[Path, typer.Argument(help="A run folder, or a grid's.")],
    what: Annotated[str, typer.Argument(help="stability, cost, field-of-view or spectra.")],
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
    images: Annotated[int, typer.Option(min=2, help="Test images to look at.")] = 8,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON files; else analysis/ in the run, which the report shows.")
    ] = None,
) -> None:
    """Measure the trained networks of a run: stability, cost per layer, field of view, spectra of the maps."""
    from evolvent._core.errors import ConfigError, UnknownNameError
    from evolvent._core.files import write_text
    from evolvent.cli.display import console, working
    from evolvent.experiments.record import cell_folders, is_finished
    from evolvent.report import write_report
    from evolvent.report.analyses import KINDS, analysis_path

    if what not in KINDS:
        raise UnknownNameError("analysis", what, KINDS, f"Known are {', '.join(KINDS)}.")
    folders = [folder for folder in cell_folders(run) if is_finished(folder)]
    if not folders:
        raise ConfigError(f"no training in {run} is finished. Go on with `evolvent run ... --resume`, then analyze.")
    for folder in folders:
        label, model, pixels = _trained(folder, data, images, as_trained=what == "cost")
        with working(f"measuring {label}"):
            found = _measure(what, model, pixels)
        _show(what, label, found)
        target = analysis_path(folder, what) if out is None else out / label / f"{what}.json"
        write_text(target, _json(what, found))
    if out is None:
        with working("drawing the report"):
            report = write_report([run], run / "report.html")
        console.print(f"report: {report}", soft_wrap=True)


def _trained(folder: Path, data: Path | None, count: int, as_trained: bool) -> tuple[str, nn.Module, Tensor]:
    """The cell's label, its saved network, perhaps with its gradient strategy, and test images as it sees them."""
    import torch

    from evolvent import set_gradient
    from evolvent.data import Preprocess
    from evolvent.experiments.engine import load_data
    from evolvent.experiments.record import read_record
    from evolvent.networks import load

    cell = read_record(folder).cell
    images = load_data(cell.data, data).test.images[:count]
    model = load(folder / "model")
    set_gradient(model, cell.training.gradient if as_trained else "backprop")
    with torch.no_grad():
        return cell.label, model, Preprocess.load(folder / "model")(images)


def _measure(what: str, model: nn.Module, pixels: Tensor) -> Any:
    from evolvent import analysis

    measures = {
        "stability": analysis.measure_stability,
        "cost": analysis.layer_costs,
        "field-of-view": analysis.fields_of_view,
        "spectra": analysis.map_spectra,
    }
    return measures[what](model, pixels)


def _json(what: str, found: Any) -> str:
    """The measures as JSON, a list of them under a name of its own."""
    import json

    from evolvent._core.plain import plain

    name = {"stability": "evolutions", "field-of-view": "fields", "spectra": "maps"}.get(what)
    return json.dumps(plain({name: found} if name else found, digits=6), allow_nan=False) + "\n"


def _show(what: str, label: str, found: Any) -> None:
    from evolvent.cli.display import console, show_table

    rows_of = {"stability": _stability_rows, "cost": _cost_rows, "field-of-view": _view_rows, "spectra": _map_rows}
    columns, rows = rows_of[what](found)
    show_table(columns, rows, title=label)
    for evolution in found if what == "stability" else ():
        if evolution.warning:
            console.print(f"warning: {evolution.warning}", soft_wrap=True)


def _stability_rows(found: list[EvolutionStability]) -> tuple[list[str], list[list[str]]]:
    from evolvent.report.numbers import NONE, decimal, percent, signed

    columns = ["evolution", "method", "steps", "h", "largest stable h", "worst growth", "random", "change", "way back"]
    rows = []
    for e in found:
        limit = min(e.bound.decay, e.bound.oscillation or float("inf"))
        largest = NONE if limit == float("inf") else decimal(limit, 3)
        growth = [decimal(e.growth.worst[-1], 3), decimal(e.growth.random[-1], 3)]
        change = f"{e.energy.kind} {signed(percent(e.energy.values[-1], 2))}"
        back = f"{max(e.reconstructions[0].errors):.1e}" if e.reconstructions else NONE
        rows.append([e.name, e.integrator, str(e.steps), f"{e.step_size:g}", largest, *growth, change, back])
    return columns, rows


def _cost_rows(found: LayerTable) -> tuple[list[str], list[list[str]]]:
    from evolvent.report.layers import milliseconds
    from evolvent.report.numbers import count, memory, percent, short

    columns = ["layer", "kind", "parameters", "multiply-adds", "activations", "time", "share"]
    whole = found.total.seconds or 1.0
    rows = []
    for layer in (*found.layers, *found.between, found.total):
        sizes = [count(layer.parameters), short(layer.multiply_adds), memory(layer.activation_bytes)]
        rows.append([layer.name, layer.kind, *sizes, milliseconds(layer.seconds), percent(layer.seconds / whole)])
    return columns, rows


def _view_rows(found: list[FieldOfView]) -> tuple[list[str], list[list[str]]]:
    from evolvent.report.numbers import decimal

    columns = ["after", "feature pixel", "radius", "area", "box", "pixels seen"]
    rows = [
        [f.name, f"{f.pixel[0]}, {f.pixel[1]}", decimal(f.radius, 3), decimal(f.area, 3), f"{f.box[0]}x{f.box[1]}",
         f"{f.support} of {f.map.numel()}"]
        for f in found
    ]  # fmt: skip
    return columns, rows


def _map_rows(found: list[MapSpectrum]) -> tuple[list[str], list[list[str]]]:
    from evolvent.report.numbers import decimal, percent

    columns = ["map", "eigenvalues", "real parts from", "to", "positive", "symmetric part from", "to", "positive"]
    rows = [
        [m.name, str(m.count), decimal(m.real_parts[0], 3), decimal(m.real_parts[-1], 3), percent(m.positive_share),
         decimal(m.symmetric[0], 3), decimal(m.symmetric[-1], 3), percent(m.positive_share_symmetric)]
        for m in found
    ]  # fmt: skip
    return columns, rows
