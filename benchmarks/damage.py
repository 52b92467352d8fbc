"""Four hundred damaged files of run folders: each is refused in one line that names it, or what was written is read.

Files of a training and of a study are cut, flipped in one bit, overwritten, emptied, or replaced by text, lists, deep
brackets, YAML tags and pickles, drawn from a stored seed. Results are stored as ``results/damage.json``.
"""

from __future__ import annotations

import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from results import store

import evolvent as ev
from evolvent.data import Preprocess
from evolvent.errors import EvolventError
from evolvent.experiments import load_recipe
from evolvent.experiments.checkpoints import read_checkpoint_file
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.experiments.record import read_recipe, read_record, write_config
from evolvent.experiments.studies.run_folder import SeedResult, read_study, write_seed
from evolvent.report.analyses import analysis_path, read_analyses, write_analysis
from evolvent.report.runs import list_series, read_run
from evolvent.tasks.findings import Curve, Findings

COUNT, SEED = 400, 20261118
SETTINGS = ["data.name=digits", "data.fraction=0.1", "training.epochs=2", "seeds=[0]", "variants={}",
            "model.name=hamiltonian", "model.options={channels: [4], blocks: 1}"]  # fmt: skip


def record(folder: Path) -> object:
    found = read_record(folder)
    return found, found.findings and found.findings.pack()


def weights(folder: Path) -> object:
    model = ev.load(folder / "model")
    return model.spec, {name: tensor.tolist() for name, tensor in model.state_dict().items()}


READERS: dict[str, Callable[[Path], object]] = {
    "checkpoints/last.ckpt": lambda folder: read_checkpoint_file(folder / "checkpoints/last.ckpt"),
    "config.yaml": record,
    "recipe.yaml": read_recipe,
    "result.json": record,
    "metrics.csv": record,
    "environment.json": record,
    "findings.json": record,
    "findings.npz": record,
    "analysis/features.json": lambda folder: read_analyses(list_series([read_run(folder)])[0], "features"),
    "model/config.yaml": weights,
    "model/model.safetensors": weights,
    "model/preprocess.safetensors": lambda folder: Preprocess.load(folder / "model").mean.tolist(),
    "model/predictor.json": lambda folder: ev.load_predictor(folder).form,
    "study/recipe.yaml": lambda folder: read_study(folder / "study"),
    "study/seeds/0/seconds.json": lambda folder: read_study(folder / "study"),
    "study/seeds/0/findings.json": lambda folder: [one.findings.pack() for one in read_study(folder / "study")],
}
DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda content, draw: content[: draw.randrange(len(content))],
    "cut short": lambda content, draw: content[: -draw.randrange(1, 8)],
    "flipped bit": lambda content, draw: flipped(content, draw),
    "zeros": lambda content, draw: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
    "empty": lambda content, draw: b"",
    "not UTF-8": lambda content, draw: content[:20] + b"\xff\xfe\xfa" + content[20:],
    "other text": lambda content, draw: b"nothing of the kind\n",
    "list": lambda content, draw: b"[1, 2, 3]\n",
    "deep brackets": lambda content, draw: b"[" * 100_000,
    "YAML tag": lambda content, draw: b"a: !!python/object/apply:os.system [true]\n" + content,
    "pickle": lambda content, draw: pickle.dumps({"format": 1, "state": [1.0]}),
}


def flipped(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :]


def make(folder: Path) -> None:
    """A finished training with an analysis, and a study below it."""
    recipe = load_recipe("demo", SETTINGS)
    assert isinstance(recipe, Recipe)
    run_grid(recipe, folder)
    write_analysis(analysis_path(folder, "features"), "features", {"silhouette_map": 0.25})
    write_config(folder / "study/recipe.yaml", load_recipe("multilevel"))
    found = Findings({"error": 0.5}, curves=[Curve("Error", "x", "y", {"a": ([1.0], [2.0])})], arrays={"a": np.ones(3)})
    write_seed(folder / "study", SeedResult(0, 1.5, found))


def outcome(folder: Path, name: str, written: str) -> tuple[str, str]:
    try:
        found = repr(READERS[name](folder))
    except EvolventError as error:
        said = str(error)
        named = Path(name).name in said and len(said) < 300 and "\n" not in said
        return ("refused" if named else "badly refused"), said
    except Exception as error:
        return "traceback", f"{type(error).__name__}: {error}"
    return ("harmless" if found == written else "silently loaded"), ""


def main() -> None:
    torch.set_num_threads(1)
    draw, rows, faults = random.Random(SEED), dict[str, Counter[str]](), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        make(folder)
        written = {name: repr(read(folder)) for name, read in READERS.items()}
        for number in range(COUNT):
            name = list(READERS)[number % len(READERS)]
            damage = draw.choice(["cut", "cut", "flipped bit", "flipped bit", *DAMAGES])
            whole = (folder / name).read_bytes()
            (folder / name).write_bytes(DAMAGES[damage](whole, draw))
            what, said = outcome(folder, name, written[name])
            (folder / name).write_bytes(whole)
            rows.setdefault(damage, Counter())[what] += 1
            if what not in ("refused", "harmless"):
                faults.append(f"{name}, {damage}: {what}: {said}")
    for damage, found in rows.items():
        print(f"{damage}: {dict(found)}")
    print("\n".join(faults))
    asked = "no traceback, none loads as something else than was written"
    store("damage", {"asked": asked, "seed": SEED, "files": {damage: dict(found) for damage, found in rows.items()}})
    if faults:
        sys.exit(f"{len(faults)} faults")


if __name__ == "__main__":
    main()
