"""What an attack is, and what attacks share: gradients with respect to pixels, the ball of a budget, margins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from evolvent._core.registry import Registry

Objective = Callable[[Tensor], Tensor]
"""What an attack increases: from scores (B, classes) to one number for each image, (B,)."""


class Attack(ABC):
    r"""Looks for images :math:`x'` in [0, 1] that a classifier gets wrong, :math:`\|x' - x\|_\infty \le \varepsilon`.

    Attributes:
        name: its name on the command line.
    """

    name: ClassVar[str]

    @abstractmethod
    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        r"""Perturbed images, each within ``eps`` of its own and within [0, 1].

        Args:
            model: from images in [0, 1] to scores (B, classes), in evaluation mode.
            images: (B, C, H, W) in [0, 1], in the precision and on the device of the model.
            labels: int64 (B,).
            eps: the budget :math:`\varepsilon`.
            generator: of random numbers, on the CPU, so that they are the same on every device.
        """

    def reaches(self, eps: float) -> bool:
        """Whether its steps are long enough to use the whole budget."""
        return True


ATTACKS: Registry[Callable[[], Attack]] = Registry("attack")


def make_attack(name: str) -> Attack:
    """An attack with its default settings, by name.

    >>> make_attack("pgd")
    PGD(steps=3, step_size=0.00392156862745098, random_start=False, stop=False, loss='ce')
    """
    return ATTACKS.get(name)()


class Ascent(NamedTuple):
    """An objective and its gradient at some images."""

    gradient: Tensor  # (B, C, H, W); zero where the network passes none
    scores: Tensor  # (B, classes)
    value: Tensor  # (B,)


def ascent(model: nn.Module, images: Tensor, objective: Objective) -> Ascent:
    """The objective at each image and its gradient with respect to the pixels; what is not finite counts as zero."""
    x = images.detach().requires_grad_()
    with torch.enable_grad():
        scores = model(x)
        value = objective(scores)
        if value.requires_grad:
            [gradient] = torch.autograd.grad(value.sum(), x, materialize_grads=True)
        else:  # a network that detaches its answer
            gradient = torch.zeros_like(x)
    return Ascent(gradient.nan_to_num(0.0, 0.0, 0.0), scores.detach(), value.detach())


def within(x: Tensor, images: Tensor, eps: float) -> Tensor:
    """The nearest images that lie within ``eps`` of ``images``, and in [0, 1]."""
    return torch.clamp(x, images - eps, images + eps).clamp_(0, 1)


def random_signs(shape: tuple[int, ...], like: Tensor, generator: Generator) -> Tensor:
    """Plus and minus one with equal probability."""
    return (2 * torch.randint(2, shape, generator=generator) - 1).to(like)


def random_start(images: Tensor, eps: float, generator: Generator) -> Tensor:
    """A uniformly random point of each image's ball."""
    draw = 2 * torch.rand(images.shape, generator=generator) - 1
    return within(images + eps * draw.to(images), images, eps)


def cross_entropy(labels: Tensor) -> Objective:
    """The loss of the true class."""
    return lambda scores: F.cross_entropy(scores, labels, reduction="none")


def at(scores: Tensor, classes: Tensor) -> Tensor:
    """The score of one class for each row."""
    return scores.gather(1, classes[:, None])[:, 0]


def margin(scores: Tensor, labels: Tensor) -> Tensor:
    """The score of the true class minus the largest of the others; negative where the answer is wrong.

    >>> margin(torch.tensor([[3.0, 1.0, 0.0], [0.0, 2.0, 5.0]]), torch.tensor([0, 1])).tolist()
    [2.0, -3.0]
    """
    others = scores.scatter(1, labels[:, None], float("-inf"))
    return at(scores, labels) - others.max(1).values


def wrong(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Which images are given another class than the true one, (B,)."""
    with torch.no_grad():
        return model(images).argmax(1) != labels
