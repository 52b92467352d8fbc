"""What ``evolvent analyze`` measures: how it is measured, written to run folders, read back and listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent._core.errors import ConfigError
from evolvent._core.files import write_json
from evolvent._core.plain import plain
from evolvent._core.seals import sealed, unsealed
from evolvent.experiments.record import reading
from evolvent.report.numbers import NONE, count, decimal, memory, milliseconds, percent, short
from evolvent.report.runs import Series

if TYPE_CHECKING:
    from torch import nn

    from evolvent.analysis import (
        CoefficientMaps,
        Equivariance,
        EvolutionStability,
        FeatureClusters,
        FieldOfView,
        Inversion,
        LayerTable,
        MapSpectrum,
        MaskingAudit,
        Robustness,
        RotationAccuracy,
    )
    from evolvent.experiments.trained import TrainedCell

_SEEDS = 24  # of a variant that are read at most
_INVERTED = 6  # layers, unless one is chosen

Rows = tuple[list[str], list[list[str]]]
"""The columns of a table and its rows."""

Tell = Callable[[float], None]
"""Takes the share of some work that is done."""


def analysis_path(folder: Path, what: str) -> Path:
    """Where a run folder keeps one kind of analysis."""
    return folder / "analysis" / f"{what}.json"


def read_analyses(series: Series, what: str) -> list[dict[str, Any]]:
    """One kind of analysis of each seed that has it."""
    paths = [analysis_path(record.folder, what) for record in series.records[:_SEEDS]]
    return [found for path in paths if (found := _read_analysis(path)) is not None]


def _read_analysis(path: Path) -> dict[str, Any] | None:
    """What an analysis found; None if it was not made."""
    if not path.is_file():
        return None
    with reading(path, "Delete it, or analyze the run again."):
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError("not a mapping of names to values")
    return unsealed(values, str(path))


def analysed(all_series: Sequence[Series], what: str) -> list[tuple[Series, list[dict[str, Any]]]]:
    """The series that have one kind of analysis, with it."""
    return [(series, found) for series in all_series if (found := read_analyses(series, what))]


def numbers(values: Sequence[float | None]) -> np.ndarray:
    """Values as an array; what JSON could not hold is NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def median(parts: Sequence[dict[str, Any]], pick: Callable[[dict[str, Any]], float | None]) -> float | None:
    """The median over seeds of one number, of those that have it.

    >>> median([{"a": 1.0}, {"a": None}, {"a": 3.0}], lambda part: part["a"])
    2.0
    """
    found = [value for part in parts if (value := pick(part)) is not None]
    return float(np.median(found)) if found else None


def _stability_rows(found: list[EvolutionStability]) -> Rows:
    columns = ["evolution", "method", "steps", "h", "largest stable h", "worst growth", "random", "change", "way back"]
    rows = []
    for e in found:
        limit = min(e.bound.decay, e.bound.oscillation or float("inf"))
        largest = NONE if limit == float("inf") else decimal(limit, 3)
        growth = [decimal(e.growth.worst[-1], 3), decimal(e.growth.random[-1], 3)]
        change = f"{e.energy.kind} {percent(e.energy.values[-1], 2)}"
        back = decimal(max(e.reconstructions[0].errors), 2) if e.reconstructions else NONE
        rows.append([e.name, e.integrator, str(e.steps), decimal(e.step_size), largest, *growth, change, back])
    return columns, rows


def _cost_rows(found: LayerTable) -> Rows:
    columns = ["layer", "kind", "parameters", "multiply-adds", "activations", "time", "share"]
    whole = found.total.seconds or 1.0
    rows = []
    for layer in (*found.layers, *found.between, found.total):
        sizes = [count(layer.parameters), short(layer.multiply_adds), memory(layer.activation_bytes)]
        rows.append([layer.name, layer.kind, *sizes, milliseconds(layer.seconds), percent(layer.seconds / whole)])
    return columns, rows


def _view_rows(found: list[FieldOfView]) -> Rows:
    columns = ["after", "feature pixel", "radius", "area", "box", "pixels seen"]
    rows = [
        [f.name, f"{f.pixel[0]}, {f.pixel[1]}", decimal(f.radius, 3), decimal(f.area, 3), f"{f.box[0]}x{f.box[1]}",
         f"{f.support} of {f.map.numel()}"]
        for f in found
    ]  # fmt: skip
    return columns, rows


def _map_rows(found: list[MapSpectrum]) -> Rows:
    columns = ["map", "eigenvalues", "real parts from", "to", "positive", "symmetric part from", "to", "positive"]
    rows = [
        [m.name, str(m.count), decimal(m.real_parts[0], 3), decimal(m.real_parts[-1], 3), percent(m.positive_share),
         decimal(m.symmetric[0], 3), decimal(m.symmetric[-1], 3), percent(m.positive_share_symmetric)]
        for m in found
    ]  # fmt: skip
    return columns, rows


