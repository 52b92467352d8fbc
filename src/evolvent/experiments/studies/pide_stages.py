"""Stages of a nonlocal block: what one to eight of them do to the features, at random weights and after training."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.analysis import BlockDamping, block_damping
from evolvent.data import Batches, TensorSource
from evolvent.experiments.studies.fitting import answers_of, fit
from evolvent.experiments.studies.multilevel import scaled_digits
from evolvent.networks import create_model
from evolvent.networks.nonlocal_block import NonlocalBlock
from evolvent.operators import NonlocalDiffusion
from evolvent.tasks.accuracy import accuracy
from evolvent.tasks.findings import Curve, Findings, Table, Tell

RANDOM, TRAINED, DIFFUSION = "random block", "block, trained", "diffusion alone"
Found = dict[int, dict[str, list[BlockDamping]]]  # by stages and state, one for each network


class Settings(Config):
    """A Hamiltonian network with one nonlocal block, on scikit-learn's digits."""

    stages: list[int] = Field(default=[1, 2, 3, 4, 6, 8], min_length=2)
    channels: int = Field(default=16, ge=2, multiple_of=2)
    blocks: int = Field(default=3, ge=1)
    step_size: float = Field(default=0.2, gt=0)
    epochs: int = Field(default=5, ge=1)
    batch: int = Field(default=50, ge=2)
    learning_rate: float = Field(default=0.003, gt=0)
    images: int = Field(default=1000, ge=10, description="training images that are used")
    repeats: int = Field(default=2, ge=1, description="initial networks; figures are medians over them")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    train, test = scaled_digits(settings.images)
    images, labels = test.columns
    found: Found = {}
    right: dict[int, list[float]] = {}
    plan = [(stages, repeat) for stages in settings.stages for repeat in range(settings.repeats)]
    for k, (stages, repeat) in enumerate(plan):
        tell(k / len(plan), f"{stages} stages")
        model = _network(settings, stages, derive_seed(seed, repeat))
        states = found.setdefault(stages, {DIFFUSION: [], RANDOM: [], TRAINED: []})
        states[DIFFUSION].append(block_damping(_diffusion(settings, stages), _features(model, images)[1]))
        states[RANDOM].append(_measure(_awake(model), images))
        _train(model, settings, train, derive_seed(seed, repeat))
        states[TRAINED].append(_measure(model, images))
        right.setdefault(stages, []).append(accuracy(answers_of(model, images), labels))
    scores = {stages: statistics.median(values) for stages, values in right.items()}
    return Findings(
        answer=_answer(found, scores),
        tables=[_table(found, scores)],
        curves=[
            _curve("Variance of the features", "after / before", found, "variance"),
            _curve("Share of high frequencies", "after / before", found, "high_frequency"),
            _curve("Change of the features", "relative to the features before", found, "change"),
            Curve("Test accuracy", "stages", "share of test images",
                  {"median": (list(map(float, scores)), list(scores.values()))}),
        ],
    )  # fmt: skip


def _network(settings: Settings, stages: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return create_model("nonlocal_hamiltonian", in_channels=1, image_size=8, channels=(settings.channels,),
                            blocks=settings.blocks, step_size=settings.step_size, stages=stages)  # fmt: skip


def _train(model: nn.Module, settings: Settings, train: TensorSource, seed: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    batches = Batches(train, settings.batch, seed)
    batches.check_training()
    fit(model, optimizer, batches.at, range(settings.epochs * len(batches)))


def _awake(model: nn.Module) -> nn.Module:
    """A copy whose nonlocal block, which starts as the identity, acts with all of its random weights."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.ones_(module.weight)
    return twin


def _measure(model: nn.Module, images: Tensor) -> BlockDamping:
    return block_damping(*_features(model, images))


def _features(model: nn.Module, images: Tensor) -> tuple[NonlocalBlock, Tensor]:
    """A copy of the nonlocal block that normalises over these images, as in training, and the features it gets."""
    twin = copy.deepcopy(model).train()
    [block] = [module for module in twin.modules() if isinstance(module, NonlocalBlock)]
    given: list[Tensor] = []
    handle = block.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    with torch.no_grad():
        twin(images)
    handle.remove()
    return block, given[0]


def _diffusion(settings: Settings, steps: int) -> Callable[[Tensor], Tensor]:
    """Euler steps of eq. 3.3 with the kernel held: a Gaussian one, whose row sums normalise it."""
    scale = settings.channels**-0.5
    operator = NonlocalDiffusion(settings.channels, "gaussian", scale=scale, embedding="none", normaliser="row_sum")

    def flow(x: Tensor) -> Tensor:
        act, u = operator.at(x), x
        for _ in range(steps):
            u = u + settings.step_size * act(u)
        return u

    return flow


def _median(measures: Sequence[BlockDamping], name: str) -> float:
    return statistics.median(asdict(measure)[name] for measure in measures)


def _curve(title: str, unit: str, found: Found, name: str) -> Curve:
    stages = list(map(float, found))
    lines = {
        state: (stages, [_median(states[state], name) for states in found.values()])
        for state in (DIFFUSION, RANDOM, TRAINED)
    }
    return Curve(title, "stages", unit, lines)


def _table(found: Found, scores: dict[int, float]) -> Table:
    columns = ["stages", "variance, diffusion alone", "variance, random", "variance, trained",
               "high frequencies, random", "high frequencies, trained", "change, trained",
               "test accuracy"]  # fmt: skip
    rows = [
        [str(stages), *(_median(states[state], "variance") for state in (DIFFUSION, RANDOM, TRAINED)),
         *(_median(states[state], "high_frequency") for state in (RANDOM, TRAINED)),
         _median(states[TRAINED], "change"), scores[stages]]
        for stages, states in found.items()
    ]  # fmt: skip
    return Table("Features after the nonlocal block over those before it", columns, rows)


def _answer(found: Found, scores: dict[int, float]) -> str:
    few, many = min(found), max(found)
    alone, trained = ([_median(found[n][state], "variance") for n in (few, many)] for state in (DIFFUSION, TRAINED))
    changes = [100 * _median(found[n][TRAINED], "change") for n in (few, many)]
    return (
        f"From {few} to {many} stages diffusion alone leaves {alone[0]:.2f} to {alone[1]:.2f} of the variance, while a "
        f"trained block, whose maps and normalisation come in between, makes it {trained[0]:.2f} to {trained[1]:.2f} "
        f"times as large; it changes the features by {changes[0]:.0f} to {changes[1]:.0f} %, and accuracy goes from "
        f"{100 * scores[few]:.1f} to {100 * scores[many]:.1f} %."
    )
