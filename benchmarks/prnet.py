"""Training steps and inference of PR-Net against its rivals, batches of 128 digits of 28 x 28 pixels.

A training step is all losses of PR-Net, with derivatives to the third order in both places and the first in time, their
gradient, and a step of Adam. Variants run interleaved in one process with one thread; times are CPU seconds of the
process, ratios are medians over rounds of ratios in the same round. ``--smoke`` runs two rounds and stores nothing.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import torch
from results import interleaved, store
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent import create_model, set_gradient
from evolvent.equations import GoverningEquation, polynomial_terms
from evolvent.experiments.freed_memory import keep_freed_memory
from evolvent.tasks.prnet.losses import derivatives, governing_loss, initial_loss, observed

ASKED = (
    "a step with L_G at most 2.7 x one without, and at most 0.45 x the step of ODE-Net (dopri5); inference at least "
    "5 x faster than that of ODE-Net"
)
BATCH, ROUNDS = 128, 9
Step = Callable[[], Any]


def governing_equation() -> GoverningEquation:
    """All 28 terms, none of which may be left out."""
    equation = GoverningEquation(polynomial_terms(("x", "y"), symbol="h"), symbol="h")
    nn.init.normal_(equation.alpha, std=0.01)
    return equation


def trained(model: nn.Module, objective: Callable[[], Tensor]) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        objective().backward()
        optimizer.step()

    return step


def prnet_objective(model: nn.Module, x: Tensor, y: Tensor, equation: GoverningEquation | None) -> Tensor:
    answers, entered = observed(model, x)
    some = [one.some(len(x)) for one in entered]
    loss = F.cross_entropy(answers, y) + initial_loss(some)
    return loss if equation is None else loss + governing_loss(equation, derivatives(equation, some), fixed=True)


def training_steps(x: Tensor, y: Tensor) -> dict[str, Step]:
    def rival(name: str, gradient: str = "backprop") -> Step:
        model = create_model(name)
        set_gradient(model, gradient)
        return trained(model, lambda: F.cross_entropy(model(x), y))

    plain, whole, equation = create_model("prnet_mnist"), create_model("prnet_mnist"), governing_equation()
    return {
        "PR-Net without L_G": trained(plain, lambda: prnet_objective(plain, x, y, None)),
        "PR-Net": trained(whole, lambda: prnet_objective(whole, x, y, equation)),
        "ODE-Net, adjoint": rival("odenet", "adjoint"),
        "ODE-Net, direct": rival("odenet"),
        "RK-Net": rival("rknet"),
        "ResNet": rival("resnet_mnist"),
    }


def inferences(x: Tensor) -> dict[str, Step]:
    names = {"PR-Net": "prnet_mnist", "ODE-Net": "odenet", "RK-Net": "rknet", "ResNet": "resnet_mnist"}
    models = {title: create_model(name).eval() for title, name in names.items()}
    return {title: torch.no_grad()(lambda model=model: model(x)) for title, model in models.items()}


def measured(steps: dict[str, Step], against: str, rounds: int) -> dict[str, dict[str, float]]:
    """CPU milliseconds of each, and its time over that of ``against``."""
    spent, rows = interleaved(steps, rounds), {}
    for name, seconds in spent.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, spent[against], strict=True))
        rows[name] = {"milliseconds": 1e3 * statistics.median(seconds), f"over {against}": ratio}
        print(f"  {name:20s} {rows[name]['milliseconds']:8.1f} ms  {ratio:6.2f} x {against}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    rounds = 2 if smoke else ROUNDS
    torch.manual_seed(0)
    torch.set_num_threads(1)
    keep_freed_memory()
    x, y = torch.randn(BATCH, 1, 28, 28), torch.randint(0, 10, (BATCH,))
    print("training step")
    training = measured(training_steps(x, y), "PR-Net without L_G", rounds)
    print("inference")
    inference = measured(inferences(x), "PR-Net", rounds)
    if not smoke:
        store("prnet", {"asked": ASKED, "batch": BATCH, "rounds": rounds, "training": training, "inference": inference})


if __name__ == "__main__":
    main()
