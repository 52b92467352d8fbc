"""Discretise then optimise, or optimise then discretise: gradients of the steps against the continuous adjoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from evolvent._core.config import Config
from evolvent._core.randomness import derive_seed
from evolvent._core.state import State, parts
from evolvent.data import PointCloud
from evolvent.dynamics import Antisymmetric, Dynamics, Parabolic, Residual
from evolvent.evolution import Evolution
from evolvent.experiments.studies.fitting import answers_of, fit
from evolvent.gradients import Backprop, ContinuousAdjoint, GradientStrategy
from evolvent.integrators import RK4, Euler, Heun, Integrator
from evolvent.tasks.accuracy import accuracy
from evolvent.tasks.findings import Curve, Findings, Table, Tell

STRATEGIES: dict[str, type[GradientStrategy]] = {
    "discretise, then optimise": Backprop,
    "optimise, then discretise": ContinuousAdjoint,
}


class Settings(Config):
    """Three experiments: convergence of the gradient, a learning task, and dynamics that cannot be reversed."""

    width: int = Field(default=8, ge=2)
    batch: int = Field(default=64, ge=1)
    end_time: float = Field(default=2.0, gt=0)
    steps: list[int] = Field(default=[2, 4, 8, 16, 32, 64], min_length=2)
    training_steps: list[int] = Field(default=[2, 8], min_length=1)
    training_end_time: float = Field(default=8.0, gt=0)
    epochs: int = Field(default=200, ge=2)
    learning_rate: float = Field(default=0.02, gt=0)
    horizons: list[float] = Field(default=[0.5, 1.0, 2.0, 4.0, 8.0], min_length=2)
    steps_per_time: int = Field(default=32, ge=1, description="of the fourth-order method that is reversed")


def run(settings: Settings, seed: int, tell: Tell) -> Findings:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, 0))
        tell(0.0, "gradient error over steps")
        errors = _errors_over_steps(settings)
        tell(0.1, "dynamics that forget")
        lost = _errors_over_time(settings)
        trained = _train_all(settings, seed, lambda share: tell(0.2 + 0.8 * share, "a learning task"))
    worst = max(lost, key=lambda name: _worst(lost[name]["gradient"]))
    return Findings(
        answer=_answer(errors, settings, worst, lost[worst], trained),
        tables=[_order_table(errors, settings), _training_table(trained), _loss_table(lost)],
        curves=[
            Curve("Gradient error of the continuous adjoint", "steps", "relative error",
                  {name: (settings.steps, values) for name, values in errors.items()}, log_x=True, log_y=True),
            Curve("Training loss over cost", "evaluations of F and its derivative", "cross-entropy",
                  {name: (found["cost"], found["loss"]) for name, found in trained.items()}, log_y=True),
            Curve("Way back: error of the reconstructed start", "time T", "relative error",
                  {name: (settings.horizons, found["state"]) for name, found in lost.items()}, log_x=True, log_y=True),
            Curve("Way back: error of the gradient", "time T", "relative error",
                  {name: (settings.horizons, found["gradient"]) for name, found in lost.items()},
                  log_x=True, log_y=True),
        ],
    )  # fmt: skip


def _errors_over_steps(settings: Settings) -> dict[str, list[float]]:
    """Distance of the adjoint's gradient from that of the same steps, for smooth dynamics; in float64."""
    f, u0 = _tanh(settings.width).double(), torch.randn(settings.batch, settings.width).double()
    methods: list[Integrator[Any]] = [Euler(), Heun(), RK4()]
    return {
        type(method).__name__: [gradient_error(f, method, u0, n, settings.end_time) for n in settings.steps]
        for method in methods
    }


def _tanh(width: int) -> Dynamics:
    return Residual(width, convolutions=1, operator="dense", norm=None, bias=True, activation="tanh")


def gradient_error(f: Dynamics, method: Integrator[Any], u0: Tensor, steps: int, end_time: float) -> float:
    """Relative distance of the continuous adjoint's gradient from backpropagation's, over all parameters."""
    exact, found = (_gradient(f, method, u0, steps, end_time, strategy()) for strategy in STRATEGIES.values())
    return ((found - exact).norm() / exact.norm()).item()


def _gradient(
    f: Dynamics, method: Integrator[Any], u0: Tensor, steps: int, end_time: float, strategy: GradientStrategy
) -> Tensor:
    evolution = Evolution(f, method, steps=steps, step_size=end_time / steps, gradient=strategy)
    end = evolution(u0)
    assert isinstance(end, Tensor)
    return torch.cat([g.flatten() for g in torch.autograd.grad(end.square().mean(), list(f.parameters()))])


def _errors_over_time(settings: Settings) -> dict[str, dict[str, list[float]]]:
    """Error of state and gradient after going back from T, for dynamics that turn and for dynamics that forget."""
    width, u0 = settings.width, torch.randn(settings.batch, settings.width).double()
    kinds: dict[str, Dynamics] = {
        "antisymmetric, tanh": Antisymmetric(width, operator="dense", bias=True),
        "dissipative, tanh": Parabolic(width, operator="dense", activation="tanh"),
        "dissipative, ReLU": Parabolic(width, operator="dense", activation="relu"),
    }
    found: dict[str, dict[str, list[float]]] = {}
    for name, f in kinds.items():
        f = f.double()
        steps = [max(1, round(settings.steps_per_time * time)) for time in settings.horizons]
        found[name] = {
            "state": [_reconstruction_error(f, u0, n, t) for n, t in zip(steps, settings.horizons, strict=True)],
            "gradient": [gradient_error(f, RK4(), u0, n, t) for n, t in zip(steps, settings.horizons, strict=True)],
        }
    return found


