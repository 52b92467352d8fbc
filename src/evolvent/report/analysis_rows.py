"""What ``evolvent analyze`` prints: one kind of analysis as the columns and rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evolvent.report.numbers import NONE, count, decimal, memory, milliseconds, percent, short

if TYPE_CHECKING:
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

Rows = tuple[list[str], list[list[str]]]
"""The columns of a table and its rows."""


def stability_rows(found: list[EvolutionStability]) -> Rows:
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


def cost_rows(found: LayerTable) -> Rows:
    columns = ["layer", "kind", "parameters", "multiply-adds", "activations", "time", "share"]
    whole = found.total.seconds or 1.0
    rows = []
    for layer in (*found.layers, *found.between, found.total):
        sizes = [count(layer.parameters), short(layer.multiply_adds), memory(layer.activation_bytes)]
        rows.append([layer.name, layer.kind, *sizes, milliseconds(layer.seconds), percent(layer.seconds / whole)])
    return columns, rows


def view_rows(found: list[FieldOfView]) -> Rows:
    columns = ["after", "feature pixel", "radius", "area", "box", "pixels seen"]
    rows = [
        [f.name, f"{f.pixel[0]}, {f.pixel[1]}", decimal(f.radius, 3), decimal(f.area, 3), f"{f.box[0]}x{f.box[1]}",
         f"{f.support} of {f.map.numel()}"]
        for f in found
    ]  # fmt: skip
    return columns, rows


def map_rows(found: list[MapSpectrum]) -> Rows:
    columns = ["map", "eigenvalues", "real parts from", "to", "positive", "symmetric part from", "to", "positive"]
    rows = [
        [m.name, str(m.count), decimal(m.real_parts[0], 3), decimal(m.real_parts[-1], 3), percent(m.positive_share),
         decimal(m.symmetric[0], 3), decimal(m.symmetric[-1], 3), percent(m.positive_share_symmetric)]
        for m in found
    ]  # fmt: skip
    return columns, rows


def angle_rows(found: RotationAccuracy) -> Rows:
    rows = [[f"{angle:g}°", percent(share, 2)] for angle, share in zip(found.angles, found.accuracy, strict=True)]
    return ["rotated by", f"accuracy on {count(found.count)} images"], [*rows, ["mean", percent(found.mean, 2)]]


def robustness_rows(found: Robustness) -> Rows:
    """A row for each perturbation."""
    rows = [
        [one.title, *(percent(share, 2) for share in (one.top1, one.top5, one.class_mean, one.class_std))]
        for one in found.accuracies
    ]
    return ["images", "top-1", "top-5", "mean over classes", "deviation over classes"], rows


def masking_rows(found: MaskingAudit) -> Rows:
    result = {True: "passed", False: "FAILED", None: NONE}
    rows = [[check.name, result[check.passed], check.said] for check in found.checks]
    return ["check for masked gradients", "result", "measured"], rows


def cluster_rows(found: FeatureClusters) -> Rows:
    rows = [
        ["on the map (t-SNE)", decimal(found.silhouette_map, 4)],
        [f"on the features, {count(found.dimension)} numbers each", decimal(found.silhouette_features, 4)],
    ]
    return ["silhouette score", f"{count(len(found.labels))} images"], rows


def inversion_rows(found: list[Inversion]) -> Rows:
    rows = [[one.layer, *(percent(float(np.mean(e))) for e in (one.errors, one.pixel_errors))] for one in found]
    return ["layer", "error of the representation", "error of the image"], rows


def _error(value: float) -> str:
    return NONE if np.isnan(value) else decimal(value, 2)


def equivariance_rows(found: Equivariance) -> Rows:
    columns = ["layer", "kind", "map", "pixels onto pixels", "other elements"]
    rows = [
        [layer.name, layer.kind, f"{layer.size[0]}x{layer.size[1]}", _error(layer.exact), _error(layer.others)]
        for layer in found.layers
    ]
    if found.answer:
        kind = "invariant" if found.claimed else f"under {found.group}; nothing is claimed"
        rows.append(["answer", kind, NONE, _error(found.answer.exact), _error(found.answer.others)])
    return columns, rows


def coefficient_rows(found: CoefficientMaps) -> Rows:
    orders = max(len(layer.shares) for layer in found.layers)
    columns = ["layer", "map", *(f"order {m}" for m in range(orders))]
    rows = [
        [layer.name, "x".join(map(str, layer.identity.shape[1:])), *(percent(share) for share in layer.shares),
         *[NONE] * (orders - len(layer.shares))]
        for layer in found.layers
    ]  # fmt: skip
    return columns, rows
