"""Recipes, settings and calls that make no sense, drawn from a stored seed.

A thousand recipes with ``--set`` options are read and, where they can be, trained for two steps; a thousand calls of
the Python interface are made with values of the wrong kind (estimators keep to scikit-learn's own errors). Each must
succeed or raise one of ``evolvent.errors``: one line of less than 300 characters within 20 seconds. Results are stored
as ``results/fuzz.json``.

    python benchmarks/fuzz.py [COUNT] [SEED ...]
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml

import evolvent as ev
from evolvent._core.memory import is_out_of_memory
from evolvent.data import TensorSource, load, random_crop, split
from evolvent.dynamics import Antisymmetric, Hamiltonian, Parabolic, Residual
from evolvent.errors import EvolventError
from evolvent.experiments import load_recipe
from evolvent.experiments.grid import run_grid
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import Recipe
from evolvent.gradients import make_strategy
from evolvent.integrators import RK4, Euler, Leapfrog, Verlet
from evolvent.networks import model_entry
from evolvent.operators import Convolution, make_operator

SEED = 20261118
SEEDS = (SEED, 7, 424242)
LONGEST = 20.0  # seconds
MEMORY = 8 << 30  # bytes that the process may take, so that what asks for more fails at once

NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 2, 5, 7, 10**9, 10**20, -(10**9), 0.5, -0.5, 1e308, -1e308, 1e-308, float("nan"),
    float("inf"), "", "x", "None", "5", "../..", "a/b", "[bold", "[/]", "]", "5m", "1e400", "é☃", "x" * 2000,
    "\t", [], [None], [0], [-1], [1, 2], [[[]]], ["a", "b"], {}, {"name": None}, {"name": "resnet"}, {"a": {"b": 1}},
    [1e308], [10**9], [10**20], {"": 1}, {"..": {}}, "2001-01-01", "no", "~",
]  # fmt: skip

POINTS: dict[str, Any] = {
    "title": "Points",
    "question": "?",
    "task": {"name": "points"},
    "model": {"name": "point_resnet", "options": {"width": 4, "layers": 2, "step_size": 0.1}},
    "data": {"kind": "spirals", "points": 20, "batch_size": 10, "validation": 4},
    "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.0},
    "schedule": {"name": "multistep", "milestones": [1], "gamma": 0.1, "warmup": 0},
    "training": {"epochs": 1, "clip_norm": 1.0, "gradient": "backprop", "precision": "32-true"},
    "variants": {"a": {"model": {"options": {"layers": 3}}}, "b": {}},
    "seeds": [0],
}
IMAGES: dict[str, Any] = {
    "title": "Images",
    "question": "?",
    "model": {"name": "hamiltonian", "options": {"channels": [4, 8], "blocks": 1, "step_size": 0.2, "dropout": 0.1}},
    "data": {"name": "digits", "batch_size": 20, "fraction": 0.05, "validation": 0.1, "augment": {"pad": 1}},
    "task": {"smoothness": 0.0001, "label_smoothing": 0.1},
    "optimizer": {"lr": 0.05},
    "schedule": {"name": "cosine", "warmup": 0.5},
    "training": {"steps": 2, "checkpoint_steps": 1, "refine_at": []},
    "seeds": [0],
}  # fmt: skip
SHIPPED = ["demo", "mnist-hamiltonian", "spirals", "multilevel"]


class Enough(BaseException):
    """A training that has begun is trained no further."""


class TooLong(BaseException):
    """The time is over."""


class TwoSteps(Observer):
    interval = 0.0

    def cell_progresses(self, cell: Any, progress: Any) -> None:
        if progress.step >= 2:
            raise Enough


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def paths(values: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Places of all values in nested mappings."""
    found = [above] if above else []
    if isinstance(values, dict):
        for key, value in values.items():
            found += paths(value, (*above, key))
    return found


def mutate(values: dict[str, Any], draw: random.Random) -> None:
    """Change one place: another value, a key that is missing, misspelt or new."""
    *above, key = draw.choice(paths(values))
    inner = values
    for step in above:
        inner = inner[step]
    match draw.randrange(6):
        case 0:
            del inner[key]
        case 1:
            inner[f"{key}{draw.choice('sx_ ')}"] = inner.pop(key)
        case 2:
            inner[str(draw.choice(NASTY))] = copy.deepcopy(draw.choice(NASTY))
        case _:
            inner[key] = copy.deepcopy(draw.choice(NASTY))


