"""Attacks along the sign of the gradient: one step, or several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from evolvent._core.checks import check_choice, check_positive, check_whole
from evolvent.analysis.robustness.attack import (
    ATTACKS,
    Attack,
    Objective,
    ascent,
    cross_entropy,
    margin,
    random_start,
    within,
)


@dataclass(frozen=True)
class FGSM(Attack):
    r"""The fast gradient sign method, :math:`x' = x + \varepsilon \operatorname{sign} \nabla_x \ell(f(x), y)`.

    Goodfellow, Shlens, Szegedy 2015. One step; :math:`\ell` is the cross-entropy.
    """

    name = "fgsm"

    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        uphill = ascent(model, images, cross_entropy(labels)).gradient.sign()
        return within(images + eps * uphill, images, eps)


@dataclass(frozen=True)
class PGD(Attack):
    r"""Projected gradient descent, :math:`x_{k+1} = P(x_k + \alpha \operatorname{sign} \nabla_x \ell(f(x_k), y))`.

    Madry et al. 2018; :math:`P` projects onto the ball of radius :math:`\varepsilon` and onto [0, 1]. The defaults
    are those of Appendix G of the PR-Net paper, three steps of 1/255. It does not say where they start; here they
    start at the image: from a random point of the ball for 3/255, three steps of 1/255 do not reach the other side.

    Args:
        steps: number of steps.
        step_size: :math:`\alpha`; None is :math:`2.5\, \varepsilon / steps`, as Madry et al. advise.
        random_start: begin at a random point of the ball.
        stop: leave an image alone once it is misclassified, as an attacker would; else all steps are made.
        loss: ``"ce"`` is the cross-entropy; ``"margin"`` the largest other score minus that of the true class (Carlini
            and Wagner 2017), whose gradient neither vanishes nor turns with the scale of the scores.
    """

    steps: int = 3
    step_size: float | None = 1 / 255
    random_start: bool = False
    stop: bool = False
    loss: Literal["ce", "margin"] = "ce"
    name = "pgd"

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, ("ce", "margin"))
        check_whole(steps=self.steps)
        if self.step_size is not None:
            check_positive(step_size=self.step_size)

    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        size = 2.5 * eps / self.steps if self.step_size is None else self.step_size
        found = random_start(images, eps, generator) if self.random_start else images.clone()
        left = torch.arange(len(images), device=images.device)
        for _ in range(self.steps):
            here = ascent(model, found[left], self._objective(labels[left]))
            if self.stop:
                right = here.scores.argmax(1) == labels[left]
                left, here = left[right], here._replace(gradient=here.gradient[right])
                if not len(left):
                    break
            found[left] = within(found[left] + size * here.gradient.sign(), images[left], eps)
        return found

    def reaches(self, eps: float) -> bool:
        way = 2 * eps if self.random_start else eps  # from one side of the ball to the other
        return self.step_size is None or self.steps * self.step_size >= 0.999 * way

    def _objective(self, labels: Tensor) -> Objective:
        return cross_entropy(labels) if self.loss == "ce" else lambda scores: -margin(scores, labels)


ATTACKS.add(FGSM.name, FGSM)
ATTACKS.add(PGD.name, PGD)
