"""Pictures from Python: each function returns a matplotlib figure, which notebooks show and ``savefig`` writes.

Available as ``evolvent.plot``. matplotlib is imported when a picture is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.checks import check_path, told
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State, parts
from evolvent.analysis.spectrum import Spectrum, spectra
from evolvent.analysis.stability import EvolutionStability, measure_stability
from evolvent.analysis.states import evolution_inputs
from evolvent.evolution import Evolution
from evolvent.experiments.record import Record, cell_folders, read_record
from evolvent.report.axes import few_ticks, log_axis
from evolvent.report.matrices import row_shares
from evolvent.report.theme import LIGHT
from evolvent.tasks.findings import Figure as Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["confusion", "curves", "spectrum", "stability", "trajectory"]

_SHOWN = 200  # paths of points at most
_NAMED = 20  # classes up to which cells of a confusion matrix are written out
_MARKED = 5  # epochs up to which each is marked: one alone has no line
_LOGARITHMIC = 20  # largest over smallest value from which an axis is logarithmic
_PARTS = {"train": "-", "val": "--", "test": ":"}


def trajectory(model: nn.Module, x: State) -> Figure:
    """How features move and how large they are, through the time of each evolution of a model.

    Args:
        model: an evolution, or a network that has some.
        x: what it takes. Features of shape (N, d) are drawn as paths in the plane of the first two of them.
    """
    found = evolution_inputs(model, x)
    if not found:
        raise ConfigError(f"{type(model).__name__} has no evolution, so that nothing moves. Give one, or a network.")
    planar = [start for start in found if _is_planar(start.u0)]
    figure, axes = _panels(len(planar) + 1)
    ends = 0.0
    for k, start in enumerate(found):
        with torch.no_grad(), evaluation_mode(start.evolution):
            path = start.evolution.trajectory(start.u0)
        times = ends + start.evolution.step_size * np.arange(len(path))
        sizes = torch.stack([_norms(u) for u in path]).numpy()
        for one in sizes[:, :_SHOWN].T:
            axes[-1].plot(times, one, color=_colour(k), linewidth=0.8, alpha=0.5)
        ends = times[-1]
        if start in planar:
            _draw_paths(axes[planar.index(start)], path, start.name)
    axes[-1].set(title="size of the features", xlabel="time", ylabel="norm")
    return figure


def stability(model: nn.Module | Sequence[EvolutionStability], x: State | None = None) -> Figure:
    """How perturbations grow through each evolution, and what its energy does.

    Args:
        model: a network or evolution, or what :func:`~evolvent.analysis.measure_stability` measured of it.
        x: what the model takes; not needed for measurements.
    """
    if isinstance(model, nn.Module):
        if x is None:
            raise ConfigError("give an input of the network as well: ev.plot.stability(model, x).")
        model = measure_stability(model, x)
    _check_measured(model, EvolutionStability, "ev.plot.stability takes a network and its input, or stability")
    figure, (growing, energy) = _panels(2)
    for k, found in enumerate(model):
        name = found.name or found.dynamics
        times, colour = found.growth.times, _colour(k)
        growing.plot(times, found.growth.worst, "o-", color=colour, markersize=3, label=f"{name}, worst")
        growing.plot(times, found.growth.random, "--", color=colour, label=f"{name}, random")
        energy.plot(found.energy.times, found.energy.values, color=colour, label=f"{name}, {found.energy.kind}")
    growing.axhline(1, color="0.6", linewidth=0.8)
    worst = [value for found in model for value in found.growth.worst]
    if max(worst, default=1.0) > _LOGARITHMIC * min(worst, default=1.0) > 0:
        log_axis(growing)
    growing.set(title="growth of perturbations", xlabel="time")
    energy.set(title="relative change of energy or norm", xlabel="time")
    for axes in (growing, energy):
        axes.legend(frameon=False, fontsize=8)
    return figure


def spectrum(model: Evolution | Sequence[Spectrum], u0: State | None = None, *, points: int = 5) -> Figure:
    r"""Eigenvalues of :math:`\partial F / \partial u` in the complex plane, at some times; the first are the darkest.

    Args:
        model: an evolution, or what :func:`~evolvent.analysis.spectra` measured of it.
        u0: initial states; not needed for measurements.
        points: times at which to look.
    """
    if isinstance(model, nn.Module):
        if u0 is None or not isinstance(model, Evolution):
            raise ConfigError("give an evolution and its initial state: ev.plot.spectrum(network.body[0], u0).")
        model = spectra(model, u0, points=points)
    _check_measured(model, Spectrum, "ev.plot.spectrum takes an evolution and its initial state, or spectrum")
    figure, [axes] = _panels(1)
    for k, found in enumerate(model):
        values = np.array(found.eigenvalues)
        shade = 1 - 0.7 * k / max(1, len(model) - 1)
        label = f"t = {found.time:.3g}"
        axes.plot(np.real(values), np.imag(values), "o", color=_colour(0), alpha=shade, markersize=4, label=label)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.set(title="spectrum", xlabel="real part", ylabel="imaginary part")
    axes.legend(frameon=False, fontsize=8)
    return figure


def curves(run: str | os.PathLike[str]) -> Figure:
    """What was measured in each epoch of the trainings of a run, a panel for each figure.

    Solid lines are training rows, dashed ones validation, dotted ones test rows.
    """
    records = [record for record in _records(run, "ev.plot.curves") if record.metrics]
    if not records:
        raise ConfigError(f"{run} has no metrics yet. Train it with `evolvent run` first.")
    kinds = _measures(records)
    figure, axes = _panels(len(kinds))
    for panel, kind in zip(axes, kinds, strict=True):
        for k, record in enumerate(records):
            for part, stroke in _PARTS.items():
                values = record.metrics.get(f"{part}_{kind.name}")
                if values and not np.isnan(values).all():
                    label = f"{record.cell.label}, {part}"
                    mark = "o" if len(values) <= _MARKED else None
                    epochs = range(1, len(values) + 1)
                    panel.plot(epochs, values, stroke, color=_colour(k), label=label, marker=mark, markersize=4)
        panel.set(title=kind.title, xlabel="epoch")
        few_ticks(panel.xaxis, whole=True)
        panel.legend(frameon=False, fontsize=8)
    return figure


def confusion(run: str | os.PathLike[str]) -> Figure:
    """Which classes were taken for which, as shares of each true class; of a run with one finished training."""
    found = [(record, record.findings) for record in _records(run, "ev.plot.confusion")]
    done = [(record, one.matrices[0]) for record, one in found if one is not None and one.matrices]
    if len(done) != 1:
        raise ConfigError(
            "a confusion matrix is drawn of one finished training of the task classification, segmentation or nodes; "
            f"{run} has {len(done)} of them. Give the folder of one."
        )
    [(record, matrix)] = done
    shares = row_shares(matrix.counts)
    figure, [axes] = _panels(1, side=max(4.2, min(9.0, 0.35 * len(shares) + 2)))
    image = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="percent of the true class", fraction=0.046)
    axes.grid(False)
    if len(shares) <= _NAMED:
        axes.set_xticks(range(len(shares)), matrix.classes, rotation=45, ha="right")
        axes.set_yticks(range(len(shares)), matrix.classes)
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                ink = "white" if share > 0.5 else "black"
                axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", color=ink, fontsize=8)
    axes.set(title=record.cell.label, xlabel="predicted", ylabel="true")
    return figure


def _records(run: object, taker: str) -> list[Record]:
    return [read_record(folder) for folder in cell_folders(check_path(run, taker))]


def _check_measured(given: object, kind: type, expected: str) -> None:
    """Refuse what is not a sequence of measurements."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(one, kind) for one in given):
        raise ConfigError(f"{expected} measurements, got {told(given)}.")


