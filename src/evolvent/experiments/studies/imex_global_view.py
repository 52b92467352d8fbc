"""A question that needs a view of the whole image: implicit-explicit against explicit steps of the same equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent.analysis import FieldOfView, measure_field_of_view
from evolvent.dynamics import ReactionDiffusion
from evolvent.evolution import Evolution
from evolvent.experiments.studies.fitting import History, answers_of, fit
from evolvent.integrators import Euler, ImexEuler, Integrator
from evolvent.networks import ImageNetwork
from evolvent.tasks.accuracy import accuracy
from evolvent.tasks.findings import Curve, Findings, Table, Tell

METHODS: dict[str, type[Integrator[Any]]] = {"implicit-explicit": ImexEuler, "explicit": Euler}
KNOB = 3  # pixels along each side of a rod's knob


class Settings(Config):
    """The images, the network, and its training."""

    size: int = Field(default=32, ge=16, description="pixels along each side")
    shortest: int = Field(default=24, ge=8, description="shortest rod; the longest leaves a margin of two pixels")
    noise: float = Field(default=0.1, ge=0)
    images: int = Field(default=1000, ge=2, description="for training; 300 more for testing")
    channels: int = Field(default=12, ge=1)
    blocks: int = Field(default=3, ge=1)
    step_size: float = Field(default=3.0, gt=0)
    iterations: int = Field(default=400, ge=1)
    batch: int = Field(default=32, ge=2)
    learning_rate: float = Field(default=0.01, gt=0)

    @property
    def reach(self) -> int:
        """How far an explicit network sees: one pixel by the first convolution, two by each step."""
        return 1 + 2 * self.blocks

    @model_validator(mode="after")
    def _has_far_pixels(self) -> Settings:
        if self.shortest - 2 * (KNOB + self.reach) < 1 or self.shortest > self.size - 3:
            raise ValueError(f"rods must be longer than {2 * (KNOB + self.reach)} and shorter than size - 2")
        return self


class Rods(NamedTuple):
    """Images, the class of each pixel, and which pixels lie too far from both ends for an explicit network."""

    images: Tensor  # (N, 1, size, size)
    classes: Tensor  # (N, size, size): 0 is background, 1 + k a rod with k knobs
    far: Tensor  # (N, size, size)


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    train, test = (make_rods(settings, n, derive_seed(seed, k)) for k, n in enumerate((settings.images, 300)))
    far, loss, views, rows = {}, {}, {}, []
    for k, (name, method) in enumerate(METHODS.items()):
        model = _network(settings, method(), derive_seed(seed, 2))
        history = _train(model, settings, train, test, seed, lambda share, k=k, name=name: tell((k + share) / 2, name))
        far[name], loss[name] = (history["step"], history["far"]), (history["step"], history["loss"])
        layer, whole = _views(model, test)
        views[name] = _profile(layer)
        rows.append([name, sum(p.numel() for p in model.parameters()), *_accuracies(model, test),
                     f"{layer.support} of {layer.map.numel()}", layer.radius, whole.radius])  # fmt: skip
    columns = ["steps", "parameters", "accuracy: all rod pixels", "accuracy: far pixels", "pixels one layer sees",
               "radius of one layer", "radius of the network"]  # fmt: skip
    return Findings(
        answer=_answer(rows, settings),
        tables=[Table("After training; radii in pixels", columns, rows)],
        curves=[
            Curve("Pixels far from both ends", "training step", "accuracy on test images", far),
            Curve("Training loss", "training step", "weighted cross-entropy", loss, log_y=True),
            Curve("Field of view of one layer", "distance in pixels", "weight, the largest is one", views, log_y=True),
        ],
    )


def make_rods(settings: Settings, count: int, seed: int) -> Rods:
    """Noisy images of one rod each, level or upright, with a knob at none, one or both of its ends."""
    generator, size = torch.Generator().manual_seed(seed), settings.size
    classes = torch.zeros(count, size, size, dtype=torch.long)
    far = torch.zeros(count, size, size, dtype=torch.bool)

    def draw(low: int, high: int) -> int:
        return int(torch.randint(low, high, (1,), generator=generator))

    for k in range(count):
        length, row, knobs = draw(settings.shortest, size - 2), draw(2, size - 2), draw(0, 3)
        start, upright = draw(1, size - length), draw(0, 2)
        end, first = start + length, draw(0, 2)
        rod, middle = (classes[k].T, far[k].T) if upright else (classes[k], far[k])
        rod[row, start:end] = 1 + knobs
        for place in (start, end - KNOB)[first if knobs == 1 else 0 :][:knobs]:
            rod[row - 1 : row + 2, place : place + KNOB] = 1 + knobs
        blind = KNOB + settings.reach
        middle[row, start + blind : end - blind] = True
    images = (classes > 0).float().unsqueeze(1)
    return Rods(images + settings.noise * torch.randn(images.shape, generator=generator), classes, far)


def _network(settings: Settings, method: Integrator[Any], seed: int) -> ImageNetwork:
    """The same equation and the same parameters for both methods; the answer at a pixel is read off its features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        blocks = [ReactionDiffusion(settings.channels, norm="batch", bias=True) for _ in range(settings.blocks)]
        flow = Evolution(blocks, method, step_size=settings.step_size)
        stem, head = nn.Conv2d(1, settings.channels, 3, padding=1), nn.Conv2d(settings.channels, 4, 1)
        return ImageNetwork(stem, [flow], head, in_channels=1)


