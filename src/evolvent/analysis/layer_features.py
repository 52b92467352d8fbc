"""What a layer of a network gives or reads, by the layer's name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent._core.modes import evaluation_mode
from evolvent._core.state import parts


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """A part of a model by its path, such as ``"body.0"``.

    >>> find_layer(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), "1")
    Linear(in_features=4, out_features=2, bias=True)
    """
    known = dict(model.named_modules())
    if name not in known or not name:
        direct = [path for path in known if path and path.count(".") < 2][:12]
        raise UnknownNameError("layer", name, known, f"There are {', '.join(direct)} and what is inside of them.")
    return known[name]


def last_affine(model: nn.Module) -> nn.Module:
    """The last affine layer of a classifier, whose input are the features that it decides by."""
    found = [part for part in model.modules() if isinstance(part, nn.Linear)]
    if not found:
        raise ConfigError("the model has no affine layer nn.Linear that reads its features. Name a layer instead.")
    return found[-1]


@contextmanager
def watched(layer: nn.Module, given: bool = False) -> Iterator[list[Tensor]]:
    """A list that holds what the layer gave last, flattened to (B, d), or with ``given`` what it was given."""
    seen: list[Tensor] = []

    def note(_: nn.Module, inputs: tuple, output: object) -> None:
        of_batch = parts(inputs[0] if given else output)  # pyright: ignore[reportArgumentType]
        seen[:] = [torch.cat([part.flatten(1) for part in of_batch], dim=1)]

    handle = layer.register_forward_hook(note)
    try:
        yield seen
    finally:
        handle.remove()


@torch.no_grad()
def features_at(model: nn.Module, images: Tensor, layer: nn.Module | None = None, batch_size: int = 250) -> Tensor:
    """What a layer gives for each image; by default what the last affine layer reads.

    Args:
        model: takes the images; it is put into evaluation mode.
        images: (N, ...).
        layer: a part of the model.
        batch_size: images at a time.

    Shape: (N, d), flattened.
    """
    with evaluation_mode(model), watched(layer or last_affine(model), given=layer is None) as seen:
        found = []
        for some in images.split(batch_size):
            model(some)
            if not seen:
                raise ConfigError(f"the layer {type(layer).__name__} is not used when the model is called.")
            found.append(seen[0])
    return torch.cat(found)
