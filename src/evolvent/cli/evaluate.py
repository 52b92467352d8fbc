"""``evolvent evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from evolvent.analysis import Robustness
    from evolvent.experiments.trained import TrainedCell


_AUDITED = 200  # images at most: they are attacked all at once


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, of one training or of a grid each.")],
    attack: Annotated[
        str | None, typer.Option(help="Attack the test images: fgsm, pgd, apgd, fab, square or auto, with commas.")
    ] = None,
    eps: Annotated[
        str | None, typer.Option(help="Budgets of attacks, in [0, 1], with commas; else 0.5/255,1/255,3/255.")
    ] = None,
    corrupt: Annotated[
        str | None, typer.Option(help="Corrupt the test images: noise, crop, rotate or jitter, with commas.")
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Check whether masked gradients deceive attacks.")] = False,
    images: Annotated[
        int | None, typer.Option(min=1, help="Test images, at most; else 1000, or 100 to audit, at most 200.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of pgd; else 3.")] = None,
    step_size: Annotated[str | None, typer.Option(help="Step size of pgd; else 1/255.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with data sets; else EVOLVENT_DATA.")] = None,
) -> None:
    """Test the saved models of runs again: on the test data, and on attacked or corrupted images."""
    from evolvent._core.errors import ConfigError
    from evolvent.cli.finished import draw_report

    if not (attack or corrupt or audit):
        if eps or images or steps or step_size:
            raise ConfigError(
                "--eps, --steps, --step-size and --images are for perturbed images: add --attack, --corrupt or --audit."
            )
        for run in runs:
            _test_again(run, data)
        return
    if eps and not (attack or audit):
        raise ConfigError("--eps is the budget of attacks: add --attack or --audit.")
    if (steps or step_size) and "pgd" not in _names(attack):
        raise ConfigError("--steps and --step-size are those of the attack pgd: add --attack pgd.")
    options = _options(attack, eps, corrupt, steps or 3, step_size or "1/255")
    trained = _trained(runs, data)
    if attack or corrupt:
        _perturb(trained, images or 1000, options)
    if audit:
        _audit(trained, min(images or 100, _AUDITED), {"eps": max(options["eps"])} if attack or eps else {})
    for run in runs:
        draw_report(run)


def _test_again(run: Path, data: Path | None) -> None:
    from evolvent.cli.display import show_table, show_warning, working
    from evolvent.experiments.engine import DataShelf
    from evolvent.experiments.record import cell_folders
    from evolvent.experiments.trained import load_trained
    from evolvent.report.numbers import write
    from evolvent.report.tables import plain_rows

    shelf = DataShelf(data)
    for folder in cell_folders(run):
        with working(f"testing {folder}"):
            trained = load_trained(folder, shelf)
            cell, findings = trained.cell, trained.evaluate()
        show_warning(trained.warning)
        named = {kind.name: kind for kind in trained.task.figures}
        rows = []
        for name, value in findings.figures.items():
            kind = named.get(name)
            digits = 2 if kind and kind.unit == "share" else None
            rows.append([kind.title if kind else name, write(value, kind.unit if kind else "number", digits)])
        show_table([cell.label, "test"], rows)
        for table in findings.tables:
            show_table(table.columns, plain_rows(table), title=f"{cell.label}: {table.title}")


def _options(attack: str | None, eps: str | None, corrupt: str | None, steps: int, step_size: str) -> dict[str, Any]:
    """What was asked for, checked before anything is read."""
    from evolvent.analysis.robustness import CORRUPTIONS, PAPER_BUDGETS, PGD, make_attack, parse_budgets

    size = parse_budgets(step_size, "step_size")[0]
    attacks = [make_attack(name) for name in _names(attack)]
    for name in _names(corrupt):
        CORRUPTIONS.get(name)
    return {
        "attacks": [PGD(steps, size) if isinstance(one, PGD) else one for one in attacks],
        "eps": parse_budgets(eps) if eps else list(PAPER_BUDGETS),
        "corruptions": _names(corrupt),
    }


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _trained(runs: list[Path], data: Path | None) -> dict[tuple[str, Path], TrainedCell]:
    """The finished trainings of all runs, by a label that distinguishes them and by their folders."""
    from evolvent.cli.finished import finished_trainings

    found = list(finished_trainings(runs, data))
    labels = [one.cell.label for _, _, one in found]
    distinct = len(set(labels)) == len(labels)
    return {
        (label if distinct else f"{run.name} {label}", folder): one
        for label, (run, folder, one) in zip(labels, found, strict=True)
    }


def _perturb(trained: dict[tuple[str, Path], TrainedCell], images: int, options: dict[str, Any]) -> None:
    from evolvent.cli.display import working
    from evolvent.report.analyses import analysis_path, measured_robustness, write_analysis

    found = {}
    for (label, folder), one in trained.items():
        with working(f"perturbing images for {label}") as tell:
            found[label] = measured_robustness(one, images, tell, **options)
        write_analysis(analysis_path(folder, "robustness"), "robustness", found[label])
    _show(found)


def _show(found: dict[str, Robustness]) -> None:
    """One table of all trainings: for each perturbation a row for each of them."""
    from evolvent.cli.display import show_table
    from evolvent.report.analysis_rows import robustness_rows

    tables = {label: robustness_rows(one) for label, one in found.items()}
    columns, first = next(iter(tables.values()))
    rows = [[own[k][0], label, *own[k][1:]] for k in range(len(first)) for label, (_, own) in tables.items()]
    count = next(iter(found.values())).count
    if len(found) == 1:
        show_table(columns, first, title=f"{next(iter(found))}, {count:,} test images")
    else:
        show_table([columns[0], "network", *columns[1:]], rows, title=f"{count:,} test images")


def _audit(trained: dict[tuple[str, Path], TrainedCell], images: int, options: dict[str, Any]) -> None:
    from evolvent.analysis.robustness import budget_text
    from evolvent.cli.display import show_line, show_table, working
    from evolvent.report.analyses import ANALYSES, analysis_path, measured_masking, write_analysis

    for (label, folder), one in trained.items():
        with working(f"auditing {label}") as tell:
            found = measured_masking(one, images, tell, **options)
        write_analysis(analysis_path(folder, "masking"), "masking", found)
        show_table(*ANALYSES["masking"].rows(found), title=f"{label}, {budget_text(found.eps)}, {found.count:,} images")
        show_line(f"{label}: {found.verdict}")
