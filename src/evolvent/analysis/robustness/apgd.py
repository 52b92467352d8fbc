"""Projected gradient descent that chooses its own step size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator, Tensor, nn

from evolvent._core.checks import check_choice, check_whole
from evolvent.analysis.robustness.attack import (
    ATTACKS,
    Attack,
    Objective,
    ascent,
    at,
    cross_entropy,
    random_start,
    within,
    wrong,
)

_MOMENTUM = 0.75
_RISES = 0.75  # share of steps that must increase the objective


@dataclass(frozen=True)
class APGD(Attack):
    r"""Auto-PGD: steps with momentum, halved for each image on its own when they stop helping.

    .. math:: z = P(x_k + \eta_k \operatorname{sign} \nabla \ell(x_k)), \qquad
              x_{k+1} = P\bigl(x_k + \tfrac34 (z - x_k) + \tfrac14 (x_k - x_{k-1})\bigr)

    Croce and Hein 2020, algorithm 1: :math:`\eta_0 = 2 \varepsilon`; at fixed checkpoints, fewer than three quarters of
    the steps since the last one having increased the objective, or neither step nor best value having changed,
    :math:`\eta` is halved and the search goes on from the best point.

    Args:
        loss: ``"ce"`` increases the cross-entropy; ``"targeted"`` the difference of logits ratio towards each of the
            most likely wrong classes in turn, which does not vanish with the scale of the scores.
        steps: number of steps, of each target.
        targets: number of targets, at most.
    """

    loss: Literal["ce", "targeted"] = "ce"
    steps: int = 100
    targets: int = 9
    name = "apgd"

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, ("ce", "targeted"))
        check_whole(steps=self.steps, targets=self.targets)

    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        if self.loss == "ce":
            return self._climb(model, images, labels, eps, cross_entropy(labels), generator)

        def attempt(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
            towards = logit_ratio(labels[rows], target)
            tried = self._climb(model, images[rows], labels[rows], eps, towards, generator)
            return tried, wrong(model, tried, labels[rows])

        return target_by_target(model, images, labels, self.targets, attempt)

    def _climb(
        self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, objective: Objective, generator: Generator
    ) -> Tensor:  # fmt: skip
        """The last misclassified point of each image's path, or its best one."""
        x = before = random_start(images, eps, generator)
        here = ascent(model, x, objective)
        best, peak = x.clone(), here
        found, fooled = x.clone(), here.scores.argmax(1) != labels
        size = torch.full((len(x), 1, 1, 1), 2 * eps, dtype=x.dtype, device=x.device)
        rises, halved, last_peak = torch.zeros_like(here.value), torch.ones_like(fooled), here.value
        checkpoints, last = _checkpoints(self.steps), 0
        for k in range(1, self.steps + 1):
            z = within(x + size * here.gradient.sign(), images, eps)
            share = _MOMENTUM if k > 1 else 1.0
            x, before = within(x + share * (z - x) + (1 - share) * (x - before), images, eps), x
            new = ascent(model, x, objective)
            missed = new.scores.argmax(1) != labels
            found[missed] = x[missed]
            fooled = fooled | missed
            if fooled.all():
                return found
            rises += new.value > here.value
            better = new.value > peak.value
            best = torch.where(_wide(better), x, best)
            gradient = torch.where(_wide(better), new.gradient, peak.gradient)
            peak = peak._replace(gradient=gradient, value=torch.where(better, new.value, peak.value))
            here = new
            if k in checkpoints:
                halve = (rises < _RISES * (k - last)) | (~halved & (peak.value <= last_peak))
                size = torch.where(_wide(halve), size / 2, size)
                x = torch.where(_wide(halve), best, x)
                here = here._replace(gradient=torch.where(_wide(halve), peak.gradient, here.gradient))
                rises, halved, last_peak, last = torch.zeros_like(rises), halve, peak.value, k
        return torch.where(_wide(fooled), found, best)


Attempt = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # rows and their target to images, and which count


def target_by_target(model: nn.Module, images: Tensor, labels: Tensor, targets: int, attempt: Attempt) -> Tensor:
    """Images after an attempt on each likely wrong class in turn, of those rows for which none counted before."""
    found, left = images.clone(), (~wrong(model, images, labels)).nonzero()[:, 0]
    with torch.no_grad():
        order = likely_targets(model(images), labels)
    for place in range(min(targets, order.shape[1])):
        if not len(left):
            break
        tried, counts = attempt(left, order[left, place])
        found[left[counts]] = tried[counts]
        left = left[~counts]
    return found


def likely_targets(scores: Tensor, labels: Tensor) -> Tensor:
    """The wrong classes, the likeliest first.

    Shape: (B, classes) and (B,) to (B, classes - 1).

    >>> likely_targets(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([0])).tolist()
    [[2, 1]]
    """
    return scores.scatter(1, labels[:, None], float("-inf")).argsort(1, descending=True)[:, :-1]


def logit_ratio(labels: Tensor, targets: Tensor) -> Objective:
    r"""The targeted difference of logits ratio,
    :math:`-(z_y - z_t) / (z_{(1)} - \tfrac12 (z_{(3)} + z_{(4)}))`, with :math:`z_{(k)}` the k-th largest score.

    It does not change when scores are shifted or scaled. With fewer than four classes it is :math:`z_t - z_y`.
    """

    def ratio(scores: Tensor) -> Tensor:
        gain = at(scores, targets) - at(scores, labels)
        if scores.shape[1] < 4:
            return gain
        top = scores.topk(4, dim=1).values
        return gain / (top[:, 0] - 0.5 * (top[:, 2] + top[:, 3]) + 1e-12)

    return ratio


def _checkpoints(steps: int) -> set[int]:
    """Steps after which the step size is looked at: shares 0.22, 0.41, 0.57, ... of all, ever closer."""
    shares = [0.0, 0.22]
    while shares[-1] < 1:
        shares.append(shares[-1] + max(shares[-1] - shares[-2] - 0.03, 0.06))
    return {math.ceil(round(share * steps, 6)) for share in shares[1:] if share < 1}


def _wide(each: Tensor) -> Tensor:
    return each[:, None, None, None]


ATTACKS.add(APGD.name, APGD)
