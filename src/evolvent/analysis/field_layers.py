"""What goes through the layers of a network whose features are fields."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from evolvent.groups import Field
from evolvent.operators.differential import EquivarianceWarning, FieldPooling, NeuralEPDO


@dataclass(frozen=True)
class LayerPass:
    """A layer at work.

    Attributes:
        name: path of the layer in the network.
        module: the layer.
        before, after: the maps that it took and gave, (B, C, H, W).
        spacing: distance of neighbouring pixels of ``after``, in pixels of the image.
    """

    name: str
    module: nn.Module
    before: Tensor
    after: Tensor
    spacing: int

    @property
    def field(self) -> Field | None:
        """How the answer transforms; None for ordinary layers."""
        return out_field(self.module)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the maps that it gave."""
        return self.after.shape[2], self.after.shape[3]


def out_field(module: nn.Module) -> Field | None:
    """How the answer of a layer over fields transforms; None for ordinary modules."""
    field = getattr(module, "out_field", None)
    return field if isinstance(field, Field) else None


@torch.no_grad()
def trace_layers(model: nn.Module, images: Tensor) -> tuple[list[LayerPass], Tensor]:
    """Everything that takes and gives maps, in the order of the computation, and the answer of the network.

    What a :class:`~evolvent.operators.differential.NeuralEPDO` is made of is a part of it and not a layer.
    """
    found: list[LayerPass] = []
    with _hooks(model, found), warnings.catch_warnings():
        warnings.simplefilter("ignore", EquivarianceWarning)
        answer = model(images)
    return found, answer


@contextmanager
def _hooks(model: nn.Module, found: list[LayerPass]) -> Iterator[None]:
    def record(name: str, module: nn.Module, before: Any, after: Any) -> None:
        if _are_maps(before) and _are_maps(after):
            found.append(LayerPass(name, module, before, after, stride(module) * _spacing(before, found)))

    handles = [
        module.register_forward_hook(lambda module, args, after, name=name: record(name, module, args[0], after))
        for name, module in _layers(model)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _spacing(maps: Tensor, found: list[LayerPass]) -> int:
    """Of maps that a layer gave, or else, as sums of branches are, of the latest maps of that size."""
    own = [one.spacing for one in found if one.after is maps]
    alike = [one.spacing for one in found if one.after.shape[2:] == maps.shape[2:]]
    latest = [one.spacing for one in found[-1:]]
    return next((spacings[-1] for spacings in (own, alike, latest) if spacings), 1)


def _are_maps(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 4


def _layers(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Layers over fields, and ordinary modules without parts."""
    inner = {id(part) for module in model.modules() if isinstance(module, NeuralEPDO) for part in module.rule.modules()}
    return [
        (name, module)
        for name, module in model.named_modules()
        if id(module) not in inner and (out_field(module) is not None or not list(module.children()))
    ]


def stride(module: nn.Module) -> int:
    """How many times coarser the maps are that a layer gives."""
    if isinstance(module, FieldPooling):
        return module.size
    steps = getattr(module, "stride", 1)
    return int(max(steps) if isinstance(steps, tuple) else steps)
