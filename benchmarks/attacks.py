"""Strength and speed of the attacks against adversarial-robustness-toolbox, on a small network and real digits.

The network is trained here for two epochs on 4,000 digits of mnist5k. Accuracies are those that an attack leaves on 100
test digits, of which both sides get the same; times are the fastest of some rounds, interleaved. Results are stored as
``results/attacks.json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from art.attacks.evasion import (
    AutoProjectedGradientDescent,
    FastGradientMethod,
    ProjectedGradientDescent,
    SquareAttack,
)
from art.estimators.classification import PyTorchClassifier
from results import PACKAGES, store
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import data
from evolvent.analysis.robustness import APGD, FAB, FGSM, PGD, Attack, Auto, Square

ROUNDS, IMAGES, EPS, QUERIES = 3, 100, 0.1, 300


def trained_network(images: Tensor, labels: Tensor) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()]
    network = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 49, 10))
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(2):
        for rows in torch.randperm(len(images)).split(50):
            optimizer.zero_grad()
            F.cross_entropy(network(images[rows] / 255), labels[rows]).backward()
            optimizer.step()
    return network.eval()


def ours(attack: Attack, network: nn.Module, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    return lambda: attack.perturb(network, x, y, EPS, torch.Generator().manual_seed(0))


def theirs(attack: Callable[[], object], x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def generate() -> Tensor:
        np.random.seed(0)  # noqa: NPY002, the peer draws from NumPy's global generator
        return torch.from_numpy(attack().generate(x.numpy().copy(), y.numpy()))  # pyright: ignore

    return generate


def main() -> None:
    torch.set_num_threads(1)
    digits = data.load("mnist5k")
    network = trained_network(digits.train.images, digits.train.labels)
    rows = torch.linspace(0, len(digits.test.labels) - 1, IMAGES).long()
    x, y = digits.test.images[rows] / 255, digits.test.labels[rows]
    peer = PyTorchClassifier(network, nn.CrossEntropyLoss(), (1, 28, 28), 10, clip_values=(0, 1), device_type="cpu")
    quiet = {"batch_size": IMAGES, "verbose": False}
    pgd = {"eps": EPS, "eps_step": 2.5 * EPS / 20, "max_iter": 20, **quiet}
    apgd = {"eps": EPS, "eps_step": 2 * EPS, "max_iter": 100, "nb_random_init": 1, **quiet}
    square = {"eps": EPS, "max_iter": QUERIES, "nb_restarts": 1, **quiet}
    variants = {
        "FGSM, ours": ours(FGSM(), network, x, y),
        "FGSM, ART": theirs(lambda: FastGradientMethod(peer, eps=EPS, batch_size=IMAGES), x, y),
        "PGD 20 steps, ours": ours(PGD(20, None), network, x, y),
        "PGD 20 steps, ART": theirs(lambda: ProjectedGradientDescent(peer, **pgd), x, y),
        "APGD cross-entropy, ours": ours(APGD(), network, x, y),
        "APGD cross-entropy, ART": theirs(
            lambda: AutoProjectedGradientDescent(peer, loss_type="cross_entropy", **apgd), x, y
        ),
        f"Square {QUERIES} queries, ours": ours(Square(QUERIES), network, x, y),
        f"Square {QUERIES} queries, ART": theirs(lambda: SquareAttack(peer, **square), x, y),
        "APGD targeted, ours": ours(APGD("targeted"), network, x, y),
        "FAB targeted, ours": ours(FAB(), network, x, y),
        f"Auto with {QUERIES} queries, ours": ours(Auto(queries=QUERIES), network, x, y),
    }
    with torch.no_grad():
        clean = (network(x).argmax(1) == y).double().mean().item()
    found = {"clean": {"accuracy": clean}}
    for round_ in range(ROUNDS):
        for name, attack in variants.items():
            if round_ and ("targeted" in name or "Auto" in name):
                continue  # they have no peer to be timed against
            start = time.perf_counter()
            changed = attack()
            seconds = time.perf_counter() - start
            with torch.no_grad():
                left = (network(changed).argmax(1) == y).double().mean().item()
            farthest = (changed - x).abs().max().item()
            before = found.get(name, {"seconds": seconds})["seconds"]
            found[name] = {"accuracy": left, "seconds": round(min(before, seconds), 3), "largest change": farthest}
    for name, one in found.items():
        print(f"{name:32} {100 * one['accuracy']:5.1f} %  {one.get('seconds', 0):8.3f} s")
    measured = {"eps": EPS, "images": IMAGES, "variants": found}
    store("attacks", measured, (*PACKAGES, "adversarial-robustness-toolbox"))


if __name__ == "__main__":
    main()
