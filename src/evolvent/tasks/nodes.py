"""Classes of the nodes of a graph, a few of which are known: several networks at a time, each stopped at its best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ConfigError
from evolvent.data import Batches, GraphData, Material, Source, load_graph
from evolvent.graphs import SparseMatrix
from evolvent.networks import GraphNetwork, OnGraph, save
from evolvent.networks.building import part_of
from evolvent.tasks.accuracy import confusion_counts
from evolvent.tasks.findings import Figure, Findings, Matrix, Table
from evolvent.tasks.task import DataSettings, Setup, Sums, Task, TaskSettings, evaluating, register_task, trainable


class NodesSettings(TaskSettings):
    """By what each initialisation's best weights are chosen, and when the training ends."""

    name: str = "nodes"
    choose_by: Literal["accuracy", "loss"] = Field(
        default="accuracy",
        description="figure on the validation nodes; of equal accuracies the one of lower loss counts",
    )
    patience: int | None = Field(
        default=None, ge=1, description="end the training after this many epochs in which no initialisation improved"
    )


class NodesData(DataSettings):
    """Which graph, and how its nodes are divided; random splits are drawn anew for each seed."""

    name: str = "cora"
    split: Literal["random", "public"] = Field(
        default="random", description="equally many nodes of each class (random), or the published split (public)"
    )
    train_per_class: int = Field(default=20, ge=1, description="training nodes of each class in random splits")
    validation_per_class: int = Field(default=30, ge=1, description="validation nodes of each class in random splits")
    component: Literal["largest", "whole"] | None = Field(
        default=None,
        description="the largest connected component or the whole graph; by default the former for random splits",
    )
    normalise_rows: bool = Field(default=True, description="divide the features of each node by their sum")


class NodeSource(Source):
    """One row, the whole graph, with the nodes that are looked at."""

    shareable = False

    def __init__(self, data: GraphData, nodes: Tensor) -> None:
        self.batch = {"x": data.features, "graph": data.graph, "nodes": nodes, "labels": data.labels[nodes]}

    def __len__(self) -> int:
        return 1

    def take(self, rows: Tensor, seed: int, epoch: int) -> dict[str, Any]:
        return self.batch


