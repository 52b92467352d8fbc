"""Multilevel training: few layers first, then twice as many, against all layers from the start at equal cost."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.data import Batches, TensorSource, load
from evolvent.experiments.studies.fitting import History, answers_of, fit
from evolvent.networks import create_model, refine
from evolvent.tasks.accuracy import accuracy
from evolvent.tasks.findings import Curve, Findings, Table, Tell
from evolvent.tasks.multilevel import carry_state


class Settings(Config):
    """A Hamiltonian network on scikit-learn's digits, whose steps double from level to level."""

    coarsest: int = Field(default=2, ge=1, description="steps on the first level")
    epochs: list[int] = Field(default=[8, 4, 4], min_length=2, description="on each level")
    end_time: float = Field(default=1.6, gt=0)
    channels: int = Field(default=16, ge=2, multiple_of=2)
    batch: int = Field(default=50, ge=1)
    learning_rate: float = Field(default=0.003, gt=0)
    images: int = Field(default=1000, ge=10, description="training images that are used")
    repeats: int = Field(default=3, ge=1, description="initial networks; figures are medians over them")
    interpolation: Literal["constant", "linear"] = "constant"


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    train, test = scaled_digits(settings.images)
    plans = _plans(settings)
    found: dict[str, list[History]] = {name: [] for name in plans}
    total = settings.repeats * len(plans)
    for k in range(total):
        name, repeat = list(plans)[k % len(plans)], k // len(plans)
        history = _train(settings, plans[name], train, test, derive_seed(seed, repeat),
                         lambda share, k=k, name=name: tell((k + share) / total, name))  # fmt: skip
        found[name].append(history)
    median = {name: _median(histories) for name, histories in found.items()}
    return Findings(
        answer=_answer(median),
        tables=[_table(median, plans)],
        curves=[
            Curve("Training loss over work", "work units", "cross-entropy",
                  {name: (h["work"], h["loss"]) for name, h in median.items()}, log_y=True),
            Curve("Test accuracy over work", "work units", "share of test images",
                  {name: (h["work"], h["accuracy"]) for name, h in median.items()}),
        ],
    )  # fmt: skip


def scaled_digits(count: int) -> tuple[TensorSource, TensorSource]:
    """The first training images of scikit-learn's digits and all test images, in [0, 1]."""
    digits = load("digits")
    return (
        TensorSource(digits.train.tensor[:count].float() / 255, digits.train.labels[:count]),
        TensorSource(digits.test.tensor.float() / 255, digits.test.labels),
    )


def _plans(settings: Settings) -> dict[str, list[tuple[int, int]]]:
    """Steps and epochs of each level, for multilevel and direct training of the same cost."""
    levels = [(settings.coarsest * 2**k, epochs) for k, epochs in enumerate(settings.epochs)]
    finest = levels[-1][0]
    equal = max(1, round(sum(steps * epochs for steps, epochs in levels) / finest))
    arrows = " → ".join(str(steps) for steps, _ in levels)
    return {f"multilevel {arrows}": levels, f"direct {finest}": [(finest, equal)]}


def _train(
    settings: Settings,
    plan: list[tuple[int, int]],
    train: TensorSource,
    test: TensorSource,
    seed: int,
    tell: Callable[[float], None],
) -> History:
    """Adam over all levels; loss and accuracy after each epoch, over the work done so far."""
    finest, done = settings.coarsest * 2 ** (len(settings.epochs) - 1), 0
    total = sum(epochs for _, epochs in plan)
    batches = Batches(train, settings.batch, seed)
    batches.check_training()
    model = _network(settings, plan[0][0], seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    history: History = {name: [value] for name, value in _figures(model, train, test).items()} | {"work": [0.0]}
    for level, (steps, epochs) in enumerate(plan):
        if level:
            finer = refine(model, settings.interpolation)
            renewed = torch.optim.Adam(finer.parameters(), lr=settings.learning_rate)
            carry_state(model, optimizer, finer, renewed, settings.interpolation)
            model, optimizer = finer, renewed
        found = fit(
            model, optimizer, batches.at, range(done * len(batches), (done + epochs) * len(batches)),
            every=len(batches), measure=lambda *_, model=model: _figures(model, train, test),
            tell=lambda share, done=done, epochs=epochs: tell((done + share * epochs) / total),
        )  # fmt: skip
        found["work"] = [history["work"][-1] + (k + 1) * steps / finest for k in range(epochs)]
        history = {name: values + found[name] for name, values in history.items()}
        done += epochs
    return history


def _network(settings: Settings, steps: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return create_model("hamiltonian", in_channels=1, image_size=8, channels=(settings.channels,), blocks=steps,
                            step_size=settings.end_time / steps)  # fmt: skip


def _figures(model: nn.Module, train: TensorSource, test: TensorSource) -> dict[str, float]:
    (images, labels), (seen, classes) = train.columns, test.columns
    loss = F.cross_entropy(answers_of(model, images), labels).item()
    return {"loss": loss, "accuracy": accuracy(answers_of(model, seen), classes)}


def _median(histories: list[History]) -> History:
    return {key: [statistics.median(v) for v in zip(*(h[key] for h in histories), strict=True)] for key in histories[0]}


def work_to_reach(history: History, loss: float) -> float | None:
    """Work after which the training loss is at most ``loss`` for the first time; None if it never is."""
    return next((w for w, value in zip(history["work"], history["loss"], strict=True) if value <= loss), None)


def _table(median: dict[str, History], plans: dict[str, list[tuple[int, int]]]) -> Table:
    target = max(history["loss"][-1] for history in median.values())
    columns = ["training", "epochs", "work units", "training loss", "test accuracy", f"work to a loss of {target:.3g}"]
    rows = [
        [name, " + ".join(str(epochs) for _, epochs in plans[name]), h["work"][-1], h["loss"][-1], h["accuracy"][-1],
         work_to_reach(h, target)]
        for name, h in median.items()
    ]  # fmt: skip
    return Table("At equal cost; a work unit is one epoch of the deepest network", columns, rows)


def _answer(median: dict[str, History]) -> str:
    multilevel, direct = median.values()
    quarter = max(h["loss"][0] for h in median.values()) / 4
    early = [work_to_reach(history, quarter) for history in (multilevel, direct)]
    begin = ["never" if work is None else f"after {work:.2g}" for work in early]
    return (
        f"For {multilevel['work'][-1]:.3g} work units multilevel training ends at a loss of "
        f"{multilevel['loss'][-1]:.2g} with {100 * multilevel['accuracy'][-1]:.1f} % of the test images right, direct "
        f"training at {direct['loss'][-1]:.2g} with {100 * direct['accuracy'][-1]:.1f} %; the former reaches a quarter "
        f"of the first loss {begin[0]}, the latter {begin[1]}."
    )
