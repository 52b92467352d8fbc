"""What ``evolvent analyze`` measures: how it is measured, written to run folders and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evolvent._core.errors import ConfigError
from evolvent._core.files import write_json
from evolvent._core.plain import plain
from evolvent._core.seals import read_sealed, sealed
from evolvent.experiments.record import reading
from evolvent.report.analysis_rows import (
    Rows,
    angle_rows,
    cluster_rows,
    coefficient_rows,
    cost_rows,
    equivariance_rows,
    inversion_rows,
    map_rows,
    masking_rows,
    robustness_rows,
    stability_rows,
    view_rows,
)
from evolvent.report.numbers import percent
from evolvent.report.runs import Series

if TYPE_CHECKING:
    from torch import nn

    from evolvent.analysis import (
        CoefficientMaps,
        Equivariance,
        EvolutionStability,
        FeatureClusters,
        Inversion,
        MaskingAudit,
        Robustness,
        RotationAccuracy,
    )
    from evolvent.experiments.trained import TrainedCell

_SEEDS = 24  # of a variant that are read at most
_INVERTED = 6  # layers, unless one is chosen

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
    with reading(path):
        try:
            return read_sealed(path)
        except ConfigError as error:
            raise ConfigError(f"{error} Or delete it, and analyze the run again.") from None


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
    "stability": Analysis(_on_examples("measure_stability"), stability_rows, "evolutions", warnings=_unstable_steps),
    "cost": Analysis(_on_examples("layer_costs", as_trained=True), cost_rows),
    "field-of-view": Analysis(_on_examples("fields_of_view"), view_rows, "fields"),
    "spectra": Analysis(_on_examples("map_spectra"), map_rows, "maps"),
    "angles": Analysis(_rotation_accuracy, angle_rows, inputs=1000),
    "equivariance": Analysis(_equivariance, equivariance_rows, inputs=4, warnings=_broken_layer),
    "coefficients": Analysis(_coefficients, coefficient_rows, inputs=3),
    "features": Analysis(_feature_clusters, cluster_rows, inputs=1000, by_layer=True),
    "inversion": Analysis(_inversions, inversion_rows, "layers", inputs=4, by_layer=True),
    "robustness": Analysis(measured_robustness, robustness_rows, inputs=1000),
    "masking": Analysis(measured_masking, masking_rows, inputs=100, warnings=_masked),
}


def write_analysis(path: Path, what: str, found: Any) -> None:
    """Write what an analysis found as JSON."""
    name = ANALYSES[what].stored_as
    write_json(path, sealed(plain({name: found} if name else found, digits=6)), indent=None)
