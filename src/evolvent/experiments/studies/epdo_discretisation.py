"""How nearly two layers of differential operators commute with a rotation between the pixels, by discretisation."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import nn

from evolvent._core.config import Config
from evolvent._core.errors import ConfigError
from evolvent._core.randomness import derive_seed
from evolvent.analysis import measure_equivariance
from evolvent.groups import cyclic, regular_fields, scalars
from evolvent.operators.differential import (
    Discretisation,
    FieldActivation,
    FiniteDifferences,
    FittedGaussian,
    GaussianDerivatives,
    NeuralEPDO,
    SteerablePDO,
)
from evolvent.tasks.findings import Curve, Findings, Table, Tell, Value

Kind = Literal["steerable PDO", "neural ePDO"]
KINDS: tuple[Kind, ...] = ("steerable PDO", "neural ePDO")
GROUP, FIELDS, SIDE = cyclic(16), 4, 33


class Settings(Config):
    """A steerable PDO from images of 33 x 33 pixels to four regular fields of C16, an ELU, and a layer of each kind."""

    orders: list[int] = Field(default=[1, 2, 3, 4], min_length=1)
    sizes: list[int] = Field(default=[5, 7], min_length=1, description="pixels along a side of the stencils")
    widths: list[float] = Field(default=[3.0, 4.0], min_length=1, description="of the narrowest blobs, in pixels")
    accuracies: list[int] = Field(default=[2, 4], description="of finite differences, besides the highest")
    sampled: list[float] = Field(default=[0.6, 0.8, 1.0, 1.2, 1.4], description="sigma of sampled Gaussians")
    fitted: list[float] = Field(default=[0.5, 0.65, 0.8, 1.0, 1.2], description="sigma of fitted Gaussians")
    draws: int = Field(default=3, ge=1, description="of weights and images; their median is taken")


class Stencil(NamedTuple):
    """A discretisation and its name; the size is left out of the name."""

    name: str
    discretisation: Discretisation


class Case(NamedTuple):
    """What an error was measured for."""

    kind: Kind
    stencil: Stencil
    order: int
    width: float


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    cases = [case for stencil in _stencils(settings) for case in _cases(stencil, settings)]
    found: dict[Case, float] = {}
    with torch.random.fork_rng(devices=[]):
        for k, case in enumerate(cases):
            tell(k / len(cases), f"{case.kind}, {case.stencil.name}")
            found[case] = statistics.median(_error(case, derive_seed(seed, draw)) for draw in range(settings.draws))
    places = [(width, size) for width in settings.widths for size in settings.sizes]
    return Findings(
        answer=_answer(found, settings),
        tables=[_table(found, settings, kind, *place) for kind in KINDS for place in places],
        curves=[_curve(found, settings, kind, settings.widths[-1], size) for kind in KINDS for size in settings.sizes],
    )


def _stencils(settings: Settings) -> Iterator[Stencil]:
    for size in settings.sizes:
        for accuracy in settings.accuracies:
            yield Stencil(f"differences, accuracy {accuracy}", FiniteDifferences(size, accuracy))
        yield Stencil("differences, highest accuracy", FiniteDifferences(size))
        for sigma in settings.sampled:
            yield Stencil(f"sampled Gaussian, σ = {sigma:g}", GaussianDerivatives(size, sigma))
        for sigma in settings.fitted:
            yield Stencil(f"fitted Gaussian, σ = {sigma:g}", FittedGaussian(size, sigma))


def _cases(stencil: Stencil, settings: Settings) -> Iterator[Case]:
    for order in settings.orders:
        if _is_possible(stencil.discretisation, order):
            yield from (Case(kind, stencil, order, width) for kind in KINDS for width in settings.widths)


def _is_possible(discretisation: Discretisation, order: int) -> bool:
    """Whether the stencil is large enough for derivatives of that order."""
    try:
        discretisation.check_order(order)
    except ConfigError:
        return False
    return True


def _error(case: Case, seed: int) -> float:
    """At 22.5 degrees, after the second layer."""
    torch.manual_seed(seed)
    image, field = scalars(GROUP), regular_fields(GROUP, FIELDS)
    first = SteerablePDO(image, field, case.order, case.stencil.discretisation)
    network = nn.Sequential(first, FieldActivation(field, "elu"), _second_layer(case))
    found = measure_equivariance(network, (1, SIDE, SIDE), 2, width=case.width, seed=seed, elements=[1])
    return found.layers[-1].others


def _second_layer(case: Case) -> nn.Module:
    field = regular_fields(GROUP, FIELDS)
    if case.kind == "steerable PDO":
        return SteerablePDO(field, field, case.order, case.stencil.discretisation)
    return NeuralEPDO(field, case.order, partitions=2, discretisation=case.stencil.discretisation)


def _names(settings: Settings) -> list[str]:
    return list(dict.fromkeys(stencil.name for stencil in _stencils(settings)))


def _by_name(found: dict[Case, float], kind: Kind, width: float, size: int) -> dict[tuple[str, int], float]:
    return {
        (case.stencil.name, case.order): error
        for case, error in found.items()
        if (case.kind, case.width, case.stencil.discretisation.size) == (kind, width, size)
    }


def _table(found: dict[Case, float], settings: Settings, kind: Kind, width: float, size: int) -> Table:
    errors = _by_name(found, kind, width, size)
    rows: list[list[Value]] = [
        [name, *(errors.get((name, order)) for order in settings.orders)] for name in _names(settings)
    ]
    title = f"{kind}, stencils of {size} x {size}, blobs of width {width:g}: error at 22.5°"
    return Table(title, ["discretisation", *(f"order {order}" for order in settings.orders)], rows)


def _curve(found: dict[Case, float], settings: Settings, kind: Kind, width: float, size: int) -> Curve:
    """Over sigma, a line for each kind of Gaussian at the lowest and the highest order."""
    errors = _by_name(found, kind, width, size)
    series = {}
    for name, sigmas in (("sampled", settings.sampled), ("fitted", settings.fitted)):
        for order in sorted({settings.orders[0], settings.orders[-1]}):
            points = [(sigma, errors.get((f"{name} Gaussian, σ = {sigma:g}", order))) for sigma in sigmas]
            known = [(sigma, error) for sigma, error in points if error is not None]
            series[f"{name}, order {order}"] = [sigma for sigma, _ in known], [error for _, error in known]
    title = f"{kind}, stencils of {size} x {size}, blobs of width {width:g}"
    return Curve(title, "σ in pixels", "error at 22.5°", {name: xy for name, xy in series.items() if xy[0]}, log_y=True)


def _answer(found: dict[Case, float], settings: Settings) -> str:
    """The best of each kind at the highest order, on the widest blobs and the smallest stencils."""
    order, width, size = settings.orders[-1], settings.widths[-1], settings.sizes[0]
    said = []
    for kind in KINDS:
        errors = {name: error for (name, at), error in _by_name(found, kind, width, size).items() if at == order}
        best = min(errors, key=lambda name: errors[name])
        said.append(f"{errors[best]:.1e} for {kind}s ({best})")
    return f"The smallest errors at order {order} with stencils of {size} x {size} are {' and '.join(said)}."
