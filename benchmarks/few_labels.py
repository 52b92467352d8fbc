"""Accuracy with few labels: DiffusionClassifier against scikit-learn's label propagation and Poisson learning.

One, two, three and five labels of each class are drawn at random, twenty times, from scikit-learn's digits, the 10,000
test images of MNIST (raw pixels), and scikit-learn's wine and breast cancer tables with standardised columns. All
methods see the same draws, one draw after the other; accuracy is that on the points without label. DiffusionClassifier
runs with its defaults. LabelSpreading and LabelPropagation run with their default settings for neighbour graphs, and
with ten neighbours and more iterations, spreading with alpha 0.9 and 0.99. Poisson learning is that of
``graphlearning`` on its own graph of ten neighbours, left out if the package is not installed. Two more rows have the
peers' methods on our graph. Times are those of a fit; ours searches neighbours in every fit, the peers have them from
before.

MNIST is read from the folder that EVOLVENT_DATA names. Results are stored as ``results/few_labels.json``.
``--smoke`` runs two draws on the small tables and stores nothing.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from results import store
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

import evolvent as ev
from evolvent import data
from evolvent.estimators import PointGraph

COUNTS = (1, 2, 3, 5)
DRAWS = 20
OURS = "DiffusionClassifier"
ASKED = "at least as good as the best peer on each set and number of labels within one standard error, ahead on most"
Fit = Callable[[np.ndarray, np.ndarray], np.ndarray]


def mnist() -> tuple[np.ndarray, np.ndarray]:
    test = data.load("mnist").test
    return test.images.flatten(1).float().numpy(), test.labels.numpy()


def standardised(load: Callable[..., Any]) -> tuple[np.ndarray, np.ndarray]:
    x, y = load(return_X_y=True)
    return StandardScaler().fit_transform(x), y


SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "digits": lambda: load_digits(return_X_y=True),
    "MNIST test images": mnist,
    "wine": lambda: standardised(load_wine),
    "breast cancer": lambda: standardised(load_breast_cancer),
}
SMOKE = ("wine", "breast cancer")


def estimators(x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Those that are fitted to points and labels, -1 for none; the peers' neighbours are searched once."""
    seven, ten = (connected(x, count) for count in (7, 10))
    return {
        OURS: ev.DiffusionClassifier,
        "LabelSpreading": lambda: LabelSpreading(seven),
        "LabelSpreading, alpha 0.9": lambda: LabelSpreading(ten, alpha=0.9, max_iter=3000),
        "LabelSpreading, alpha 0.99": lambda: LabelSpreading(ten, alpha=0.99, max_iter=3000),
        "LabelPropagation": lambda: LabelPropagation(seven),
        "LabelPropagation, 10 neighbours": lambda: LabelPropagation(ten, max_iter=3000),
    }


def connected(x: np.ndarray, neighbours: int) -> Callable[..., Any]:
    """What ``kernel="knn"`` computes at every fit, as a kernel that computes it once."""
    graph = NearestNeighbors(n_neighbors=neighbours).fit(x).kneighbors_graph(x, mode="connectivity")
    return lambda *_: graph


def fitted(make: Callable[[], Any]) -> Fit:
    return lambda x, labels: make().fit(x, labels).transduction_


def on_our_graph(x: np.ndarray) -> dict[str, Fit]:
    """The peers' methods on the graph of DiffusionClassifier: what is the graph's merit, and what the flow's."""
    graph = PointGraph(x)
    assert len(graph.weights) == len(x), "no two points at the same place"
    weights = graph.weights.to_scipy()
    spreading = LabelSpreading(kernel=lambda a, b: weights, alpha=0.99, max_iter=3000)
    rows: dict[str, Fit] = {"our graph: LabelSpreading, alpha 0.99": fitted(lambda: spreading)}
    return rows | ({"our graph: Poisson learning": poisson(weights)} if find_spec("graphlearning") else {})