@register_task("nodes")
class Nodes(Task):
    """Classification of nodes by cross-entropy, of all training nodes at once.

    A network of several initialisations is as many trainings: the objective is the sum of theirs, each keeps the
    weights of its own best epoch, and the figures are means over them.
    """

    Settings = NodesSettings
    Data = NodesData
    chooses_best = True
    figures = (
        Figure("accuracy", "accuracy", "share", better="higher"),
        Figure("loss", "loss"),
        Figure("deviation", "deviation over initialisations", "share", better=None, shown=False),
    )
    epoch: Tensor
    best_epoch: Tensor
    best_hits: Tensor
    best_loss: Tensor

    def __init__(self, model: nn.Module, material: Material, setup: Setup) -> None:
        super().__init__(model, material, setup)
        self.validation = material.watched
        self.count = getattr(model, "initialisations", 1)
        self.register_buffer("epoch", torch.zeros((), dtype=torch.int64))
        self.register_buffer("best_epoch", torch.zeros(self.count, dtype=torch.int64))
        self.register_buffer("best_hits", torch.full((self.count,), -1, dtype=torch.int64))
        self.register_buffer("best_loss", torch.full((self.count,), torch.inf, dtype=torch.float64))
        for name, parameter in self._parameters_by_name().items():
            self.register_buffer(name, parameter.detach().clone())

    @classmethod
    def read(cls, data: NodesData, folder: Path | None) -> GraphData:
        found = load_graph(data.name, folder)
        found = found.row_normalised() if data.normalise_rows else found
        if data.split == "public" and data.component == "largest":
            raise ConfigError("the published split is one of the whole graph. Leave data.component out.")
        whole = data.component == "whole" or data.split == "public"
        return found if whole else found.largest_component()

    @classmethod
    def material(cls, found: GraphData, data: NodesData, seed: int) -> Material:
        sizes = {"train": data.train_per_class, "validation": data.validation_per_class}
        split = found.random_split(seed, **sizes) if data.split == "random" else found.public_split()
        parts = (NodeSource(found, nodes) for nodes in (split.train, split.validation, split.test))
        options = {"num_classes": len(found.classes), "in_features": found.features.width}
        return Material(found.name, *parts, origin=found.source, options=options, rows="graphs")

    @classmethod
    def check_model(cls, name: str, options: Sequence[str]) -> None:
        if not {"in_features", "initialisations"} <= set(options):
            raise ConfigError(
                f"{name!r} does not take graphs: it has no options in_features and initialisations. Use "
                "diff_resnet_graph or gcn."
            )

    def objective(self, batch: Any, turn: str) -> tuple[Tensor, Sums]:
        answers = self._answers(batch)
        losses = _losses(answers, batch["labels"])
        return losses.sum() / len(answers), self._sums(answers, losses, batch["labels"])

    def measure(self, batch: Any) -> Sums:
        answers = self._answers(batch)
        return self._sums(answers, _losses(answers, batch["labels"]), batch["labels"])

    def figures_of(self, sums: Mapping[str, Tensor]) -> dict[str, float]:
        """Means over the initialisations, and the standard deviation of the accuracy over them."""
        shares = sums["hits"].double() / sums["count"]
        found = {"accuracy": shares.mean().item(), "loss": (sums["loss"] / sums["count"]).mean().item()}
        return found | {"deviation": shares.std().item() if len(shares) > 1 else 0.0}

    def epoch_ends(self, watched: Mapping[str, Tensor]) -> bool:
        """Each initialisation keeps its weights if they are its best so far."""
        self.epoch += 1
        hits, loss = watched["hits"], watched["loss"].double()
        better = loss < self.best_loss
        if self.setup.settings.choose_by == "accuracy":
            better = (hits > self.best_hits) | ((hits == self.best_hits) & better)
        self.best_hits.copy_(torch.where(better, hits, self.best_hits))
        self.best_loss.copy_(torch.where(better, loss, self.best_loss))
        self.best_epoch.copy_(torch.where(better, self.epoch, self.best_epoch))
        for name, parameter in self._parameters_by_name().items():
            now, kept = (part_of(p.detach(), self.count) for p in (parameter, self.get_buffer(name)))
            for k in better.nonzero().flatten().tolist():
                kept[..., k, :] = now[..., k, :]
        patience = self.setup.settings.patience
        return patience is not None and int(self.epoch - self.best_epoch.max()) >= patience

    def save_kept(self, folder: Path) -> None:
        """Save the network with each initialisation's best weights."""
        parameters = self._parameters_by_name()
        present = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.get_buffer(name))
            save(self.model, folder)
            for name, parameter in parameters.items():
                parameter.copy_(present[name])

    def for_export(self, material: Material) -> tuple[nn.Module, Tensor]:
        """The network on this graph, which takes the features of all nodes."""
        batch = self.placed(material.test.take(torch.zeros(1, dtype=torch.int64), 0, 0))
        x = batch["x"].dense() if isinstance(batch["x"], SparseMatrix) else batch["x"]
        assert isinstance(self.model, GraphNetwork)
        return OnGraph(self.model, batch["graph"]), x

    def conclude(self, test: Batches) -> Findings:
        """Figures of the best weights, those of each initialisation, and which classes were mistaken for which."""
        batch = self.placed(next(iter(test.once())))
        watched = self.placed(self.validation.take(torch.zeros(1, dtype=torch.int64), test.seed, 0))
        with evaluating(self):
            found = [self.measure(part) for part in (watched, batch)]
            predicted = self._answers(batch).argmax(dim=-1)
        shares, losses = ([(sums[name] / sums["count"]).tolist() for sums in found] for name in ("hits", "loss"))
        rows = [list(row) for row in zip(range(self.count), *shares, losses[1], strict=True)]
        columns = ["initialisation", "validation accuracy", "test accuracy", "test loss"]
        classes = self.classes
        counts = confusion_counts(predicted, batch["labels"][:, None].expand_as(predicted), classes)
        return Findings(
            figures=self.figures_of(found[1]),
            tables=[Table("Initialisations", columns, rows, ["count", "share", "share", "number"])],
            matrices=[Matrix("Test nodes", list(map(str, range(classes))), counts.cpu().numpy(), counted="nodes")],
            samples={"accuracy": shares[1], "loss": losses[1]},
        )

    @property
    def classes(self) -> int:
        assert isinstance(self.model, GraphNetwork)
        return self.model.num_classes

    def _answers(self, batch: Any) -> Tensor:
        """Of the batch's nodes, (nodes, initialisations, classes)."""
        answers = self.model(batch["x"], batch["graph"]).index_select(0, batch["nodes"])
        return answers if answers.ndim == 3 else answers[:, None]

    def _sums(self, answers: Tensor, losses: Tensor, labels: Tensor) -> Sums:
        hits = (answers.detach().argmax(dim=-1) == labels[:, None]).sum(dim=0)
        return {"loss": losses.detach(), "hits": hits, "count": labels.new_tensor(len(labels))}

    def _parameters_by_name(self) -> dict[str, nn.Parameter]:
        """The trained parameters, by the names of the buffers that keep their best values."""
        return {f"best_weights_{k}": parameter for k, parameter in enumerate(trainable(self.model))}


def _losses(answers: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each initialisation, added up over nodes: (nodes, initialisations, classes) to one axis."""
    every = F.cross_entropy(answers.transpose(1, 2), labels[:, None].expand(answers.shape[:2]), reduction="none")
    return every.sum(dim=0)
