"""Can a robust accuracy be trusted? Checks for gradients that are masked rather than small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.analysis.robustness.attack import Attack, ascent, cross_entropy
from evolvent.analysis.robustness.budgets import budget_text, check_budgets
from evolvent.analysis.robustness.gradient_sign import FGSM, PGD
from evolvent.analysis.robustness.square import Square
from evolvent.analysis.robustness.twins import MeanAnswer, is_random, substitute, unrolled
from evolvent.analysis.robustness.victim import victim

_TOLERANCE = 0.02  # of the images: by how much an attack that should be weaker may do better
_NO_GRADIENT = 0.05  # of the images may have none
_DRAWS = 10  # of a random classifier
_RESTARTS = 4  # of the unbounded attack
_LARGER_TOLERANCE = 0.05  # the same at larger budgets, where several comparisons are made
_LARGER_SHARE = 5  # at each of them Square makes one query in so many
_PARTS = 8  # of the work, for progress


@dataclass(frozen=True)
class Check:
    """One check of an audit.

    Attributes:
        name: what is checked.
        passed: None if there is nothing to check.
        said: what was measured, in one sentence.
    """

    name: str
    passed: bool | None
    said: str


@dataclass(frozen=True)
class MaskingAudit:
    """What :func:`audit_masking` found.

    Attributes:
        trusted: whether all checks were passed.
        verdict: one line.
        eps: budget of the comparisons.
        count: number of images.
        accuracies: share of the images that stay right, by attack.
        sweep_eps: growing budgets of the white-box attack.
        sweep: share of the images that stay right with each.
        checks: one after the other.
    """

    trusted: bool
    verdict: str
    eps: float
    count: int
    accuracies: dict[str, float]
    sweep_eps: list[float]
    sweep: list[float]
    checks: list[Check]


def audit_masking(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    eps: float = 8 / 255,
    steps: int = 20,
    queries: int = 500,
    seed: int = 0,
    tell: Callable[[float], None] = lambda share: None,
) -> MaskingAudit:
    r"""Attack a classifier in all the ways by which masked gradients show, and say whether its robustness is real.

    A network looks robust if its gradients do not lead to the adversarial images that exist: because they vanish,
    are wrong (adaptive solvers, inexact adjoints, scores so large that the cross-entropy is rounded) or random. The
    checks are those of Athalye, Carlini, Wagner 2018 and Carlini et al. 2019, and two of this library for networks that
    are evolutions. With :math:`a` the accuracy that an attack leaves:

    gradients
        at most 5 % of the images have a gradient that is zero or not finite;
    iteration
        :math:`a(\mathrm{PGD}) \le a(\mathrm{FGSM})`;
    margin
        :math:`a(\mathrm{PGD}) \le a(\mathrm{PGD\ on\ the\ difference\ of\ scores})`, which does not depend on their
        scale;
    search without gradients
        :math:`a(\mathrm{PGD}) \le a(\mathrm{Square})`;
    transfer
        :math:`a(\mathrm{PGD}) \le a(\mathrm{PGD\ of\ a\ substitute\ without\ the\ evolutions})`;
    fixed steps
        :math:`a(\mathrm{PGD}) \le a(\mathrm{PGD\ through\ RK4\ and\ backpropagation})`, if a method is adaptive or a
        gradient inexact;
    expectation
        :math:`a(\mathrm{PGD}) \le a(\mathrm{PGD\ on\ the\ mean\ answer})`, if answers are random;
    larger budgets
        the accuracy falls as :math:`\varepsilon` grows, and is 0 when any image is allowed; on the way neither Square
        nor PGD on the difference of scores is stronger than PGD.

    Up to 2 % of the images, and always one, may be the other way round; 5 % at larger budgets. Passing is no proof of
    robustness: the checks are necessary.

    Args:
        model: from images in [0, 1] to scores, preprocessing included; any module.
        images: (N, C, H, W), bytes or numbers in [0, 1]; one or two hundred are enough. All are attacked at once.
        labels: (N,).
        eps: the budget whose figure is to be trusted. Where no attack changes anything, only the larger budgets say
            something.
        steps: of PGD.
        queries: of Square.
        seed: of everything random.
        tell: called with the share that is done.

    >>> brighter_half = nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten()).eval()
    >>> images = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> audit_masking(brighter_half, images, brighter_half(images).argmax(1)).verdict
    'trust the figure: all 6 checks for masked gradients are passed'
    """
    check_budgets([eps])
    check_whole(steps=steps, queries=queries)
    with _own_random_numbers(seed), victim(model, images, labels) as under_attack:
        [batch] = under_attack.batches(len(images))
        return _Auditor(model, batch.images, batch.labels, steps, queries, seed).audit(eps, tell)


class _Auditor:
    """Runs the checks; ``right`` are the images that the classifier gets right, which alone are attacked."""

    def __init__(self, model: nn.Module, images: Tensor, labels: Tensor, steps: int, queries: int, seed: int) -> None:
        self.model, self.count = model, len(images)
        self.tolerance = max(_TOLERANCE, 1 / self.count) + 1e-9  # one image decides nothing
        self.draws = _DRAWS if is_random(model, images, _DRAWS) else 1
        right = self._right(images, labels) > 0.5
        self.images, self.labels = images[right], labels[right]
        if not len(self.images):
            raise ConfigError(
                f"the classifier is right on 0 of {self.count} images: there is nothing to defend. Check that images "
                "are scaled and labelled as in training."
            )
        self.strongest = MeanAnswer(model, self.draws) if self.draws > 1 else model
        self.pgd, self.square = PGD(steps, None, stop=self.draws == 1), Square(queries)
        self.margin = PGD(steps, None, stop=self.draws == 1, loss="margin")
        self.elsewhere = PGD(steps, None)  # goes on beyond what fools the network it is made on
        self.seed = seed
        self.accuracies = {"clean": self._left(self.images)}

    def audit(self, eps: float, tell: Callable[[float], None]) -> MaskingAudit:
        self._attack("FGSM", FGSM(), self.strongest, eps)
        self._attack("PGD", self.pgd, self.strongest, eps)
        tell(1 / _PARTS)
        checks = [self._gradients(), self._not_beaten("iteration", "FGSM", "one step")]
        parts = (self._margin, self._search, self._transfer, self._fixed_steps, self._expectation)
        for part, make in enumerate(parts, 2):
            checks.append(make(eps))
            tell(part / _PARTS)
        budgets, sweep = self._sweep(eps)
        checks.append(self._larger_budgets(budgets, sweep))
        tell(1.0)
        failed = [check for check in checks if check.passed is False]
        return MaskingAudit(not failed, _verdict(checks), eps, self.count, self.accuracies, budgets, sweep, checks)

    def _gradients(self) -> Check:
        here = ascent(self.strongest, self.images, cross_entropy(self.labels))
        share = (here.gradient.flatten(1).abs().amax(1) == 0).double().mean().item()
        return Check("gradients", share <= _NO_GRADIENT, f"{_percent(share)} of the images have no usable gradient")

    def _margin(self, eps: float) -> Check:
        self._attack("margin", self.margin, self.strongest, eps)
        return self._not_beaten("margin", "margin", "PGD on the difference of scores")

    def _search(self, eps: float) -> Check:
        self._attack("Square", self.square, self.strongest, eps)
        return self._not_beaten("search without gradients", "Square", "a search without gradients")

    def _transfer(self, eps: float) -> Check:
        other = substitute(self.model, self.images, self._generator())
        self._attack("transfer", self.elsewhere, other, eps)
        return self._not_beaten("transfer", "transfer", "an attack on a substitute")

    def _fixed_steps(self, eps: float) -> Check:
        twin = unrolled(self.model, self.images)
        if twin is None:
            return Check("fixed steps", None, "no method is adaptive, and gradients are exact")
        self._attack("fixed steps", self.elsewhere, MeanAnswer(twin, self.draws) if self.draws > 1 else twin, eps)
        return self._not_beaten("fixed steps", "fixed steps", "an attack through fixed steps")

    def _expectation(self, eps: float) -> Check:
        if self.draws == 1:
            return Check("expectation", None, "answers are not random")
        self._attack("one draw", self.pgd, self.model, eps)
        better = self.accuracies["PGD"] < self.accuracies["one draw"] - self.tolerance
        said = f"PGD on the mean answer leaves {self._said('PGD')}, on single draws {self._said('one draw')}"
        return Check("expectation", not better, said)

    def _sweep(self, eps: float) -> tuple[list[float], list[float]]:
        """The white-box attack with budgets that double, until nothing is left or any image is allowed."""
        budgets, left = [eps], [self.accuracies["PGD"]]
        while left[-1] > 0 and budgets[-1] < 1:
            budgets.append(min(2 * budgets[-1], 1.0))
            left.append(self._unbounded() if budgets[-1] == 1 else self._leaves(self.pgd, self.strongest, budgets[-1]))
        return budgets, left

    def _unbounded(self) -> float:
        """What the attack leaves that may choose any image, from several starts and with several step sizes."""
        images, labels = self.images, self.labels
        for restart in range(_RESTARTS):
            attack = PGD(2 * self.pgd.steps, 0.5 / 4**restart, random_start=restart > 0, stop=True)
            tried = attack.perturb(self.strongest, images, labels, 1.0, self._generator(restart))
            still = self._right(tried, labels) > 0.5
            images, labels = images[still], labels[still]
            if not len(images):
                return 0.0
        return len(images) / self.count

    def _larger_budgets(self, budgets: list[float], left: list[float]) -> Check:
        for one, other, before, after in zip(budgets, budgets[1:], left, left[1:], strict=False):
            if after > before + self.tolerance:
                less = f"{_percent(before)} with {budget_text(one)}"
                said = f"PGD leaves {less}, but {_percent(after)} with {budget_text(other)}"
                return Check("larger budgets", False, said)
        if left[-1] > 0:
            return Check("larger budgets", False, f"PGD leaves {_percent(left[-1])} even when any image is allowed")
        stronger = self._stronger(budgets[1:-1], left[1:-1])
        if stronger:
            return Check("larger budgets", False, stronger)
        return Check("larger budgets", True, f"PGD leaves nothing with {budget_text(budgets[-1])}")

    def _stronger(self, budgets: list[float], left: list[float]) -> str | None:
        """What beats PGD at a larger budget: wrong gradients show there if ``eps`` is too small to change anything."""
        search = Square(max(1, self.square.queries // _LARGER_SHARE))
        rivals = {"PGD on the difference of scores": self.margin, "a search without gradients": search}
        for eps, share in zip(budgets, left, strict=True):
            for words, attack in rivals.items():
                found = self._leaves(attack, self.strongest, eps)
                if share > found + max(_LARGER_TOLERANCE, self.tolerance):
                    return f"with {budget_text(eps)} {words} leaves {_percent(found)}, PGD {_percent(share)}"
        return None

    def _not_beaten(self, name: str, attack: str, words: str) -> Check:
        """Whether PGD is at least as strong as an attack that should be weaker."""
        passed = self.accuracies["PGD"] <= self.accuracies[attack] + self.tolerance
        return Check(name, passed, f"{words} leaves {self._said(attack)}, PGD {self._said('PGD')}")

    def _attack(self, name: str, attack: Attack, source: nn.Module, eps: float) -> None:
        self.accuracies[name] = self._leaves(attack, source, eps)

    def _leaves(self, attack: Attack, source: nn.Module, eps: float) -> float:
        """The share of all images that stay right when an attack on ``source`` is used against the model."""
        return self._left(attack.perturb(source, self.images, self.labels, eps, self._generator()))

    def _left(self, images: Tensor) -> float:
        return self._right(images, self.labels).sum().item() / self.count

    @torch.no_grad()
    def _right(self, images: Tensor, labels: Tensor) -> Tensor:
        """How often the model is right on each image."""
        return torch.stack([self.model(images).argmax(1) == labels for _ in range(self.draws)]).double().mean(0)

    def _generator(self, place: int = 0) -> torch.Generator:
        return torch.Generator().manual_seed(derive_seed(*key(Stream.ATTACK, self.seed, place)))

    def _said(self, attack: str) -> str:
        return _percent(self.accuracies[attack])


def _verdict(checks: list[Check]) -> str:
    failed = [check for check in checks if check.passed is False]
    if failed:
        others = f" ({', '.join(check.name for check in failed[1:])} too)" if failed[1:] else ""
        return f"do not trust the figure: {failed[0].said} [{failed[0].name}]{others}"
    made = [check for check in checks if check.passed]
    return f"trust the figure: all {len(made)} checks for masked gradients are passed"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@contextmanager
def _own_random_numbers(seed: int) -> Iterator[None]:
    """Torch's generators begin at ``seed`` inside the block, and are as they were afterwards."""
    with torch.random.fork_rng(range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        torch.manual_seed(seed)
        yield
