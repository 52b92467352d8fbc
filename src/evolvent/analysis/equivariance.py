"""How nearly a network commutes with a group, layer by layer and element by element."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole, told
from evolvent._core.errors import ConfigError
from evolvent.analysis.blobs import draw_blobs, pixel_grid
from evolvent.analysis.field_layers import LayerPass, stride, trace_layers
from evolvent.groups import Field, Group, cyclic, scalars
from evolvent.operators.differential import FieldPooling

_WINDOW = 1.5  # standard deviation of a window, in pixels of the map
_ROUNDING = {torch.float32: 1e-4, torch.float64: 1e-10}  # errors above are none of rounding


@dataclass(frozen=True)
class LayerEquivariance:
    """The errors of one layer, or of the answer.

    Attributes:
        name: path of the layer in the network.
        kind: its class.
        field: how its answer transforms.
        size: height and width of its maps.
        errors: for each element of the group; NaN if the layer's group is smaller and lacks it.
        exact: the largest error over the elements that move pixels onto pixels; NaN if there are none.
        others: the largest over all others; NaN if there are none.
    """

    name: str
    kind: str
    field: str
    size: tuple[int, int]
    errors: list[float]
    exact: float
    others: float


@dataclass(frozen=True)
class Equivariance:
    """How nearly a network commutes with its group.

    Attributes:
        group: its name.
        elements: names of its elements, without the identity.
        angles: by which each rotates, in degrees.
        mirrored: whether each mirrors as well.
        on_grid: whether each moves pixels onto pixels.
        layers: in the order of the computation; none if features are no fields.
        answer: the errors of an answer (B, classes), which should not change; None for other answers.
        claimed: whether the network is made to commute with the group.
        first_broken: the first layer whose error for elements on the grid is not rounding, and why; else empty.
    """

    group: str
    elements: list[str]
    angles: list[float]
    mirrored: list[bool]
    on_grid: list[bool]
    layers: list[LayerEquivariance]
    answer: LayerEquivariance | None
    claimed: bool
    first_broken: str


@torch.no_grad()
def measure_equivariance(
    model: nn.Module,
    shape: tuple[int, int, int],
    count: int = 4,
    *,
    width: float = 4.0,
    seed: int = 0,
    elements: Sequence[int] | None = None,
    tell: Callable[[float], None] = lambda share: None,
) -> Equivariance:
    r"""Measure :math:`|L(g f) - g L(f)| / |L(f)|` for every layer :math:`L` over fields and every element :math:`g`.

    Images are sums of Gaussian blobs, which are evaluated at :math:`g^{-1} x`, so that turned images are exact. Where
    an element moves pixels onto pixels, whole maps :math:`u` are compared. For others there is no pixel to compare
    with; their maps are compared through Gaussian windows :math:`\phi_k`,

    .. math:: \sum_x \phi_k(g^{-1} x)\, u_{g f}(x) \quad\text{and}\quad \rho(g) \sum_x \phi_k(x)\, u_f(x) ,

    whose sums are integrals up to a negligible error. Nothing is interpolated. Layers are all modules with an
    ``out_field``; after a :class:`~evolvent.operators.differential.GroupRestriction` only the elements of the smaller
    group count. Of a network without fields the invariance of its answer under quarter turns is measured.

    Args:
        model: from images to any answer; a copy is measured, in evaluation mode.
        shape: channels, height and width of an image.
        count: number of images.
        width: standard deviation of the narrowest blobs, in pixels.
        seed: of the blobs.
        elements: of the group; all but the identity unless given.
        tell: called with the share that is done.

    >>> from evolvent.groups import regular_fields
    >>> from evolvent.operators.differential import SteerablePDO
    >>> lift = SteerablePDO(scalars(cyclic(8)), regular_fields(cyclic(8), 2))
    >>> found = measure_equivariance(lift, (1, 33, 33))
    >>> found.layers[0].exact < 1e-5, found.layers[0].others < 1e-3, found.first_broken
    (True, True, '')
    """
    _check_shape(shape)
    twin, images = copy.deepcopy(model).eval(), draw_blobs(count, shape[0], min(shape[1:]), width, seed)
    like, grid = next(twin.parameters(), torch.zeros(())), pixel_grid(*shape[1:])
    passes, answer = trace_layers(twin, images.at(grid).to(like))
    layers = [one for one in passes if one.field is not None]
    _check_has_claims(layers, answer)
    in_field = _image_field(layers, shape[0])
    group = in_field.group
    elements = range(1, group.order) if elements is None else group.check_elements(elements)
    columns, answers = [], []
    for g in elements:
        turned = in_field.act(images.at(_moved_back(grid, group, g)).to(like), g)
        there, changed = trace_layers(twin, turned)
        after = [one for one in there if one.field is not None]
        columns.append([_error(*pair, group, g) for pair in zip(layers, after, strict=True)])
        answers.append(_relative(changed, answer))
        tell(len(answers) / len(elements))
    on_grid = [_keeps_grid(group, g, square=shape[1] == shape[2]) for g in elements]
    found = [_of_layer(one, [column[k] for column in columns], on_grid) for k, one in enumerate(layers)]
    return Equivariance(
        group=group.name,
        elements=[group.element_name(g) for g in elements],
        angles=[360 * (g % group.rotations) / group.rotations for g in elements],
        mirrored=[g >= group.rotations for g in elements],
        on_grid=on_grid,
        layers=found,
        answer=_of_answer(answer, answers, found, on_grid),
        claimed=bool(found),
        first_broken=_first_broken(passes, found, _ROUNDING.get(like.dtype, 1e-2)),
    )


def _check_shape(shape: Sequence[int]) -> None:
    if len(shape) != 3:
        raise ConfigError(
            f"shape has the channels, height and width of an image, such as (1, 28, 28), got {told(shape)}."
        )
    check_whole(1, channels=shape[0], height=shape[1], width=shape[2])


def _check_has_claims(layers: Sequence[LayerPass], answer: Tensor) -> None:
    if not layers and answer.ndim != 2:
        raise ConfigError(
            "equivariance is measured of layers over fields, or of answers (B, classes), got a network without such "
            f"layers and an answer of shape {tuple(answer.shape)}."
        )


def _image_field(layers: Sequence[LayerPass], channels: int) -> Field:
    """How images transform: as the first layer says, or as plain channels."""
    if not layers:
        return scalars(cyclic(4), channels)
    field = getattr(layers[0].module, "in_field", layers[0].field)
    assert isinstance(field, Field)
    return field if field.channels == channels else scalars(field.group, channels)


def _moved_back(points: Tensor, group: Group, g: int) -> Tensor:
    r""":math:`g^{-1} x` for each point."""
    return points @ torch.tensor(group.matrices[group.inverse(g)]).T


def _error(before: LayerPass, after: LayerPass, group: Group, g: int) -> float:
    """The error of one layer for one element of the network's group; NaN if the layer's group lacks it."""
    field = before.field
    assert field is not None
    own = np.flatnonzero(group.embedding(field.group) == g)
    if len(own) == 0:
        return math.nan
    if g in group.grid_symmetries:
        expected = field.transform(before.after, int(own[0]))
        if expected.shape == after.after.shape:
            return _relative(after.after, expected)
    return _window_error(before, after, field, int(own[0]))


def _window_error(before: LayerPass, after: LayerPass, field: Field, g: int) -> float:
    here, there = (pixel_grid(*one.size, one.spacing) for one in (before, after))
    centres = _window_centres(min(before.size)) * before.spacing
    width = _WINDOW * before.spacing
    expected = field.act(_seen(before.after, here, centres, width), g)
    return _relative(_seen(after.after, _moved_back(there, field.group, g), centres, width), expected)


def _window_centres(side: int) -> Tensor:
    """Six points of a map in pixels from its centre: there, and on a circle that keeps windows off the edge."""
    radius = max(0.0, min(side / 5, side / 2 - 3 * _WINDOW))
    angles = 0.3 + 2 * math.pi * torch.arange(5, dtype=torch.float64) / 5
    circle = radius * torch.stack([angles.cos(), angles.sin()], dim=-1)
    return torch.cat([torch.zeros(1, 2, dtype=torch.float64), circle])


def _seen(maps: Tensor, points: Tensor, centres: Tensor, width: float) -> Tensor:
    """Maps through windows, (B, C, windows, 1)."""
    squares = (points - centres[:, None, None]).square().sum(-1)
    windows = torch.exp(-squares / (2 * width**2)).to(maps.device)
    return torch.einsum("kyx,bcyx->bck", windows, maps.double())[..., None]


def _relative(found: Tensor, expected: Tensor) -> float:
    """Infinite where numbers are not finite."""
    size = expected.double().norm().item()
    error = (found.double() - expected.double()).norm().item() / (size or 1.0)
    return error if math.isfinite(error) else math.inf


def _keeps_grid(group: Group, g: int, *, square: bool) -> bool:
    """Whether pixels go onto pixels; quarter turns do so only on square images."""
    return g in group.grid_symmetries and (square or bool(group.matrices[g][0, 0]))


def _of_layer(one: LayerPass, errors: list[float], on_grid: Sequence[bool]) -> LayerEquivariance:
    worst = _worst(errors, on_grid)
    return LayerEquivariance(one.name, type(one.module).__name__, str(one.field), one.size, errors, *worst)


def _of_answer(
    answer: Tensor, errors: list[float], layers: Sequence[LayerEquivariance], on_grid: Sequence[bool]
) -> LayerEquivariance | None:
    """The answer has the symmetries of the last layer."""
    if answer.ndim != 2:
        return None
    known = layers[-1].errors if layers else errors
    errors = [math.nan if math.isnan(last) else error for error, last in zip(errors, known, strict=True)]
    worst = _worst(errors, on_grid)
    return LayerEquivariance("answer", "invariant", f"{answer.shape[1]} numbers", (1, 1), errors, *worst)


def _worst(errors: Sequence[float], on_grid: Sequence[bool]) -> tuple[float, float]:
    """Over the elements on the grid, and over the others."""
    known = [(error, exact) for error, exact in zip(errors, on_grid, strict=True) if not math.isnan(error)]
    exact, others = ([error for error, is_exact in known if is_exact is kind] for kind in (True, False))
    return max(exact, default=math.nan), max(others, default=math.nan)


def _first_broken(passes: Sequence[LayerPass], layers: Sequence[LayerEquivariance], rounding: float) -> str:
    broken = next((k for k, layer in enumerate(layers) if layer.exact > rounding), None)
    if broken is None:
        return ""
    places = [place for place, one in enumerate(passes) if one.field is not None]
    since = places[broken - 1] + 1 if broken else 0
    reasons = [reason for one in passes[since : places[broken] + 1] if (reason := _reason(one))]
    layer = layers[broken]
    said = f"{layer.name or 'the network'} ({layer.kind}) is the first layer that breaks a symmetry of the pixels"
    return f"{said}: {reasons[0]}." if reasons else f"{said}; its error is {layer.exact:.1e}."


def _reason(one: LayerPass) -> str:
    """What is wrong with a layer, such as that it treats the sides of its maps differently; empty if nothing is."""
    if not one.after.isfinite().all():
        return "its features are not finite"
    height, width = one.before.shape[2:]
    padding, kernel, step = (getattr(one.module, name, None) for name in ("padding", "kernel_size", "stride"))
    if isinstance(one.module, FieldPooling):
        lost = [] if one.module.pad else _lost(height % one.module.size, width % one.module.size)
        return f"pooling of {one.module.size} on maps of {height}x{width} drops {' and '.join(lost)}" if lost else ""
    if isinstance(padding, tuple) and len(padding) == 4 and len(set(padding)) > 1:
        return f"{one.name} pads the sides by {', '.join(map(str, padding))} pixels, which are not alike"
    if kernel is not None and step is not None and isinstance(padding, (int, tuple)):
        sides = zip(*(_pair(value) for value in ((height, width), padding, kernel, step)), strict=True)
        if any((side + 2 * pad - size) % by for side, pad, size, by in sides):
            return f"{one.name} has a stride of {stride(one.module)} that leaves out pixels of maps of {height}x{width}"
    return ""


def _lost(rows: int, columns: int) -> list[str]:
    counts = [("row", rows), ("column", columns)]
    return [f"a {name}" if number == 1 else f"{number} {name}s" for name, number in counts if number]


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])