def _angle_rows(found: RotationAccuracy) -> Rows:
    rows = [[f"{angle:g}°", percent(share, 2)] for angle, share in zip(found.angles, found.accuracy, strict=True)]
    return ["rotated by", f"accuracy on {count(found.count)} images"], [*rows, ["mean", percent(found.mean, 2)]]


ROBUSTNESS_COLUMNS = ["images", "top-1", "top-5", "mean over classes", "deviation over classes"]


def robustness_rows(found: Robustness) -> Rows:
    """A row for each perturbation."""
    rows = [
        [one.title, *(percent(share, 2) for share in (one.top1, one.top5, one.class_mean, one.class_std))]
        for one in found.accuracies
    ]
    return ROBUSTNESS_COLUMNS, rows


def _masking_rows(found: MaskingAudit) -> Rows:
    result = {True: "passed", False: "FAILED", None: NONE}
    rows = [[check.name, result[check.passed], check.said] for check in found.checks]
    return ["check for masked gradients", "result", "measured"], rows


def _cluster_rows(found: FeatureClusters) -> Rows:
    rows = [
        ["on the map (t-SNE)", decimal(found.silhouette_map, 4)],
        [f"on the features, {count(found.dimension)} numbers each", decimal(found.silhouette_features, 4)],
    ]
    return ["silhouette score", f"{count(len(found.labels))} images"], rows


def _inversion_rows(found: list[Inversion]) -> Rows:
    rows = [[one.layer, *(percent(float(np.mean(e))) for e in (one.errors, one.pixel_errors))] for one in found]
    return ["layer", "error of the representation", "error of the image"], rows


def _error(value: float) -> str:
    return NONE if np.isnan(value) else decimal(value, 2)


def _equivariance_rows(found: Equivariance) -> Rows:
    columns = ["layer", "kind", "map", "pixels onto pixels", "other elements"]
    rows = [
        [layer.name, layer.kind, f"{layer.size[0]}x{layer.size[1]}", _error(layer.exact), _error(layer.others)]
        for layer in found.layers
    ]
    if found.answer:
        kind = "invariant" if found.claimed else f"under {found.group}; nothing is claimed"
        rows.append(["answer", kind, NONE, _error(found.answer.exact), _error(found.answer.others)])
    return columns, rows


def _coefficient_rows(found: CoefficientMaps) -> Rows:
    orders = max(len(layer.shares) for layer in found.layers)
    columns = ["layer", "map", *(f"order {m}" for m in range(orders))]
    rows = [
        [layer.name, "x".join(map(str, layer.identity.shape[1:])), *(percent(share) for share in layer.shares),
         *[NONE] * (orders - len(layer.shares))]
        for layer in found.layers
    ]  # fmt: skip
    return columns, rows


@dataclass(frozen=True)
class Analysis:
    """One kind of analysis.

    Attributes:
        measure: looks at a trained cell, on at most so many inputs, and tells how far it is; with ``by_layer`` it takes
            the name of a layer, too.
        rows: what is printed.
        stored_as: under which name its list is stored; empty if it is a record.
        inputs: how many inputs are looked at, unless the user says.
        warnings: what a user should be warned of.
        by_layer: whether it can look at a layer of the user's choice.
    """

    measure: Callable[..., Any]
    rows: Callable[[Any], Rows]
    stored_as: str = ""
    inputs: int = 8
    warnings: Callable[[Any], list[str]] = lambda found: []
    by_layer: bool = False


def _on_examples(function: str, as_trained: bool = False) -> Callable[[TrainedCell, int, Tell], Any]:
    """A function of ``evolvent.analysis`` that takes a network and example inputs.

    Args:
        function: its name.
        as_trained: keep the gradient strategy of the training, on which the cost depends; else backpropagation.
    """

    def measured(trained: TrainedCell, inputs: int, tell: Tell) -> Any:
        from evolvent import analysis, set_gradient

        examples, model = trained.examples(inputs), trained.task.model
        set_gradient(model, trained.cell.training.gradient if as_trained else "backprop")
        return getattr(analysis, function)(model, examples)

    return measured


def _rotation_accuracy(trained: TrainedCell, inputs: int, tell: Tell) -> RotationAccuracy:
    from evolvent.analysis import rotation_accuracy

    some = trained.labelled_images(inputs)
    return rotation_accuracy(some.classifier, some.images, some.labels, background=some.background, tell=tell)


def measured_robustness(trained: TrainedCell, inputs: int, tell: Tell, **options: Any) -> Robustness:
    """The robustness of a trained classifier; further options are those of ``analysis.measure_robustness``."""
    from evolvent.analysis import measure_robustness

    some = trained.labelled_images(inputs)
    return measure_robustness(_of_pixels(some.classifier), some.images, some.labels, classes=some.classes, tell=tell,
                              **options)  # fmt: skip


