"""Images per second of ``evolvent run`` against a bare PyTorch loop: same network, data, batches and augmentation.

Variants run interleaved in one process; the ratio is that of the medians over rounds. Results are stored as
``results/engine.json``.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import torch
from results import store
from torch.nn import functional as F

from evolvent import create_model, data
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe

ROUNDS = 5
CASES = {
    "hamiltonian, 56,858 parameters, batch 50": "{name: hamiltonian, options: {channels: [16, 32, 64], blocks: 2}}",
    "resnet, 57,070 parameters, batch 50": "{name: resnet, options: {channels: [9, 18, 37], blocks: 2}}",
}


def engine_rate(recipe: Recipe) -> float:
    """Images per second as the run itself reports them."""
    with tempfile.TemporaryDirectory() as folder:
        [result] = run_grid(recipe, Path(folder) / "run").values()
    return result.images_per_second


def bare_rate(recipe: Recipe) -> float:
    """The loop one would write by hand: no checks, no metrics beyond the running loss and accuracy, no checkpoints."""
    [cell] = recipe.cells()
    images, labels = (found := data.load(cell.data.name).train).images, found.labels
    mean = data.per_pixel_mean(images)
    channels, height, width = found.shape
    fitting = {"image_size": (height, width)} if cell.model.name == "hamiltonian" else {}
    torch.manual_seed(0)
    model = create_model(cell.model.name, in_channels=channels, num_classes=10, **fitting, **cell.model.options)
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": cell.optimizer.weight_decay}, {"params": others}]
    optimizer = torch.optim.SGD(
        [g for g in groups if g["params"]], lr=cell.optimizer.lr, momentum=cell.optimizer.momentum
    )
    size, running, hits = cell.data.batch_size, 0.0, 0
    start, steps = time.perf_counter(), 0
    for epoch in range(cell.training.epochs):
        for index in torch.randperm(len(images))[: len(images) // size * size].split(size):
            x = images[index].float() / 255 - mean
            x = data.random_crop(x, cell.data.augment.pad, index, 0, epoch)
            logits, y = model(x), labels[index]
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), cell.training.clip_norm)
            optimizer.step()
            running += loss.item()
            hits += int((logits.argmax(1) == y).sum())
            steps += 1
    return steps * size / (time.perf_counter() - start)


def main() -> None:
    rows = {}
    for name, model in CASES.items():
        recipe = load_recipe("demo", ["variants={}", f"model={model}", "seeds=[0]", "training.epochs=2"])
        rates: dict[str, list[float]] = {"engine": [], "bare": []}
        for _ in range(ROUNDS):
            rates["bare"].append(bare_rate(recipe))
            rates["engine"].append(engine_rate(recipe))
        medians = {key: statistics.median(values) for key, values in rates.items()}
        ratio = medians["engine"] / medians["bare"]
        rows[name] = {"images_per_second": medians, "ratio": ratio, "all": rates}
        print(f"{name}: evolvent {medians['engine']:.0f} img/s, bare {medians['bare']:.0f} img/s, ratio {ratio:.3f}")
    store("engine", {"asked": "ratio at least 0.95", "rounds": ROUNDS, "cases": rows})


if __name__ == "__main__":
    main()
