"""Which pixels of an image a feature pixel sees, and how strongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_images
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent.analysis.states import spread
from evolvent.evolution import Evolution
from evolvent.networks import ImageNetwork


@dataclass(frozen=True)
class FieldOfView:
    """The field of view of one feature pixel.

    Attributes:
        name: of the features.
        pixel: row and column of the feature pixel.
        map: (H, W) mean gradient magnitude, its largest value one.
        support: pixels that are seen at all.
        box: height and width of the smallest box around them.
        radius: root mean square distance from the map's centre of mass, in pixels.
        area: effective number of pixels, :math:`(\\sum w)^2 / \\sum w^2`; a constant map on n pixels has n.
    """

    name: str
    pixel: tuple[int, int]
    map: Tensor
    support: int
    box: tuple[int, int]
    radius: float
    area: float


def measure_field_of_view(
    features: Callable[[Tensor], Tensor],
    images: Tensor,
    pixel: tuple[int, int] | None = None,
    *,
    channels: int = 16,
    name: str = "features",
) -> FieldOfView:
    r"""Effective receptive field, :math:`w(p) = \mathrm{mean}\, |\partial y_{c}(q) / \partial x_{c'}(p)|`, over images
    and channels, of the feature pixel :math:`q`.

    Luo, Li, Urtasun, Zemel 2016, Understanding the effective receptive field in deep convolutional neural networks.

    Args:
        features: from images to features; a module in evaluation mode, or a function.
        images: (B, C, H, W).
        pixel: :math:`q`; the middle unless given.
        channels: the most feature channels to look at, evenly spread.

    >>> conv = nn.Conv2d(1, 2, 3, padding=1)
    >>> found = measure_field_of_view(conv, torch.zeros(1, 1, 9, 9))
    >>> found.pixel, found.support, found.box
    ((4, 4), 9, (3, 3))
    """
    x = images.detach().requires_grad_()
    with torch.enable_grad():
        y = features(x)
    check_images(y, "a field of view")
    row, column = pixel or (y.shape[2] // 2, y.shape[3] // 2)
    if not (0 <= row < y.shape[2] and 0 <= column < y.shape[3]):
        raise ConfigError(f"there is no pixel {(row, column)} in features of {tuple(y.shape[2:])} pixels.")
    seen = torch.zeros(x.shape[2:], dtype=torch.float64)
    for channel in spread(y.shape[1], channels):
        gradient = torch.autograd.grad(y[:, channel, row, column].sum(), x, retain_graph=True)[0]
        seen += gradient.abs().mean(dim=(0, 1)).double().cpu()
    return measure_map(seen, (row, column), name)


def measure_map(weights: Tensor, pixel: tuple[int, int] = (0, 0), name: str = "features") -> FieldOfView:
    """The measures of a map of non-negative weights, (H, W)."""
    total = weights.sum()
    if not total > 0:
        return FieldOfView(name, pixel, weights, 0, (0, 0), 0.0, 0.0)
    rows, columns = (torch.arange(n, dtype=weights.dtype) for n in weights.shape)
    down, across = weights.sum(1) / total, weights.sum(0) / total
    centre = (rows @ down, columns @ across)
    spread_out = (rows - centre[0]).square() @ down + (columns - centre[1]).square() @ across
    return FieldOfView(
        name=name,
        pixel=pixel,
        map=weights / weights.max(),
        support=int((weights > 0).sum()),
        box=(_length(weights.sum(1)), _length(weights.sum(0))),
        radius=spread_out.sqrt().item(),
        area=(total.square() / weights.square().sum()).item(),
    )


def _length(profile: Tensor) -> int:
    seen = profile.nonzero()
    return int(seen.max() - seen.min()) + 1


def fields_of_view(model: nn.Module, images: Tensor) -> list[FieldOfView]:
    """The field of view of the middle feature pixel after each evolution of an image network.

    Args:
        model: an image network; it is put into evaluation mode for the measurement.
        images: (B, C, H, W).

    Raises:
        ConfigError: the model is not an :class:`~evolvent.networks.ImageNetwork`, so that it is not known which of its
            features to look at; use :func:`measure_field_of_view` then.
    """
    if not isinstance(model, ImageNetwork):
        kind = type(model).__name__
        raise ConfigError(f"{kind} is not an ImageNetwork; pass its features to measure_field_of_view instead.")
    network: ImageNetwork = model
    names = [f"body.{name}" for name, module in network.body.named_children() if isinstance(module, Evolution)]
    with evaluation_mode(network):
        return [
            measure_field_of_view(lambda x, k=k: network.trajectories(x)[k][-1], images, name=name)
            for k, name in enumerate(names)
        ]
