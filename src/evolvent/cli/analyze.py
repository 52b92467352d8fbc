"""``evolvent analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def analyze(
    run: Annotated[Path, typer.Argument(help="A run folder, of one training or of a grid.")],
    what: Annotated[
        str,
        typer.Argument(
            help="stability, cost, field-of-view, spectra, angles, equivariance, coefficients, features, inversion, "
            "robustness or masking."
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
    inputs: Annotated[
        int | None, typer.Option(min=2, help="Inputs to look at, at most; else a few, or 1000 for accuracies.")
    ] = None,
    layer: Annotated[
        str | None, typer.Option(help="Layer of the network, such as body.0; for features and inversion.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the JSON files; else analysis/ in the run, which the report shows.")
    ] = None,
) -> None:
    """Measure the trained networks of a run: stability, cost, field of view, spectra, rotations, robustness."""
    from evolvent._core.errors import ConfigError, UnknownNameError
    from evolvent.cli.display import show_line, show_table, working
    from evolvent.cli.finished import draw_report, finished_trainings
    from evolvent.report.analyses import ANALYSES, analysis_path, write_analysis

    if what not in ANALYSES:
        raise UnknownNameError("analysis", what, ANALYSES, f"Known are {', '.join(ANALYSES)}.")
    if layer and not ANALYSES[what].by_layer:
        able = ", ".join(name for name, one in ANALYSES.items() if one.by_layer)
        raise ConfigError(f"{what} looks at the whole network; --layer is for {able}. Leave it out.")
    analysis = ANALYSES[what]
    for _, folder, trained in finished_trainings([run], data):
        with working(f"measuring {trained.cell.label}") as tell:
            found = analysis.measure(trained, inputs or analysis.inputs, tell, **({"layer": layer} if layer else {}))
        if not found:
            show_line(f"{trained.cell.label}: nothing to measure; its network has no parts of this kind")
            continue
        show_table(*analysis.rows(found), title=trained.cell.label)
        for warning in analysis.warnings(found):
            show_line(f"warning: {warning}")
        path = analysis_path(folder, what) if out is None else out / trained.cell.folder_name / f"{what}.json"
        write_analysis(path, what, found)
    if out is None:
        draw_report(run)