def _train(
    model: ImageNetwork, settings: Settings, train: Rods, test: Rods, seed: int, tell: Callable[[float], None]
) -> History:
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.iterations)
    generator = torch.Generator().manual_seed(derive_seed(seed, 3))
    weights = torch.tensor([0.05, 1.0, 1.0, 1.0])  # most pixels are background

    def drawn(step: int) -> tuple[Tensor, Tensor]:
        batch = torch.randint(len(train.images), (settings.batch,), generator=generator)
        return train.images[batch], train.classes[batch]

    return fit(
        model, optimizer, drawn, range(settings.iterations), schedule=schedule, tell=tell,
        loss=lambda answers, classes: F.cross_entropy(answers, classes, weight=weights),
        measure=lambda step, loss: {"step": step, "loss": loss, "far": _accuracies(model, test)[1]},
        every=max(1, settings.iterations // 10),
    )  # fmt: skip


def _accuracies(model: ImageNetwork, test: Rods) -> tuple[float, float]:
    """Share of right answers on all pixels of rods, and on those far from both ends."""
    answers = answers_of(model, test.images)
    return accuracy(answers, test.classes, test.classes > 0), accuracy(answers, test.classes, test.far)


def _views(model: ImageNetwork, test: Rods) -> tuple[FieldOfView, FieldOfView]:
    """What a pixel in the middle sees through the first layer alone, and through the whole network."""
    flow = model.eval().body[0]
    assert isinstance(flow, Evolution)
    features = model.stem(test.images[:8]).detach()

    def first_layer(u: Tensor) -> Tensor:
        after = flow.step(0, u)
        assert isinstance(after, Tensor)
        return after

    return measure_field_of_view(first_layer, features), measure_field_of_view(model.forward_features, test.images[:8])


def _profile(view: FieldOfView) -> tuple[list[float], list[float]]:
    """The weights along the row to the right of the pixel."""
    weights = view.map[view.pixel[0], view.pixel[1] :]
    return list(map(float, range(len(weights)))), weights.tolist()


def _answer(rows: list[list[Any]], settings: Settings) -> str:
    (_, parameters, _, implicit, seen, *_), (_, _, _, explicit, explicitly, *_) = rows
    return (
        f"With {settings.blocks} layers and {parameters:,} parameters, implicit-explicit steps classify "
        f"{100 * implicit:.1f} % of the pixels that lie far from both ends of a rod, explicit steps "
        f"{100 * explicit:.1f} % (guessing gives 33.3 %): through one implicit layer a pixel sees {seen} pixels, "
        f"through an explicit one {explicitly}."
    )