def _panels(count: int, side: float = 4.2) -> tuple[Figure, list[Axes]]:
    """Empty axes side by side, on a figure that a notebook shows by itself."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            import io

            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    figure = Picture(figsize=(side * count + 0.6, side * 0.8), layout="constrained")
    axes = [figure.add_subplot(1, count, k + 1) for k in range(count)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(color="0.9", linewidth=0.7)
        one.set_axisbelow(True)
    return figure, axes


def _colour(index: int) -> str:
    return LIGHT[index % len(LIGHT)]


def _is_planar(u: State) -> bool:
    return isinstance(u, Tensor) and u.ndim == 2 and u.shape[1] >= 2 and not u.is_complex()


def _norms(u: State) -> Tensor:
    """The norm of each sample."""
    return torch.cat([part.reshape(len(part), -1) for part in parts(u)], dim=1).norm(dim=1).float().cpu()


def _draw_paths(axes: Axes, path: Sequence[Any], name: str) -> None:
    lines = torch.stack([u[:_SHOWN, :2] for u in path], dim=1).float().cpu().numpy()  # (points, times, 2)
    for k, line in enumerate(lines):
        axes.plot(*line.T, color=_colour(k), linewidth=0.8)
    axes.plot(*lines[:, -1].T, "o", color="0.2", markersize=3)
    axes.set(title=name or "paths", xlabel="first feature", ylabel="second feature")


def _measures(records: Sequence[Record]) -> list[Measure]:
    """The figures that metrics have, in the order of the tasks."""
    known = {kind.name: kind for record in records for kind in record.cell.kind.figures if kind.shown}
    columns = {key.partition("_")[2] for record in records for key in record.metrics if key.partition("_")[0] in _PARTS}
    return [kind for name, kind in known.items() if name in columns]