def setting(values: dict[str, Any], draw: random.Random) -> str:
    """A ``--set`` option."""
    key = ".".join(map(str, draw.choice(paths(values))))
    if draw.random() < 0.2:
        key = draw.choice(
            ["", ".", "..", "a..b", "from", "data", "variants.x.model.name", "seeds", key + ".", "." + key]
        )
    value = draw.choice(NASTY)
    text = draw.choice(
        [str(value), json.dumps(value), yaml.safe_dump(value).strip(), "[" * 30, "{a: *b}", "!!int x", "&a [*a]"]
    )
    return key if draw.random() < 0.05 else f"{key}={text}"


def recipe_case(draw: random.Random, folder: Path) -> Callable[[], object]:
    """Read a recipe and train two steps of it."""
    if draw.random() < 0.15:
        source, values = draw.choice(SHIPPED), copy.deepcopy(IMAGES)
    else:
        values = copy.deepcopy(draw.choice([POINTS, IMAGES]))
        if draw.random() < 0.2:
            values["model"] = {
                "name": draw.choice([name for name in ev.list_models() if "26" not in name])
            }  # too large
        for _ in range(draw.choice([0, 1, 1, 2])):
            mutate(values, draw)
        text = yaml.safe_dump(values, sort_keys=False)
        if draw.random() < 0.1:
            place = draw.randrange(len(text))
            text = text[:place] + draw.choice([":", "\t", "[", "{", "- ", "&", "*", "!", "\x07", "'"]) + text[place:]
        source = str(folder / "recipe.yaml")
        Path(source).write_text(text)
    settings = [setting(values, draw) for _ in range(draw.choice([0, 0, 1, 2]))]

    def run() -> None:
        recipe = load_recipe(source, settings)
        if isinstance(recipe, Recipe) and source.endswith(".yaml"):
            with contextlib.suppress(Enough):
                run_grid(recipe, folder / "run", observer=TwoSteps())

    run.__doc__ = f"{settings} over\n{Path(source).read_text() if source.endswith('.yaml') else source}"
    return run


def call_case(draw: random.Random, folder: Path) -> Callable[[], object]:
    """One call of the Python interface with values of the wrong kind among its arguments."""
    bad = copy.deepcopy(draw.choice(NASTY))
    shape = draw.choice([(2, 4, 8, 8), (2, 3, 8, 8), (2, 8), (2, 2), (0, 4, 8, 8), (4, 8, 8), (2, 4, 1, 1), ()])
    x = torch.zeros(
        shape, dtype=draw.choice([torch.float32] * 3 + [torch.float64, torch.uint8, torch.int64, torch.bool])
    )
    x = draw.choice([x, x, x, bad])
    name = draw.choice(ev.list_models())
    option = draw.choice(model_entry(name).known_options())
    dynamics = draw.choice(
        [lambda n: Hamiltonian(n), lambda n: Parabolic(n), lambda n: Residual(n), lambda n: Antisymmetric(n)]
    )
    method = draw.choice([Euler(), RK4(), Verlet(), Leapfrog()])
    small = draw.choice(["hamiltonian", "resnet", "parabolic", "point_resnet", "point_hamiltonian"])
    sizes = (
        {"layers": 1, "width": 4} if small.startswith("point") else {"channels": (4,), "blocks": 1, "in_channels": 4}
    )
    calls: dict[str, Callable[[], object]] = {
        "create_model(name, option)": lambda: ev.create_model(name, **{option: bad}),
        "create_model(bad)": lambda: ev.create_model(bad),
        "network(x)": lambda: ev.create_model(small, **sizes)(x),
        "dynamics(bad)": lambda: dynamics(bad),
        "Evolution(x)": lambda: ev.Evolution([dynamics(4)], method, step_size=0.1)(x),
        "Evolution.trajectory(x)": lambda: ev.Evolution([dynamics(4)], method, step_size=0.1).trajectory(x),
        "Evolution(step_size)": lambda: ev.Evolution([dynamics(4)], method, step_size=bad),
        "Evolution(steps)": lambda: ev.Evolution(dynamics(4), method, steps=bad),
        "Evolution(bad, bad)": lambda: ev.Evolution(bad, draw.choice([method, bad])),
        "Evolution(gradient)": lambda: ev.Evolution([dynamics(4)], method, gradient=bad),
        "make_strategy": lambda: make_strategy(bad),
        "Convolution": lambda: Convolution(*draw.choice([(bad, 3), (3, bad), (3, 3, bad)])),
        "Convolution(x)": lambda: Convolution(4, 4)(x),
        "make_operator": lambda: make_operator(draw.choice(["full", "lean", "multigrid", bad]), bad, 4),
        "load": lambda: ev.load(bad),
        "save": lambda: ev.save(ev.create_model(small, **sizes), draw.choice([folder / "model", bad])),
        "save(bad)": lambda: ev.save(bad, folder / "model"),
        "list_models": lambda: ev.list_models(bad),
        "set_gradient": lambda: ev.set_gradient(draw.choice([ev.create_model(small, **sizes), bad]), bad),
        "refine": lambda: ev.refine(draw.choice([ev.create_model(small, **sizes), bad])),
        "data.load": lambda: load(draw.choice(["digits", bad]), draw.choice([None, bad])),
        "data.split": lambda: split(load("digits").train, bad, 0),
        "random_crop": lambda: random_crop(torch.zeros(2, 1, 8, 8), bad, torch.arange(2), 0, 0),
        "TensorSource": lambda: TensorSource(x, x),
        "load_recipe": lambda: load_recipe(draw.choice(["demo", bad]), draw.choice([[f"{bad}={bad}"], bad])),
        "Recipe.read": lambda: Recipe.read(draw.choice([bad, {**POINTS, "variants": bad}]), "mine"),
    }  # fmt: skip
    called = draw.choice(sorted(calls))
    call = calls[called]
    call.__doc__ = f"{called} with {bad!r:.80}, {option}, {name}, {small}, {type(method).__name__}, x {shape}"
    return call