def measured_masking(trained: TrainedCell, inputs: int, tell: Tell, **options: Any) -> MaskingAudit:
    """Whether the robustness of a trained classifier can be trusted, by ``analysis.audit_masking``."""
    from evolvent.analysis import audit_masking

    some = trained.labelled_images(inputs)
    return audit_masking(_of_pixels(some.classifier), some.images, some.labels, tell=tell, **options)


def _of_pixels(classifier: nn.Module) -> nn.Module:
    """A run's classifier as a function of pixels in [0, 1], with exact gradients."""
    from evolvent import set_gradient
    from evolvent.analysis.robustness import OfBytes

    set_gradient(classifier, "backprop")
    return OfBytes(classifier).eval()


def _feature_clusters(trained: TrainedCell, inputs: int, tell: Tell, layer: str | None = None) -> FeatureClusters:
    from evolvent.analysis import feature_clusters, features_at, find_layer

    some = trained.labelled_images(inputs)
    chosen = find_layer(trained.task.model, layer) if layer else None
    found = feature_clusters(features_at(some.classifier, some.images, chosen), some.labels, classes=some.classes)
    return replace(found, layer=layer or "")


def _inversions(trained: TrainedCell, inputs: int, tell: Tell, layer: str | None = None) -> list[Inversion]:
    """By default of all evolutions, or of the network's parts if it has none."""
    from evolvent import evolutions
    from evolvent.analysis import find_layer, invert

    some, network = trained.labelled_images(inputs), trained.task.model
    named = [name for name, _ in evolutions(network)] or [name for name, _ in network.named_children()]
    chosen, classifier, found = [layer] if layer else named[:_INVERTED], _of_pixels(some.classifier), []
    for place, name in enumerate(chosen):
        within = lambda share, place=place: tell((place + share) / len(chosen))  # noqa: E731
        found.append(invert(classifier, some.images, find_layer(network, name), name=name, tell=within))
    return found


def _equivariance(trained: TrainedCell, inputs: int, tell: Tell) -> Equivariance:
    from evolvent.analysis import measure_equivariance

    shape = trained.examples(1).shape[1:]
    if len(shape) != 3:
        raise ConfigError(f"{trained.cell.label}: equivariance is measured of networks that take images.")
    return measure_equivariance(trained.task.model, (shape[0], shape[1], shape[2]), inputs, tell=tell)


def _coefficients(trained: TrainedCell, inputs: int, tell: Tell) -> CoefficientMaps | None:
    from evolvent.analysis import coefficient_maps

    found = coefficient_maps(trained.task.model, trained.examples(inputs))
    return found if found.layers else None


_LARGE_DRIFT = 0.1  # of the energy, of methods that would keep it if steps were small


def _unstable_steps(found: list[EvolutionStability]) -> list[str]:
    """Steps beyond the largest stable one, and those that are too large to keep the energy."""
    drifting = [one for one in found if one.reconstructions and one.energy.kind == "energy"]
    worst = max(drifting, key=lambda one: abs(one.energy.values[-1]), default=None)
    told = [one.warning for one in found if one.warning]
    if worst is not None and abs(worst.energy.values[-1]) > _LARGE_DRIFT:
        told.append(
            f"evolution {worst.name!r}: the energy changes by {percent(worst.energy.values[-1])}. {worst.integrator} "
            f"keeps it for small steps only; with twice the steps of half the size, {worst.step_size / 2:g}, of the "
            "same equation it changes by about a quarter of that."
        )
    return told


def _masked(found: MaskingAudit) -> list[str]:
    return [] if found.trusted else [found.verdict]


def _broken_layer(found: Equivariance) -> list[str]:
    return [found.first_broken] if found.first_broken else []


ANALYSES = {
    "stability": Analysis(_on_examples("measure_stability"), _stability_rows, "evolutions", warnings=_unstable_steps),
    "cost": Analysis(_on_examples("layer_costs", as_trained=True), _cost_rows),
    "field-of-view": Analysis(_on_examples("fields_of_view"), _view_rows, "fields"),
    "spectra": Analysis(_on_examples("map_spectra"), _map_rows, "maps"),
    "angles": Analysis(_rotation_accuracy, _angle_rows, inputs=1000),
    "equivariance": Analysis(_equivariance, _equivariance_rows, inputs=4, warnings=_broken_layer),
    "coefficients": Analysis(_coefficients, _coefficient_rows, inputs=3),
    "features": Analysis(_feature_clusters, _cluster_rows, inputs=1000, by_layer=True),
    "inversion": Analysis(_inversions, _inversion_rows, "layers", inputs=4, by_layer=True),
    "robustness": Analysis(measured_robustness, robustness_rows, inputs=1000),
    "masking": Analysis(measured_masking, _masking_rows, inputs=100, warnings=_masked),
}


def write_analysis(path: Path, what: str, found: Any) -> None:
    """Write what an analysis found as JSON."""
    name = ANALYSES[what].stored_as
    write_json(path, sealed(plain({name: found} if name else found, digits=6)), indent=None)
