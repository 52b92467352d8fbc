"""Few-shot learning: thousands of small classification tasks, each trained on a handful of labelled features."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.errors import ConfigError
from evolvent.data import Batches, EpisodeBatch, Episodes, FeatureSet, Material, read_features
from evolvent.networks import FewShotNetwork
from evolvent.networks.diff_resnet_fewshot import Reading
from evolvent.tasks.class_ranges import ClassRange
from evolvent.tasks.fewshot.algebra import train_plainly
from evolvent.tasks.fewshot.backbone import remembered_features
from evolvent.tasks.fewshot.descent import Descent
from evolvent.tasks.fewshot.methods import Classifier, Method
from evolvent.tasks.fewshot.prototypes import centre_and_normalise, shift_query
from evolvent.tasks.findings import Animation, Curve, Figure, Findings, Table
from evolvent.tasks.schedules import learning_rate_factor
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings, register_task
from evolvent.tasks.turns import Plan, Turn

_NORMAL_95 = 1.96


class FewShotSettings(TaskSettings):
    """How the query of each episode is classified."""

    name: str = "fewshot"
    method: Method = Field(default="internal", description="which of the five methods")
    epochs: int = Field(default=100, ge=1, description="epochs of training in each episode, by optimizer and schedule")
    centre: bool = Field(default=False, description="subtract the mean of the base classes and normalise")
    shift: bool = Field(default=False, description="move the mean of the query to that of the support")
    rectify: bool = Field(default=False, description="rectify prototypes by the query")
    prototype_weight: float = Field(default=0.0, ge=0, description="alpha of the prototypical loss")
    lam: float = Field(default=0.5, ge=0, description="lambda of label propagation")
    neighbours: int = Field(default=3, ge=1, description="neighbours of a point in label propagation")
    mu: float = Field(default=0.01, ge=0, description="weight of the external diffusion term")
    reading: Reading = Field(default="paper", description="which reading, where the paper and its code differ")
    picture: bool = Field(default=False, description="show the features of one episode before and after diffusion")


class FewShotData(DataSettings):
    """Where features come from, and what episodes are like."""

    batch_size: int | None = Field(default=40, ge=1, description="episodes at a time")
    features: str = Field(
        description="npz file of features, or run folder of a classifier of images; perhaps in the data folder"
    )
    classes: ClassRange | None = Field(
        default=None, description="classes of a run folder's data set; those that the run never used if null"
    )
    episodes: int = Field(default=1000, ge=2)
    way: int = Field(default=5, ge=2)
    shot: int = Field(default=1, ge=1)
    query: int = Field(default=15, ge=1, description="query points of each class, on average")
    dirichlet: float | None = Field(
        default=None, gt=0, description="parameter of the distribution of class sizes in the query; equal sizes if null"
    )

    @property
    def rows_evaluated(self) -> int | None:
        return self.eval_batch_size or self.batch_size


@register_task("fewshot")
class FewShot(Task):
    """Classifies the query of many episodes; each is trained by itself, from the same initial weights.

    The engine trains nothing: it goes through the episodes once. Figures follow from how many episodes had how many
    right answers.
    """

    Settings, Data = FewShotSettings, FewShotData
    figures = (
        Figure("accuracy", "accuracy", "share", better="higher"),
        Figure("half_width", "half width of the 95 % interval", "share", better=None),
    )
    model: FewShotNetwork

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        settings = setup.settings
        episodes = material.train
        assert isinstance(episodes, Episodes)
        self.queries = episodes.way * episodes.query
        self.base_mean: Tensor | None
        self.register_buffer("base_mean", getattr(episodes, "base_mean", None), persistent=False)
        if settings.centre and self.base_mean is None:
            raise ConfigError(
                "task.centre needs the mean of the base classes, but the file of features has no base_mean."
            )
        self.classifier = Classifier(
            settings.method, settings.lam, settings.neighbours, settings.mu, settings.rectify,
            settings.prototype_weight, settings.reading,
        )  # fmt: skip
        self.classifier.check_network(self.model)
        self.descent = _descent(setup)

    @classmethod
    def read(cls, data: FewShotData, folder: Path | None) -> FeatureSet:
        path = Path(data.features)
        if folder is not None and not path.exists() and (folder / path).exists():
            path = folder / path
        if path.is_dir():
            return remembered_features(path, data.classes, folder)
        if data.classes:
            raise ConfigError("data.classes choose those of a run folder's data set; a file of features has its own.")
        return read_features(path)

    @classmethod
    def material(cls, found: FeatureSet, data: FewShotData, seed: int) -> Material:
        episodes = FeatureEpisodes(found, data)
        options = {"num_classes": data.way, "in_features": found.features.shape[1]}
        origin = f"{len(found.features):,} feature vectors of {len(found.sizes)} classes"
        name = Path(data.features).name
        return Material(name, episodes, episodes, episodes, origin=origin, options=options, rows="tasks")

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if "sigma_neighbour" not in options:
            raise ConfigError(
                f"{name!r} is not a network for few-shot tasks. Use diff_resnet_fewshot or resnet_fewshot."
            )

    def turns(self, plan: Plan) -> list[Turn]:
        """None: every episode is a training of its own."""
        return []

    def objective(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        raise NotImplementedError("episodes are trained when they are measured")

    def measure(self, batch: EpisodeBatch) -> Sums:
        """How many episodes had 0, 1, ... right answers."""
        said = self.classifier.classify(self.prepared(batch), self.model, self.descent)
        hits = (said == batch.labels[:, batch.support :]).sum(1)
        return {"hits": torch.bincount(hits, minlength=self.queries + 1)}

    def prepared(self, batch: EpisodeBatch) -> EpisodeBatch:
        """The episodes with their features transformed as the settings say."""
        x = batch.points
        if self.setup.settings.centre:
            assert self.base_mean is not None
            x = centre_and_normalise(x, self.base_mean.to(x))
        if self.setup.settings.shift:
            x = shift_query(x, batch.support)
        return batch._replace(points=x)

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        counts = sums["hits"].double()
        share = torch.linspace(0, 1, len(counts), dtype=torch.float64, device=counts.device)
        count = counts.sum().clamp_min(1)
        mean = (counts @ share) / count
        variance = (counts @ (share - mean).square()) / (count - 1).clamp_min(1)
        return {"accuracy": mean.item(), "half_width": _NORMAL_95 * math.sqrt(variance.item() / count.item())}

    def conclude(self, test: Batches) -> Findings:
        totals = self.totals if self.totals is not None else self.add_up(test)
        figures = self.figures_of(totals)
        findings = Findings(
            figures=figures, tables=[self._summary(figures, totals)], curves=[self._spread(totals["hits"])]
        )
        if self.setup.settings.picture and self.model.diffuses:
            findings.animations.append(self._picture(test))
        return findings

    def _summary(self, figures: Mapping[str, float], totals: Sums) -> Table:
        data = self.setup.data
        kind = "equal classes" if data.dirichlet is None else f"classes from Dir({data.dirichlet:g})"
        row = [
            f"{data.way}-way {data.shot}-shot, {kind}",
            figures["accuracy"],
            figures["half_width"],
            int(totals["hits"].sum()),
        ]
        columns = ["tasks", "accuracy", "half width of the 95 % interval", "number of tasks"]
        return Table("Accuracy", columns, [row], ["number", "share", "share", "count"])

    def _spread(self, counts: Tensor) -> Curve:
        """The share of episodes whose accuracy is at least so high."""
        counts = counts.cpu().double()
        at_least = counts.flip(0).cumsum(0).flip(0) / counts.sum().clamp_min(1)
        share = torch.linspace(0, 1, len(counts)).tolist()
        line = {"tasks": (share, at_least.tolist())}
        return Curve(
            "Share of tasks by accuracy", "accuracy", "share of tasks with at least this accuracy", line,
            x_unit="share", y_unit="share",
        )  # fmt: skip

    def _picture(self, test: Batches) -> Animation:
        """The points of the first episode, after it was trained, before and after diffusion."""
        episode = self.prepared(self.placed(test.source.take(torch.tensor([0]), test.seed, 0)))
        network = copy.deepcopy(self.model)
        train_plainly(network, episode.points, self.classifier.objective(episode, network), self.descent)
        with torch.no_grad():
            x = episode.points
            before, after = network.convect(x)[0], network.forward_features(x)[0]
        frames = tsne_pair(before.cpu(), after.cpu(), test.seed)
        labels = episode.labels[0].cpu().numpy()
        return Animation(
            "Features of one task before and after diffusion (t-SNE)",
            frames.numpy(), labels,
            captions=["before diffusion", "after diffusion"], marked=np.arange(len(labels)) < episode.support,
        )  # fmt: skip


class FeatureEpisodes(Episodes):
    """Episodes of feature vectors, with the mean of the base classes."""

    def __init__(self, found: FeatureSet, data: FewShotData) -> None:
        super().__init__(
            found.features, found.labels, data.episodes,
            way=data.way, shot=data.shot, query=data.query, alpha=data.dirichlet,
        )  # fmt: skip
        self.base_mean = found.base_mean


def tsne_pair(before: Tensor, after: Tensor, seed: int) -> Tensor:
    """Two pictures of the same points in the plane, the second begun from the first.

    Shape: (N, d) twice to (2, N, 2).
    """
    from sklearn.manifold import TSNE

    perplexity = min(15.0, (len(before) - 1) / 3)
    first = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(before.numpy())
    start = first / first[:, 0].std() * 1e-4
    second = TSNE(perplexity=perplexity, init=start, random_state=seed).fit_transform(after.numpy())
    return torch.stack([torch.from_numpy(picture).float() for picture in (first, second)])


def _descent(setup: Setup) -> Descent:
    optimizer, epochs = setup.optimizer, setup.settings.epochs
    if optimizer.name != "sgd" or optimizer.nesterov:
        raise ConfigError(
            "few-shot tasks are trained by SGD with plain momentum. Set optimizer.name: sgd, no nesterov."
        )
    rates = [optimizer.lr * learning_rate_factor(setup.schedule, epoch, epochs) for epoch in range(epochs)]
    return Descent(rates, optimizer.momentum, optimizer.weight_decay)
