"""What a neural ePDO does where: the coefficients of its derivatives as maps over an image."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_images
from evolvent._core.modes import evaluation_mode
from evolvent.analysis.field_layers import trace_layers
from evolvent.groups import derivative_representation, regular
from evolvent.operators.differential import NeuralEPDO
from evolvent.operators.differential.neural import DiagonalCoefficients


@dataclass(frozen=True)
class LayerCoefficients:
    """The coefficients of one layer at each pixel, in the frame of the image.

    They are those of stencils with unit mean square norm, so that orders can be compared. What has a sign or a
    direction is the mean over fields and orientations: what the layer does to all of them alike. The first axis of the
    plane goes right, the second up.

    Attributes:
        name: path of the layer in the network.
        spacing: distance of neighbouring pixels of the maps, in pixels of the image.
        strengths: length of the coefficients of each order, root mean square over fields and orientations,
            (N, order + 1, H, W).
        identity: mean coefficient of order 0, (N, H, W).
        gradient: of the two first derivatives, (N, 2, H, W); the operator differentiates along this vector.
        laplacian: of the Laplacian over :math:`\\sqrt 2`, (N, H, W).
        directed: of :math:`(\\partial_1^2 - \\partial_2^2) / \\sqrt 2` and :math:`\\sqrt 2\\, \\partial_1 \\partial_2`,
            (N, 2, H, W), the second derivatives without the Laplacian; see :attr:`axis`.
        shares: of the sum of all squared coefficients, one for each order.
    """

    name: str
    spacing: int
    strengths: Tensor
    identity: Tensor
    gradient: Tensor
    laplacian: Tensor
    directed: Tensor
    shares: list[float]

    @property
    def axis(self) -> Tensor:
        """The angle of the axis along which the directed second derivative is largest, in radians, (N, H, W)."""
        return torch.atan2(self.directed[:, 1], self.directed[:, 0]) / 2


@dataclass(frozen=True)
class CoefficientMaps:
    """What the neural ePDOs of a network do on some images.

    Attributes:
        images: (N, H, W), mean over channels.
        layers: those with diagonal coefficients, in the order of the computation.
    """

    images: Tensor
    layers: list[LayerCoefficients]


@torch.no_grad()
def coefficient_maps(model: nn.Module, images: Tensor) -> CoefficientMaps:
    r"""The coefficients :math:`w_\alpha(f(x))` of all neural ePDOs of a network, in the frame of the image.

    Regular fields have coefficients in the frame of each orientation :math:`g`; here they are turned back by
    :math:`\hat\rho(g)`.

    Args:
        model: any network; layers with coefficients that are not diagonal are passed over.
        images: (N, C, H, W).

    >>> from evolvent.groups import cyclic, regular_fields
    >>> layer = NeuralEPDO(regular_fields(cyclic(4), 2), partitions=2)
    >>> [found] = coefficient_maps(layer, torch.randn(1, 8, 9, 9)).layers
    >>> found.strengths.shape, found.gradient.shape
    (torch.Size([1, 5, 9, 9]), torch.Size([1, 2, 9, 9]))
    """
    check_images(images, "coefficient_maps")
    with evaluation_mode(model):
        passes, _ = trace_layers(model, images)
        found = [
            _split(one.name, one.spacing, _in_one_frame(one.module, one.before), one.module.order)
            for one in passes
            if isinstance(one.module, NeuralEPDO) and isinstance(one.module.rule, DiagonalCoefficients)
        ]
    return CoefficientMaps(images.mean(1), found)


def _in_one_frame(layer: NeuralEPDO, u: Tensor) -> Tensor:
    """The coefficients of the image's own derivatives, (N, fields of a partition, derivatives, channels, H, W)."""
    found, field = layer.coefficients(u), layer.in_field
    if field.representation != regular(field.group):
        return found
    turns = torch.tensor(derivative_representation(field.group, layer.order).matrices).to(found)
    return torch.einsum("gab,nmbgyx->nmagyx", turns, found)


def _split(name: str, spacing: int, coefficients: Tensor, order: int) -> LayerCoefficients:
    mean = _padded(coefficients.mean(dim=(1, 3)), 6)
    squares = coefficients.square().mean(dim=(1, 3))
    blocks = [squares[:, m * (m + 1) // 2 : (m + 1) * (m + 2) // 2].sum(1) for m in range(order + 1)]
    total = sum(block.sum().item() for block in blocks) or 1.0
    along, across, up = mean[:, 3], mean[:, 4], mean[:, 5]
    return LayerCoefficients(
        name=name,
        spacing=spacing,
        strengths=torch.stack([block.sqrt() for block in blocks], dim=1),
        identity=mean[:, 0],
        gradient=mean[:, 1:3],
        laplacian=(along + up) / math.sqrt(2),
        directed=torch.stack([(along - up) / math.sqrt(2), across], dim=1),
        shares=[block.sum().item() / total for block in blocks],
    )


def _padded(mean: Tensor, count: int) -> Tensor:
    """With zeros for the derivatives that a layer of low order lacks."""
    missing = max(0, count - mean.shape[1])
    return torch.cat([mean, mean.new_zeros(len(mean), missing, *mean.shape[2:])], dim=1)
