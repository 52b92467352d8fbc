"""How well a classifier does on clean, attacked and corrupted images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.errors import ConfigError
from evolvent._core.randomness import Stream, derive_seed, key
from evolvent.analysis.robustness.attack import Attack, make_attack
from evolvent.analysis.robustness.budgets import PAPER_BUDGETS, budget_text, check_budgets
from evolvent.analysis.robustness.corruptions import CORRUPTIONS
from evolvent.analysis.robustness.victim import AttackWarning, Batch, Victim, victim
from evolvent.tasks.accuracy import confusion_counts

PAPER_CORRUPTIONS = ("noise", "crop", "rotate", "jitter")

Perturb = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class PerturbedAccuracy:
    """How well a classifier does on images that were changed in one way.

    Attributes:
        name: of the attack or corruption; ``"clean"`` for none.
        eps: budget of an attack; None otherwise.
        top1: share of the images whose class has the largest score.
        top5: share of those whose class is among the five largest; None with five classes or fewer.
        class_mean: mean over classes of each one's accuracy.
        class_std: standard deviation over classes (of the population, not of a sample).
    """

    name: str
    eps: float | None
    top1: float
    top5: float | None
    class_mean: float
    class_std: float

    @property
    def title(self) -> str:
        """For example ``pgd 3/255``."""
        return self.name if self.eps is None else f"{self.name} {budget_text(self.eps)}"


@dataclass(frozen=True)
class Example:
    """One image under one perturbation.

    Attributes:
        title: of the perturbation.
        row: number of the image.
        image: what the classifier saw, uint8 (C, H, W).
        difference: the change, magnified around grey 128, uint8 (C, H, W).
        magnified: by which factor; 1 if nothing changed.
        label: the true class.
        predicted: the class that was given.
        confidence: its probability.
    """

    title: str
    row: int
    image: Tensor
    difference: Tensor
    magnified: float
    label: int
    predicted: int
    confidence: float


@dataclass(frozen=True)
class Robustness:
    """What :func:`measure_robustness` found: accuracies, clean ones first, and a few examples of each perturbation.

    Attributes:
        accuracies: one for each perturbation.
        count: number of images.
        examples: the same images under each perturbation.
        classes: names of the classes, or their numbers.
    """

    accuracies: list[PerturbedAccuracy]
    count: int
    examples: list[Example] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)

    def __getitem__(self, title: str) -> PerturbedAccuracy:
        """The accuracy under a perturbation, as in ``found["pgd 3/255"]``."""
        return {one.title: one for one in self.accuracies}[title]


def measure_robustness(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    attacks: Sequence[str | Attack] = ("fgsm", "pgd"),
    eps: Sequence[float] = PAPER_BUDGETS,
    corruptions: Sequence[str] = PAPER_CORRUPTIONS,
    classes: Sequence[str] = (),
    seed: int = 0,
    examples: int = 3,
    batch_size: int = 100,
    tell: Callable[[float], None] = lambda share: None,
) -> Robustness:
    r"""Classify images as they are, corrupted, and attacked with each budget.

    Attacks and corruptions act on pixels in [0, 1], before anything that the model does to them: what is attacked is
    preprocessing and network together, and gradients pass through both. The defaults are those of Tables 3 and 5 of the
    PR-Net paper. The classifier is put into evaluation mode, and left as it was.

    Args:
        model: from images in [0, 1] to a score for each class, (N, classes); preprocessing belongs to it, as in
            ``nn.Sequential(preprocess, network)``. Wrap one that takes 0 ... 255 into :class:`OfBytes`.
        images: (N, C, H, W), bytes or numbers in [0, 1].
        labels: (N,), classes by number.
        attacks: names, or attacks with settings of your own.
        eps: budgets, the largest change of a pixel.
        corruptions: names; they need the extra ``robustness``.
        classes: names of the classes, for pictures.
        seed: of everything random. What happens to an image does not depend on the model or on the other images of a
            corruption; random numbers of attacks depend on ``batch_size``, too.
        examples: number of images that are kept under each perturbation.
        batch_size: images at a time.
        tell: called with the share that is done.

    >>> bright = nn.Sequential(nn.AdaptiveAvgPool2d((1, 2)), nn.Flatten())
    >>> images = torch.tensor([[0.6, 0.4], [0.1, 0.9]]).view(2, 1, 1, 2)
    >>> labels, eps = torch.tensor([0, 1]), [0.2]
    >>> found = measure_robustness(bright.eval(), images, labels, attacks=["fgsm"], eps=eps, corruptions=[])
    >>> [(one.title, one.top1) for one in found.accuracies]
    [('clean', 1.0), ('fgsm 51/255', 0.5)]
    """
    chosen = [make_attack(one) if isinstance(one, str) else one for one in attacks]
    if chosen:
        check_budgets(eps)
        _warn_of_short_steps(chosen, eps)
    check_whole(batch_size=batch_size)
    check_whole(0, examples=examples)
    perturbations: list[tuple[str, float | None, Perturb]] = [("clean", None, lambda model, batch: batch.images)]
    perturbations += [(name, None, _corrupted(name, seed)) for name in corruptions]
    perturbations += [(one.name, budget, _attacked(one, budget, seed)) for one in chosen for budget in eps]
    total, done = len(perturbations) * -(-len(images) // batch_size), 0

    def step() -> None:
        nonlocal done
        done += 1
        tell(done / total)

    with victim(model, images, labels) as under_attack:
        if classes and len(classes) != under_attack.classes:
            raise ConfigError(f"the model tells {under_attack.classes} classes apart, but {len(classes)} are named.")
        found = [_measured(under_attack, *one, examples, batch_size, step) for one in perturbations]
    names = list(classes) or [str(k) for k in range(under_attack.classes)]
    return Robustness([one for one, _ in found], len(images), [e for _, some in found for e in some], names)


def _warn_of_short_steps(attacks: Sequence[Attack], budgets: Sequence[float]) -> None:
    for attack in attacks:
        beyond = [budget_text(eps) for eps in budgets if isinstance(attack, Attack) and not attack.reaches(eps)]
        if beyond:
            warnings.warn(
                f"the steps of {attack.name} do not reach {', '.join(beyond)}, so that its figure there is too good. "
                "Take more or longer ones: --steps, --step-size, or PGD(steps=20, step_size=None).",
                AttackWarning,
                stacklevel=3,
            )


def _attacked(attack: Attack, eps: float, seed: int) -> Perturb:
    def perturbed(model: nn.Module, batch: Batch) -> Tensor:
        generator = torch.Generator().manual_seed(derive_seed(*key(Stream.ATTACK, seed, int(batch.rows[0]))))
        return attack.perturb(model, batch.images, batch.labels, eps, generator)

    return perturbed


def _corrupted(name: str, seed: int) -> Perturb:
    change = CORRUPTIONS.get(name)
    return lambda model, batch: change(batch.images, batch.rows, seed)


def _measured(
    under_attack: Victim, name: str, eps: float | None, perturb: Perturb, examples: int, size: int,
    step: Callable[[], None],
) -> tuple[PerturbedAccuracy, list[Example]]:  # fmt: skip
    classes, top5 = under_attack.classes, 0
    confusion = torch.zeros(classes, classes, dtype=torch.int64)
    kept: list[Example] = []
    shown = set(torch.linspace(0, len(under_attack.images) - 1, examples).long().tolist())  # spread over all
    title = name if eps is None else f"{name} {budget_text(eps)}"
    for batch in under_attack.batches(size):
        changed = perturb(under_attack.model, batch)
        with torch.no_grad():
            scores = under_attack.model(changed)
        confusion += confusion_counts(scores.argmax(1).cpu(), batch.labels.cpu(), classes)
        top5 += int((scores.topk(min(5, classes), dim=1).indices == batch.labels[:, None]).any(1).sum())
        kept += [_example(title, batch, changed, scores, k) for k, row in enumerate(batch.rows) if int(row) in shown]
        step()
    counts = confusion.sum(1)
    shares = (confusion.diagonal() / counts.clamp_min(1)).double()[counts > 0]
    accuracy = PerturbedAccuracy(
        name,
        eps,
        top1=(confusion.trace() / counts.sum()).item(),
        top5=top5 / int(counts.sum()) if classes > 5 else None,
        class_mean=shares.mean().item(),
        class_std=shares.std(correction=0).item(),
    )
    return accuracy, kept


def _example(title: str, batch: Batch, changed: Tensor, scores: Tensor, k: int) -> Example:
    change = (changed[k] - batch.images[k]).float()
    largest = change.abs().max().item()
    factor = 0.5 / largest if largest else 1.0
    confidence, predicted = scores[k].float().softmax(0).max(0)
    return Example(
        title,
        row=int(batch.rows[k]),
        image=_bytes(changed[k].float()),
        difference=_bytes(0.5 + factor * change),
        magnified=factor,
        label=int(batch.labels[k]),
        predicted=int(predicted),
        confidence=confidence.item(),
    )


def _bytes(pixels: Tensor) -> Tensor:
    return (255 * pixels).round().clamp(0, 255).to(torch.uint8).cpu()
