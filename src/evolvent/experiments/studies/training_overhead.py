"""What a training step costs in memory and time, for PR-Net with all its losses and for its rivals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.analysis import count_parameters
from evolvent.analysis.cost import KeptBytes
from evolvent.equations import GoverningEquation, polynomial_terms
from evolvent.evolution import set_gradient
from evolvent.networks import COORDINATES, create_model, solution_blocks
from evolvent.tasks.findings import Findings, Table, Tell
from evolvent.tasks.prnet.losses import derivatives, governing_loss, initial_loss, observed


class Rival(NamedTuple):
    """A network of a table, how it is trained, and what is printed of it."""

    title: str
    model: str
    options: dict[str, Any]
    gradient: str
    printed_megabytes: float
    printed_seconds: float


class Overhead(NamedTuple):
    """What one training step of a network costs."""

    parameters: int
    kept_bytes: int  # between the forward and the backward pass
    seconds: float


def measure_overhead(rival: Rival, images: Tensor, labels: Tensor, repeats: int) -> Overhead:
    """Memory and time of a step: objective, gradient and SGD; the shortest of some attempts after one to warm up."""
    model = create_model(rival.model, in_channels=images.shape[1], **rival.options).train()
    set_gradient(model, rival.gradient)
    objective = _objective(model, images, labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with KeptBytes(model) as kept:
        loss = objective()
        total = kept.total
    del loss  # what was kept for it lives as long as it does
    seconds = []
    for _ in range(1 + repeats):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        objective().backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
    return Overhead(count_parameters(model), total, min(seconds[1:]))


def _objective(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    """Cross entropy; with solution blocks also the losses of initial condition and equation, with all 28 terms."""
    if not solution_blocks(model):
        return lambda: F.cross_entropy(model(images), labels)
    equation = GoverningEquation(polynomial_terms(COORDINATES[:2], symbol="h"), symbol="h")
    nn.init.normal_(equation.alpha, std=0.01)

    def objective() -> Tensor:
        answers, entered = observed(model, images)
        some = [one.some(len(images)) for one in entered]
        governing = governing_loss(equation, derivatives(equation, some), fixed=True)
        return F.cross_entropy(answers, labels) + initial_loss(some) + governing

    return objective


def compare_overheads(
    setting: str, rivals: Sequence[Rival], images: Tensor, labels: Tensor, repeats: int, tell: Tell
) -> tuple[Table, dict[str, Overhead]]:
    """Measure all networks of a table on the same images; measured figures beside printed ones."""
    found: dict[str, Overhead] = {}
    for k, rival in enumerate(rivals):
        tell(k / len(rivals), f"{setting}, {rival.title}")
        found[rival.title] = measure_overhead(rival, images, labels, repeats)
    columns = ["network", "parameters", "kept activations", "time of a step", "printed memory (MB)", "printed time (s)"]
    rows = [
        [rival.title, cost.parameters, cost.kept_bytes, cost.seconds, rival.printed_megabytes, rival.printed_seconds]
        for rival, cost in zip(rivals, found.values(), strict=True)
    ]
    units = ["number", "count", "bytes", "seconds", "number", "number"]
    return Table(f"{setting}, batches of {len(images)}", columns, rows, units), found  # pyright: ignore[reportArgumentType]


def joined(tables: Sequence[Table], answers: Sequence[str]) -> Findings:
    """The findings of a study of several settings."""
    note = (
        "Printed figures are of a GPU and of the whole process; measured ones of this machine, kept activations alone."
    )
    return Findings(answer=f"{' '.join(answers)} {note}", tables=list(tables))
