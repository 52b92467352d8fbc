"""How well a classifier does on images that are turned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_labelled_images
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent.data import rotate

_AT_ONCE = 250


@dataclass(frozen=True)
class RotationAccuracy:
    """The accuracy of a classifier at each angle.

    Attributes:
        angles: degrees, counter-clockwise.
        accuracy: share of the images that were classified correctly at each angle.
        count: number of images.
    """

    angles: list[float]
    accuracy: list[float]
    count: int

    @property
    def mean(self) -> float:
        """Over the angles."""
        return sum(self.accuracy) / len(self.accuracy)


def rotation_accuracy(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    angles: Sequence[float] = tuple(range(0, 360, 15)),
    *,
    background: Tensor | float = 0.0,
    tell: Callable[[float], None] = lambda share: None,
) -> RotationAccuracy:
    r"""Turn all images about their centre by each angle, and classify them.

    .. math:: a(\alpha) = \frac 1N \#\{\, i : \operatorname{argmax} f_\theta(R_\alpha x_i) = y_i \,\}

    Args:
        model: from images to a score for each class, (N, classes); it is put into evaluation mode. Where images are
            preprocessed, it should begin with that, so that images are turned as a camera would see them.
        images: (N, C, H, W).
        labels: (N,), classes by number.
        angles: degrees, counter-clockwise.
        background: what lies outside of an image: a number, or an image (C, H, W).
        tell: called with the share that is done.

    Example: the class of these images is the half that is bright, which half a turn exchanges.

    >>> images = torch.zeros(2, 1, 4, 4)
    >>> images[0, :, :, :2] = images[1, :, :, 2:] = 1
    >>> brightest = nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten())
    >>> rotation_accuracy(brightest, images, torch.tensor([0, 1]), (0, 180)).accuracy
    [1.0, 0.0]
    """
    check_labelled_images(images, labels, "the accuracy over angles")
    if not angles:
        raise ConfigError("there are no angles to measure the accuracy at. Give at least one, in degrees.")
    found = []
    with evaluation_mode(model), torch.no_grad():
        for done, angle in enumerate(angles, 1):
            found.append(_hits(model, images, labels, angle, background) / len(images))
            tell(done / len(angles))
    return RotationAccuracy([float(angle) for angle in angles], found, len(images))


def _hits(model: nn.Module, images: Tensor, labels: Tensor, angle: float, background: Tensor | float) -> int:
    hits = 0
    for some, classes in zip(images.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True):
        turned = rotate(some, torch.full((len(some),), angle, dtype=torch.float64), background)
        hits += int((model(turned).argmax(1) == classes).sum())
    return hits
