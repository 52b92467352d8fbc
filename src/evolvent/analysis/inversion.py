"""An image from its representation: what a layer still knows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_images, check_not_negative, check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.modes import evaluation_mode
from evolvent.analysis.layer_features import find_layer, watched

_MOMENTUM = 0.9
_FIRST_STEP, _LAST_STEP = 0.02, 0.0005  # root mean square change of a pixel, without momentum
_RANGE = 0.5  # of pixels around grey
_VARIATION = _RANGE / 6.5  # typical difference of neighbours


@dataclass(frozen=True)
class Inversion:
    r"""Images and what was reconstructed from one layer's representation of them.

    Attributes:
        layer: name of the layer.
        images: uint8 (N, C, H, W).
        reconstructions: uint8 (N, C, H, W).
        errors: :math:`\|\Phi(x) - \Phi_0\| / \|\Phi_0\|` of each image.
        pixel_errors: :math:`\|x - x_0\| / \|x_0 - \bar x_0\|`, relative to the image without its mean.
    """

    layer: str
    images: Tensor
    reconstructions: Tensor
    errors: list[float]
    pixel_errors: list[float]


def invert(
    model: nn.Module,
    images: Tensor,
    layer: str | nn.Module,
    *,
    fidelity: float = 300.0,
    alpha: float = 6.0,
    beta: float = 2.0,
    steps: int = 300,
    seed: int = 0,
    name: str = "",
    tell: Callable[[float], None] = lambda share: None,
) -> Inversion:
    r"""Find images whose representation is that of the given ones.

    .. math:: \min_x\; C\, \frac{\|\Phi(x) - \Phi_0\|^2}{\|\Phi_0\|^2}
              + \frac{1}{n B^\alpha} \sum_i |x_i - \tfrac12|^\alpha
              + \frac{1}{n V^\beta} \sum_i \bigl( (\partial_1 x)_i^2 + (\partial_2 x)_i^2 \bigr)^{\beta/2}

    Mahendran and Vedaldi 2015, with the normalisation of their second paper (2016): an :math:`\alpha`-norm keeps pixels
    in range, total variation keeps them smooth; :math:`B` is the range of pixels around grey, :math:`V = B / 6.5` and
    :math:`C = 300`. Descent with momentum 0.9 from grey with a little noise. The gradient of each image is scaled to a
    root mean square of 1, and steps fall from 0.02 to 0.0005, so that no rate must be tuned to a network; the best
    image on the way is kept.

    Args:
        model: takes images in [0, 1], preprocessing included; it is put into evaluation mode.
        images: (N, C, H, W), bytes or numbers in [0, 1].
        layer: whose output is the representation: its path in the model, or the module.
        fidelity: :math:`C`.
        alpha, beta: exponents of the two regularisers.
        steps: number of descent steps.
        seed: of the first images.
        name: what a layer that is given as a module is called.
        tell: called with the share that is done.

    >>> wide = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Flatten())
    >>> found = invert(wide, torch.rand(2, 1, 6, 6), "0", steps=50)
    >>> found.reconstructions.shape
    torch.Size([2, 1, 6, 6])
    """
    check_images(images, "an inversion")
    check_whole(steps=steps)
    check_not_negative(fidelity=fidelity, alpha=alpha, beta=beta)
    wanted = find_layer(model, layer) if isinstance(layer, str) else layer
    like = next((p for p in model.parameters()), torch.zeros(1))
    target = images.to(like.device, like.dtype) / (255 if images.dtype == torch.uint8 else 1)
    noise = torch.randn(target.shape, generator=torch.Generator().manual_seed(seed)).to(target)
    with evaluation_mode(model), watched(wanted) as seen:
        represent = _representation(model, seen)
        with torch.no_grad():
            representation = represent(target)
        size = representation.square().sum(1).clamp_min(1e-20)

        def distance(x: Tensor) -> Tensor:
            return (represent(x) - representation).square().sum(1) / size

        best = _descend(
            lambda x: fidelity * distance(x) + _bounded(x, alpha) + _variation(x, beta), 0.5 + 0.01 * noise, steps, tell
        )
        with torch.no_grad():
            errors = distance(best).sqrt()
    away = (best - target).flatten(1).norm(dim=1)
    own = (target - target.mean((1, 2, 3), keepdim=True)).flatten(1).norm(dim=1).clamp_min(1e-20)
    return Inversion(
        layer if isinstance(layer, str) else name or type(layer).__name__,
        _bytes(target),
        _bytes(best),
        errors.tolist(),
        (away / own).tolist(),
    )


def _representation(model: nn.Module, seen: list[Tensor]) -> Callable[[Tensor], Tensor]:
    def represent(x: Tensor) -> Tensor:
        seen.clear()
        model(x)
        if not seen:
            raise ConfigError("the layer is not used when the model is called. Name another one.")
        return seen[0]

    return represent


def _descend(objective: Callable[[Tensor], Tensor], start: Tensor, steps: int, tell: Callable[[float], None]) -> Tensor:
    """The best image on a path of momentum descent, each image on its own."""
    x, velocity, best, least = start, torch.zeros_like(start), start, torch.full_like(start[:, 0, 0, 0], math.inf)
    for k in range(steps):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            value = objective(x)
            [gradient] = torch.autograd.grad(value.sum(), x)
        better = (value.detach() < least)[:, None, None, None]
        best, least = torch.where(better, x.detach(), best), torch.minimum(value.detach(), least)
        size = gradient.square().mean((1, 2, 3), keepdim=True).sqrt().clamp_min(1e-20)
        rate = _LAST_STEP + 0.5 * (_FIRST_STEP - _LAST_STEP) * (1 + math.cos(math.pi * k / steps))
        velocity = _MOMENTUM * velocity - (1 - _MOMENTUM) * rate * gradient / size
        x = x + velocity
        tell((k + 1) / steps)
    return best


def _bounded(x: Tensor, alpha: float) -> Tensor:
    return ((x - 0.5).abs() / _RANGE).pow(alpha).mean((1, 2, 3))


def _variation(x: Tensor, beta: float) -> Tensor:
    """Total variation to the power beta over the pixels that have a neighbour on the right and below."""
    down, right = x[:, :, 1:, :-1] - x[:, :, :-1, :-1], x[:, :, :-1, 1:] - x[:, :, :-1, :-1]
    square = (down.square() + right.square()) / _VARIATION**2
    return (square + 1e-12).pow(beta / 2).mean((1, 2, 3))


def _bytes(pixels: Tensor) -> Tensor:
    return (255 * pixels.detach()).round().clamp(0, 255).to(torch.uint8).cpu()
