"""Few-shot tasks per second: training by algebra against a loop that trains a module for each task.

Tasks of 5 classes, 1 or 5 labelled points and 15 queries of each, 512 features, 100 epochs of SGD with momentum, decay
and two drops of the learning rate, ten diffusion steps for 1-shot and five for 5-shot: the published setting. One
thread. The peer is the loop that the published code has, written anew: graph, module, optimiser and schedule for every
task, diffusion of all features.

Variants run interleaved in one process; the ratio is a median over rounds of ratios in the same round. In float64 the
answers of both are compared. Results are stored as ``results/fewshot.json``; ``--smoke`` runs tiny tasks and stores
nothing.
"""

from __future__ import annotations

import copy
import statistics
import sys
import time

import torch
from results import store
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import create_model
from evolvent.networks import FewShotNetwork
from evolvent.tasks.fewshot import Descent, EpisodeObjective, train_episodes, train_plainly

WAY, QUERY, DIM, EPOCHS = 5, 15, 512, 100
STEPS = {1: 10, 5: 5}  # diffusion steps for each number of shots
RATE, MOMENTUM, DECAY, GAMMA, N_TOP, SIGMA = 0.1, 0.9, 1e-4, 0.5, 8, 4
ROUNDS, TASKS, LOOPED = 9, 40, 2  # tasks by algebra and by the loop in each round
ASKED = "at least 7 times as many tasks per second, aim 12"


class Published(nn.Module):
    """The module that is trained for each task."""

    def __init__(self, dim: int, steps: int, laplacian: Tensor) -> None:
        super().__init__()
        self.fc1, self.fc2, self.classifier = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, WAY)
        self.steps, self.laplacian = steps, laplacian

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc2(F.relu(self.fc1(x))) + x
        for _ in range(self.steps):
            x = x - GAMMA * torch.matmul(self.laplacian, x)
        return self.classifier(x)


def graph(x: Tensor) -> Tensor:
    """The Laplacian of all pairs, as it is written down."""
    distance = torch.norm(x[None] - x[:, None], dim=-1)
    far, scale = (torch.kthvalue(distance, k, dim=1, keepdim=True)[0] for k in (N_TOP, SIGMA))
    weight = torch.exp(-((distance.masked_fill(distance >= far, float("inf")) / scale) ** 2))
    root = torch.diag(weight.sum(1) ** -0.5)
    weight = root @ weight @ root
    weight = (weight + weight.T) / 2
    return torch.diag(weight.sum(1)) - weight


def loop(x: Tensor, labels: Tensor, steps: int, epochs: int) -> Tensor:
    """One task after the other."""
    found = []
    for points, known in zip(x, labels, strict=True):
        model = Published(points.shape[1], steps, graph(points))
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [epochs // 2, epochs * 3 // 4], gamma=0.1)
        for _ in range(epochs):
            loss = F.cross_entropy(model(points)[: len(known)], known)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            found.append(model(points).argmax(1)[len(known) :])
    return torch.stack(found)


def algebra(network: FewShotNetwork, x: Tensor, labels: Tensor, epochs: int) -> Tensor:
    answers = train_episodes(network, x, EpisodeObjective(labels), descent(epochs))
    return answers[:, labels.shape[1] :].argmax(-1)


def descent(epochs: int) -> Descent:
    rates = [RATE * 0.1 ** ((t >= epochs // 2) + (t >= epochs * 3 // 4)) for t in range(epochs)]
    return Descent(rates, MOMENTUM, DECAY)


def tasks(count: int, shot: int, query: int, dim: int) -> tuple[Tensor, Tensor]:
    """Normalised points around a centre for each class, the support first."""
    draw = torch.Generator().manual_seed(shot)
    labels = torch.cat([torch.arange(WAY).repeat_interleave(n) for n in (shot, query)])
    centres, noise = (torch.randn(count, n, dim, generator=draw) for n in (WAY, len(labels)))
    return F.normalize(centres[:, labels] + noise, dim=-1), labels[: WAY * shot].expand(count, -1).contiguous()


def make_network(shot: int, dim: int) -> FewShotNetwork:
    options = {"in_features": dim, "n_top": N_TOP, "sigma_neighbour": SIGMA, "gamma": GAMMA, "reading": "code"}
    network = create_model("diff_resnet_fewshot", diffusion_steps=STEPS[shot], **options)
    assert isinstance(network, FewShotNetwork)
    return network


def difference(shot: int, query: int, dim: int, epochs: int) -> float:
    """Of the answers by algebra from those of plain training, in float64, relative to the largest answer."""
    network = make_network(shot, dim).double()
    x, labels = tasks(1, shot, query, dim)
    objective = EpisodeObjective(labels)
    together = train_episodes(network, x.double(), objective, descent(epochs))
    alone = train_plainly(copy.deepcopy(network), x.double(), objective, descent(epochs))
    return ((together - alone).abs().max() / alone.abs().max()).item()


def measure(shot: int, query: int, dim: int, epochs: int, rounds: int, count: int, looped: int) -> dict[str, float]:
    x, labels = tasks(count, shot, query, dim)
    network = make_network(shot, dim)
    forms = {
        "algebra": (count, lambda: algebra(network, x, labels, epochs)),
        "loop": (looped, lambda: loop(x[:looped], labels[:looped], STEPS[shot], epochs)),
    }
    seconds: dict[str, list[float]] = {form: [] for form in forms}
    for k in range(-1, rounds):
        for form, (size, run) in forms.items() if k % 2 else reversed(forms.items()):
            begin = time.perf_counter()
            run()
            if k >= 0:  # the first round warms up
                seconds[form].append((time.perf_counter() - begin) / size)
    ratios = [a / b for a, b in zip(seconds["loop"], seconds["algebra"], strict=True)]
    return {
        "seconds_per_task": statistics.median(seconds["algebra"]),
        "seconds_per_task_in_a_loop": statistics.median(seconds["loop"]),
        "times_faster": statistics.median(ratios),
        "lowest_ratio": min(ratios),
        "highest_ratio": max(ratios),
        "relative_difference_float64": difference(shot, query, dim, epochs),
    }


def main(query: int, dim: int, epochs: int, rounds: int, count: int, looped: int) -> dict[str, dict[str, float]]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = {}
    for shot in STEPS:
        cases[f"{shot}-shot"] = row = measure(shot, query, dim, epochs, rounds, count, looped)
        print(
            f"{shot}-shot: {1e3 * row['seconds_per_task']:7.1f} ms per task by algebra, "
            f"{1e3 * row['seconds_per_task_in_a_loop']:7.1f} ms in a loop: {row['times_faster']:5.1f} x faster "
            f"({row['lowest_ratio']:.1f} to {row['highest_ratio']:.1f}), float64 difference "
            f"{row['relative_difference_float64']:.1e}",
            flush=True,
        )
    return cases


if __name__ == "__main__":
    if sys.argv[1:] == ["--smoke"]:
        main(3, 16, 10, 1, 4, 1)
    else:
        setting = {"way": WAY, "query": QUERY, "dim": DIM, "epochs": EPOCHS}
        measured = main(QUERY, DIM, EPOCHS, ROUNDS, TASKS, LOOPED)
        store("fewshot", {"asked": ASKED, **setting, "cases": measured}, ("evolvent", "torch"))