@torch.no_grad()
def _reconstruction_error(f: Dynamics, u0: Tensor, steps: int, end_time: float) -> float:
    """How far the start is missed when the equation is solved to the end and back."""
    u: State = u0
    h = end_time / steps
    for j in range(steps):
        u = RK4().step(f, j * h, u, h)
    for j in reversed(range(steps)):
        u = RK4().step(f, (j + 1) * h, u, -h)
    return ((parts(u)[0] - u0).norm() / u0.norm()).item()


def _train_all(settings: Settings, seed: int, tell: Callable[[float], None]) -> dict[str, dict[str, list[float]]]:
    """The same network on two spirals by both gradients, with few steps and with more."""
    sets = [PointCloud(turns=1.0).draw(derive_seed(seed, 1 + k)) for k in range(2)]
    runs = [(n, name) for n in settings.training_steps for name in STRATEGIES]
    found = {}
    for k, (n, name) in enumerate(runs):
        torch.manual_seed(derive_seed(seed, 3))
        model = _classifier(settings, n, STRATEGIES[name]())
        found[f"{n} steps, {name}"] = _train(model, settings, sets, lambda share, k=k: tell((k + share) / len(runs)))
    return found


def _classifier(settings: Settings, steps: int, strategy: GradientStrategy) -> nn.Sequential:
    """One right-hand side for all times, so that the number of steps changes the method alone."""
    h = settings.training_end_time / steps
    flow = Evolution(_tanh(settings.width), Euler(), steps=steps, step_size=h, gradient=strategy)
    return nn.Sequential(nn.Linear(2, settings.width), flow, nn.Linear(settings.width, 2))


def _train(
    model: nn.Sequential, settings: Settings, sets: list[tuple[Tensor, Tensor]], tell: Callable[[float], None]
) -> dict[str, list[float]]:
    train, (x, y) = sets
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    with _counting(model) as work:
        history = fit(
            model, optimizer, lambda step: train, range(settings.epochs), tell=tell,
            measure=lambda step, loss: {"cost": work[0], "loss": loss},
        )  # fmt: skip
    return history | {"accuracy": [accuracy(answers_of(model, x), y)]}


@contextmanager
def _counting(model: nn.Sequential) -> Iterator[list[int]]:
    """Counts evaluations of the right-hand side: one for a value, and two more for its derivative."""
    work = [0]
    flow = model[1]
    assert isinstance(flow, Evolution)

    def count(module: nn.Module, inputs: Any, output: Tensor) -> None:
        work[0] += 3 if output.requires_grad else 1

    handle = flow.dynamics_at(0).register_forward_hook(count)
    try:
        yield work
    finally:
        handle.remove()


def slope_of_errors(steps: list[int], errors: list[float]) -> float:
    """The slope between the two finest numbers of steps."""
    return math.log(errors[-2] / errors[-1]) / math.log(steps[-1] / steps[-2])


def _order_table(errors: dict[str, list[float]], settings: Settings) -> Table:
    columns = ["method", *(f"{n} steps" for n in settings.steps), "observed order", "order of the method"]
    orders = {"Euler": Euler.order, "Heun": Heun.order, "RK4": RK4.order}
    rows = [[name, *values, slope_of_errors(settings.steps, values), orders[name]] for name, values in errors.items()]
    return Table("Gradient error of the continuous adjoint against exact backpropagation", columns, rows)


def _training_table(trained: dict[str, dict[str, list[float]]]) -> Table:
    rows = [[name, found["loss"][-1], found["accuracy"][0], found["cost"][-1]] for name, found in trained.items()]
    return Table("A learning task: two spirals, Euler", ["run", "loss", "test accuracy", "evaluations"], rows)


def _loss_table(lost: dict[str, dict[str, list[float]]]) -> Table:
    rows = [[name, found["state"][-1], found["gradient"][-1]] for name, found in lost.items()]
    return Table("Back from the longest time", ["dynamics", "error of the start", "error of the gradient"], rows)


def _worst(errors: list[float]) -> float:
    return max((e if math.isfinite(e) else math.inf for e in errors), default=0.0)


def _answer(
    errors: dict[str, list[float]], settings: Settings, worst: str, lost: dict[str, list[float]], trained: Any
) -> str:
    few = settings.training_steps[0]
    exact, adjoint = (found for name, found in trained.items() if name.startswith(f"{few} "))
    euler = [100 * error for error in errors["Euler"]]
    return (
        f"With Euler the continuous adjoint misses the gradient by {euler[0]:.0f} % at {settings.steps[0]} steps and "
        f"by {euler[-1]:.1f} % at {settings.steps[-1]}; trained with {few} steps it gets "
        f"{100 * adjoint['accuracy'][0]:.1f} % of the test points right at "
        f"{adjoint['cost'][-1] / exact['cost'][-1]:.2g} times the cost of exact gradients, which get "
        f"{100 * exact['accuracy'][0]:.1f} %; back from T = {settings.horizons[-1]:g} in {worst} dynamics its gradient "
        f"has a relative error of {lost['gradient'][-1]:.0e}."
    )