def poisson(weights: Any) -> Fit:
    import graphlearning

    def fit(_: np.ndarray, labels: np.ndarray) -> np.ndarray:
        known = np.flatnonzero(labels >= 0)
        return graphlearning.ssl.poisson(weights).fit_predict(known, labels[known])

    return fit


def methods(x: np.ndarray) -> dict[str, Fit]:
    found = {name: fitted(make) for name, make in estimators(x).items()}
    if find_spec("graphlearning"):
        import graphlearning

        found["Poisson learning"] = poisson(graphlearning.weightmatrix.knn(x.astype(float), 10))
    else:
        print("graphlearning is not installed: Poisson learning is left out")
    return found | on_our_graph(x)


def draw(y: np.ndarray, count: int, seed: int) -> np.ndarray:
    """All labels but ``count`` of each class replaced by -1."""
    random = np.random.default_rng([seed, count])
    kept = np.concatenate([random.permutation(np.flatnonzero(y == label))[:count] for label in np.unique(y)])
    few = np.full(len(y), -1)
    few[kept] = y[kept]
    return few


def measure(name: str, draws: int) -> dict[str, Any]:
    """Accuracy in percent of each method for each number of labels, mean and standard error over draws."""
    x, y = SETS[name]()
    fits = methods(x)
    scores: dict[str, dict[int, list[float]]] = {method: {n: [] for n in COUNTS} for method in fits}
    seconds = dict.fromkeys(fits, 0.0)
    for count in COUNTS:
        for seed in range(draws):
            few = draw(y, count, seed)
            hidden = few < 0
            for method, fit in fits.items():
                begin = time.perf_counter()
                found = fit(x, few)
                seconds[method] += time.perf_counter() - begin
                scores[method][count].append(100 * float((found[hidden] == y[hidden]).mean()))
    return {method: row(of, seconds[method] / draws / len(COUNTS)) for method, of in scores.items()}


def row(scores: dict[int, list[float]], seconds: float) -> dict[str, Any]:
    error = {n: statistics.stdev(found) / len(found) ** 0.5 for n, found in scores.items()}
    mean = {n: statistics.mean(found) for n, found in scores.items()}
    return {"mean": mean, "standard_error": error, "seconds": seconds}


def is_peer(name: str) -> bool:
    """Whether a method counts as a rival: those on our graph only explain."""
    return name != OURS and not name.startswith("our graph")


def verdict(table: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """For each number of labels: the best peer, how far ahead we are, and whether that is what was asked."""
    found = {}
    for count in COUNTS:
        best = max(filter(is_peer, table), key=lambda method: table[method]["mean"][count])
        ahead = table[OURS]["mean"][count] - table[best]["mean"][count]
        found[count] = {"best_peer": best, "ahead": ahead, "holds": ahead >= -table[OURS]["standard_error"][count]}
    return found


def show(name: str, table: dict[str, Any]) -> None:
    print(f"\n{name}: accuracy % at {', '.join(map(str, COUNTS))} labels per class, mean ± standard error")
    for method, of in table.items():
        cells = " ".join(f"{of['mean'][n]:6.1f} ±{of['standard_error'][n]:4.1f}" for n in COUNTS)
        print(f"{method:40s} {cells}  {of['seconds']:7.3f} s")
    for count, of in verdict(table).items():
        print(f"  {count}: {of['ahead']:+.1f} against {of['best_peer']}{'' if of['holds'] else '  BEHIND'}", flush=True)


def main(names: tuple[str, ...], draws: int) -> dict[str, Any]:
    measured = {}
    for name in names:
        table = measure(name, draws)
        show(name, table)
        measured[name] = {"accuracy": table, "verdict": verdict(table)}
    return measured


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="max_iter=")  # label propagation with its defaults
    if sys.argv[1:] == ["--smoke"]:
        main(SMOKE, 2)
    else:
        measured = main(tuple(SETS), DRAWS)
        peers = ("graphlearning",) if find_spec("graphlearning") else ()
        store("few_labels", {"asked": ASKED, "draws": DRAWS, "sets": measured},
              ("evolvent", "torch", "scikit-learn", *peers))  # fmt: skip
