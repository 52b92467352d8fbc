"""AutoAttack: four attacks, one after the other, on what the earlier ones did not fool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator, Tensor, nn

from evolvent._core.checks import check_whole
from evolvent.analysis.robustness.apgd import APGD
from evolvent.analysis.robustness.attack import ATTACKS, Attack, wrong
from evolvent.analysis.robustness.fab import FAB
from evolvent.analysis.robustness.square import Square


@dataclass(frozen=True)
class Auto(Attack):
    """AutoAttack's standard set: APGD on the cross-entropy, targeted APGD, targeted FAB, Square.

    Croce and Hein 2020 (Reliable evaluation of adversarial robustness). An image counts as robust if none of the four
    fools the classifier on it.

    Args:
        steps: of APGD, and of FAB towards each target.
        targets: wrong classes that are aimed at, at most.
        queries: of Square.
    """

    steps: int = 100
    targets: int = 9
    queries: int = 5000
    name = "auto"

    def __post_init__(self) -> None:
        check_whole(steps=self.steps, targets=self.targets, queries=self.queries)

    @property
    def attacks(self) -> Sequence[Attack]:
        """The four in their order."""
        targeted = APGD("targeted", self.steps, self.targets)
        return APGD("ce", self.steps), targeted, FAB(self.steps, self.targets), Square(self.queries)

    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        found = images.clone()
        left = (~wrong(model, images, labels)).nonzero()[:, 0]
        for attack in self.attacks:
            if not len(left):
                break
            tried = attack.perturb(model, images[left], labels[left], eps, generator)
            fooled = wrong(model, tried, labels[left])
            found[left] = tried
            left = left[~fooled]
        return found


ATTACKS.add(Auto.name, Auto)
