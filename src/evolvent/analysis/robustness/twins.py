"""Networks that stand in for a classifier when its own gradients may mislead an attack."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from evolvent.evolution import Evolution, evolutions
from evolvent.gradients import Backprop
from evolvent.integrators import RK4

_SUBSTEPS = (4, 8, 16)  # of RK4 in place of one step of an adaptive method
_FIT_STEPS, _FIT_BATCH, _FIT_RATE = 150, 50, 3e-3


def unrolled(model: nn.Module, images: Tensor) -> nn.Module | None:
    """A copy that takes fixed steps and differentiates them exactly; None if the model does both already.

    Every adaptive method becomes RK4 with 4 steps in place of one, or 8 or 16 if the answers to ``images`` differ
    otherwise; every gradient strategy becomes backpropagation.
    """
    found = [evolution for _, evolution in evolutions(model)]
    if all(one.gradient.exact and not one.integrator.adaptive for one in found):
        return None
    with torch.no_grad():
        answers = model(images).argmax(1)
    twin = None
    for substeps in _SUBSTEPS:
        twin = _replaced(model, lambda evolution, n=substeps: _fixed(evolution, n))
        with torch.no_grad():
            if torch.equal(twin(images).argmax(1), answers):
                break
    return twin


def _fixed(evolution: Evolution, substeps: int) -> Evolution:
    if not evolution.integrator.adaptive:
        evolution.gradient = Backprop()
        return evolution
    dynamics, h = evolution.dynamics, evolution.step_size / substeps
    if isinstance(dynamics, nn.ModuleList):
        fixed = Evolution([f for f in dynamics for _ in range(substeps)], RK4(), step_size=h)  # pyright: ignore[reportArgumentType]
    else:
        fixed = Evolution(dynamics, RK4(), steps=evolution.steps * substeps, step_size=h)  # pyright: ignore[reportArgumentType]
    return fixed.train(evolution.training)


def substitute(model: nn.Module, images: Tensor, generator: Generator) -> nn.Module:
    """A network that an attacker could train without seeing the model's gradients, fitted to the model's answers.

    It is the model with its trained weights, but without its evolutions: features pass them unchanged, and what is
    left (stem, transitions, head) is fitted for a few seconds to the classes that the model gives to ``images``
    (Papernot et al. 2017). Where nothing is left out or nothing remains to be fitted, it is a small convolutional
    network.
    """
    with torch.no_grad():
        scores = model(images)
    twin = _without_evolutions(model) or _small(images, scores.shape[1])
    twin = twin.to(images).train().requires_grad_()
    optimizer = torch.optim.Adam(twin.parameters(), _FIT_RATE)
    for _ in range(_FIT_STEPS):
        rows = torch.randint(len(images), (min(_FIT_BATCH, len(images)),), generator=generator).to(images.device)
        with torch.enable_grad():
            loss = F.cross_entropy(twin(images[rows]), scores.argmax(1)[rows])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return twin.eval().requires_grad_(False)


def _without_evolutions(model: nn.Module) -> nn.Module | None:
    if isinstance(model, Evolution) or not any(True for _ in evolutions(model)):
        return None
    twin = _replaced(model, lambda evolution: nn.Identity())
    return twin if any(True for _ in twin.parameters()) else None


def _small(images: Tensor, classes: int) -> nn.Module:
    """Two convolutions and an affine map."""
    layers = []
    for before, after in ((images.shape[1], 16), (16, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, classes))


def _replaced(model: nn.Module, change: Callable[[Evolution], nn.Module]) -> nn.Module:
    """A copy of a model whose evolutions are changed."""
    twin = copy.deepcopy(model)
    for name, evolution in list(evolutions(twin)):
        parent, _, child = name.rpartition(".")
        if child:
            setattr(twin.get_submodule(parent), child, change(evolution))
        else:
            twin = change(evolution)
    return twin


class MeanAnswer(nn.Module):
    r"""The answer of a random classifier on average, :math:`\log \tfrac1m \sum_j p_j(x)` over :math:`m` draws.

    Attacks on it follow the gradient of an expectation, not of one draw: expectation over transformation, Athalye et
    al. 2018.
    """

    def __init__(self, model: nn.Module, draws: int) -> None:
        super().__init__()
        self.model, self.draws = model, draws

    def forward(self, images: Tensor) -> Tensor:
        each = torch.stack([self.model(images).log_softmax(1) for _ in range(self.draws)])
        return each.logsumexp(0) - math.log(self.draws)


@torch.no_grad()
def is_random(model: nn.Module, images: Tensor, draws: int) -> bool:
    """Whether any of several answers to the same images differs from the first by more than rounding."""
    first = model(images)
    rounding = 1e-5 * first.abs().max().clamp_min(1).item()
    return not all(torch.allclose(model(images), first, rtol=1e-3, atol=rounding) for _ in range(draws - 1))
