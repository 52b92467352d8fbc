"""Training speed of ``evolvent run`` against a bare PyTorch loop: same network, data, batches and augmentation.

Two networks on images, and a full-batch task whose network has so many layers that a bare step takes about two
milliseconds. Variants run interleaved in one
process; the ratio is that of the medians over rounds. Results are stored as ``results/engine.json``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from results import store
from torch import nn
from torch.nn import functional as F

from evolvent import create_model, data
from evolvent.experiments import Recipe, keep_freed_memory, load_recipe, run_grid
from evolvent.tasks import TASKS

ROUNDS = 9
STEP_SECONDS = 0.002
IMAGES = {
    "hamiltonian, 56,858 parameters, batch 50": "{name: hamiltonian, options: {channels: [16, 32, 64], blocks: 2}}",
    "resnet, 57,070 parameters, batch 50": "{name: resnet, options: {channels: [9, 18, 37], blocks: 2}}",
}
FULL_BATCH = "point_resnet on 300 points, full batch"


def engine_rate(recipe: Recipe) -> float:
    """Rows per second as the run itself reports them."""
    with tempfile.TemporaryDirectory() as folder:
        [result] = run_grid(recipe, Path(folder) / "run").values()
    assert result.rows_per_second
    return result.rows_per_second


def bare_image_rate(recipe: Recipe) -> float:
    """The loop one would write by hand: no checks, no metrics beyond the running loss and accuracy, no checkpoints."""
    [cell] = recipe.cells()
    images, labels = (found := data.load("mnist5k").train).images, found.labels
    mean = data.per_pixel_mean(images)
    channels, height, width = found.shape
    fitting = {"image_size": (height, width)} if cell.model.name == "hamiltonian" else {}
    torch.manual_seed(0)
    model = create_model(cell.model.name, in_channels=channels, num_classes=10, **fitting, **cell.model.options)
    optimizer = _sgd(model, cell.optimizer.lr, cell.optimizer.momentum, cell.optimizer.weight_decay)
    size, pad, running, hits = 50, 2, 0.0, 0
    start, steps = time.perf_counter(), 0
    for epoch in range(cell.training.epochs or 0):
        for index in torch.randperm(len(images))[: len(images) // size * size].split(size):
            x = images[index].float() / 255 - mean
            x = data.random_crop(x, pad, index, 0, epoch)
            logits, y = model(x), labels[index]
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), cell.training.clip_norm or 1.0)
            optimizer.step()
            running += loss.item()
            hits += int((logits.argmax(1) == y).sum())
            steps += 1
    return steps * size / (time.perf_counter() - start)


def _sgd(model: nn.Module, lr: float, momentum: float, weight_decay: float) -> torch.optim.Optimizer:
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": weight_decay}, {"params": others}]
    return torch.optim.SGD([g for g in groups if g["params"]], lr=lr, momentum=momentum)


def bare_point_rate(recipe: Recipe) -> float:
    """All points in every step, by Adam at a constant rate."""
    [cell] = recipe.cells()
    material = TASKS.get("points").material(None, cell.data, seed=0)
    x, y = material.train.take(torch.arange(len(material.train)), 0, 0)
    torch.manual_seed(0)
    model = create_model(cell.model.name, **material.options, **cell.model.options)
    optimizer = torch.optim.Adam(model.parameters(), lr=cell.optimizer.lr)
    running, hits = 0.0, 0
    start = time.perf_counter()
    for _ in range(cell.training.steps or 0):
        answers = model(x)
        loss = F.cross_entropy(answers, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
        hits += int((answers.argmax(1) == y).sum())
    return (cell.training.steps or 0) * len(x) / (time.perf_counter() - start)


def full_batch(layers: int) -> Recipe:
    settings = ["variants={}", "seeds=[0]", "data.points=150", "schedule.name=constant", "training.epoch_steps=100"]
    return load_recipe("spirals", [*settings, f"model.options.layers={layers}", "training.steps=1500"])


def compare(name: str, recipe: Recipe, bare: Callable[[Recipe], float]) -> dict[str, object]:
    rates: dict[str, list[float]] = {"engine": [], "bare": []}
    for _ in range(ROUNDS):
        rates["bare"].append(bare(recipe))
        rates["engine"].append(engine_rate(recipe))
    medians = {key: statistics.median(values) for key, values in rates.items()}
    ratio = medians["engine"] / medians["bare"]
    print(f"{name}: evolvent {medians['engine']:,.0f} rows/s, bare {medians['bare']:,.0f} rows/s, ratio {ratio:.3f}")
    return {"rows_per_second": medians, "ratio": ratio, "all": rates}


def main() -> None:
    keep_freed_memory()  # as evolvent run does; it serves both loops here
    rows = {}
    for name, model in IMAGES.items():
        recipe = load_recipe("demo", ["variants={}", f"model={model}", "seeds=[0]", "training.epochs=2"])
        rows[name] = compare(name, recipe, bare_image_rate)
    layers = round(5 * STEP_SECONDS * bare_point_rate(full_batch(5)) / 300)
    rows[FULL_BATCH] = compare(FULL_BATCH, full_batch(layers), bare_point_rate)
    step = 300 / rows[FULL_BATCH]["rows_per_second"]["bare"]  # pyright: ignore
    print(f"with {layers} layers a bare full-batch step takes {1000 * step:.2f} ms")
    asked = "images: ratio at least 0.97; full batch with steps of 2 ms: at least 0.8"
    store("engine", {"asked": asked, "rounds": ROUNDS, "bare_full_batch_step_seconds": step, "cases": rows})


if __name__ == "__main__":
    main()