def outcome(case: Callable[[], object]) -> tuple[str, str]:
    """How a case ended, ``ok``, ``refused`` or a fault, and what there is to say about it."""
    began = time.perf_counter()
    try:
        with limited(LONGEST), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            case()
    except EvolventError as error:
        said = str(error)
        if len(said) >= 300 or "\n" in said or "tensor(" in said:
            return "message", said
        return "refused", said
    except TooLong:
        return "hang", f"{time.perf_counter() - began:.1f} s"
    except Exception as error:
        if is_out_of_memory(error):  # which the command line says in one line
            return "refused", "there is not enough memory"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "evolvent" in frame.filename]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-5:-1])
        return "traceback", f"{type(error).__name__}: {str(error)[:150]} at {where}"
    return "ok", ""


def fuzz(
    make: Callable[[random.Random, Path], Callable[[], object]], count: int, seed: int
) -> tuple[Counter[str], list[str]]:
    """Outcomes of so many cases, and those that are faults."""
    found, faults = Counter[str](), []
    for number in range(count):
        draw = random.Random(f"{seed} {make.__name__} {number}")
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "inner" / "most"  # calls may write to paths such as ../..
            folder.mkdir(parents=True)
            case = make(draw, folder)
            with contextlib.chdir(folder):
                what, said = outcome(case)
        found[what] += 1
        if what not in ("ok", "refused"):
            faults.append(f"{make.__name__} {number}: {what}: {said}\n    {case.__doc__}")
    return found, faults


def main() -> None:
    from results import store

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=1000, help="cases of each kind; 1000 unless given")
    parser.add_argument("seeds", type=int, nargs="*", help="the stored ones unless given")
    given = parser.parse_args()
    count, seeds = given.count, given.seeds
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    rows: dict[int, dict[str, Any]] = {}
    faults: list[str] = []
    for seed in seeds or SEEDS:
        for make in (recipe_case, call_case):
            began = time.perf_counter()
            found, bad = fuzz(make, count, seed)
            case = dict(found) | {"seconds": round(time.perf_counter() - began, 1)}
            rows.setdefault(seed, {})[make.__name__] = case
            faults += [f"seed {seed}, {fault}" for fault in bad]
            print(seed, make.__name__, case, flush=True)
    print("\n".join(faults))
    if count == 1000 and not seeds:
        asked = "no traceback, no hang over 20 s, messages of less than 300 characters"
        store("fuzz", {"asked": asked, "seeds": rows})
    if faults:
        sys.exit(f"{len(faults)} faults")


if __name__ == "__main__":
    main()
