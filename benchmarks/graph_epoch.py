"""Time of a training epoch on a graph: Diff-ResNet against the form in which it is published, baselines against PyTorch
Geometric's, several initialisations at once against one by one; and diffusion on graphs of up to a million nodes.

An epoch is one step on the largest component of Cora: forward, backward, Adam. The published form of Diff-ResNet has a
dense first layer, ``torch.sparse`` matrices of coordinates and torch's dropout; its answers without dropout are
compared with ours first. Variants run interleaved in one process with one thread; ratios are medians over rounds of
ratios in the same round. Large graphs connect 10 nearest neighbours of random points of the square and are made and
diffused in a process of their own each; peak memory is that of the process above what it had before the diffusion.

``--data FOLDER`` has Cora (else EVOLVENT_DATA); ``--smoke`` runs few rounds and small graphs and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from results import PACKAGES, interleaved, store
from torch import Tensor, nn
from torch.nn import functional as F

import evolvent as ev
from evolvent.data import GraphData, NodeSplit, load_graph
from evolvent.experiments.freed_memory import keep_freed_memory
from evolvent.graphs import SparseMatrix, laplacian, normalise
from evolvent.operators import GraphDiffusion

ROUNDS, WIDTH, STEPS = 9, 64, 20
STACKS = (5, 20)  # initialisations at once: as many as fit a small study, and the paper's
SETTING = {"gamma": 0.25, "diffusion_steps": 20, "dropout": 0.25}  # of the paper on Cora
SIZES = (10_000, 100_000, 1_000_000)
ASKED = "Diff-ResNet 3 x faster than its published form; stacked initialisations 3 x faster each than one by one"
STACKED = {
    "gcn": {"width": 16}, "graphsage": {"width": 16}, "graphsage_maxpool": {"width": 16}, "gat": {}, "appnp": {},
    "diff_resnet_graph": SETTING, "diff_resnet_graph, dropout in 128 features": SETTING | {"dropout_features": 128},
}  # fmt: skip


class PublishedForm(nn.Module):
    """Diff-ResNet with a dense first layer, sparse matrices of coordinates, and torch's dropout."""

    def __init__(self, width: int, classes: int, graph: SparseMatrix) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, classes)
        L = laplacian(normalise(graph, "gcn"))
        places = torch.stack([L.rows, L.columns])
        self.laplacian = torch.sparse_coo_tensor(places, L.values, L.shape, check_invariants=False)
        self.laplacian = self.laplacian.coalesce()

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.relu(self.first(x))
        for _ in range(SETTING["diffusion_steps"]):
            x = F.dropout(x - SETTING["gamma"] * torch.sparse.mm(self.laplacian, x), SETTING["dropout"], self.training)
        return self.last(x)


Epoch = Callable[[], object]


def epoch_of(model: nn.Module, answer: Callable[[], Tensor], data: GraphData, split: NodeSplit) -> Epoch:
    """One training step; answers may have an axis of initialisations."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    labels = data.labels[split.train]

    def epoch() -> None:
        optimizer.zero_grad()
        found = answer()[split.train].view(len(labels), -1, len(data.classes))
        every = labels[:, None].expand(found.shape[:2])
        F.cross_entropy(found.flatten(0, 1), every.flatten()).backward()
        optimizer.step()

    return epoch


def ours(name: str, data: GraphData, split: NodeSplit, **options: Any) -> Epoch:
    sizes = {"in_features": data.features.width, "num_classes": len(data.classes)}
    model = ev.create_model(name.split(",")[0], **sizes, **options)
    return epoch_of(model, lambda: model(data.features, data.graph), data, split)


def compared(epochs: dict[str, Epoch], rounds: int, against: str, share: float = 1.0) -> dict[str, dict[str, float]]:
    """Milliseconds of each, and how many times faster it is than ``against``; ``share`` of theirs is a training's."""
    seconds = interleaved(epochs, rounds)
    rows = {}
    for name, spent in seconds.items():
        part = 1.0 if name == against else share
        ratio = statistics.median(a / (part * b) for a, b in zip(seconds[against], spent, strict=True))
        rows[name] = {"milliseconds": 1e3 * statistics.median(spent), "times_faster": ratio}
        print(f"  {name:58s} {rows[name]['milliseconds']:9.1f} ms {ratio:7.2f} x", flush=True)
    return rows


def against_published(data: GraphData, split: NodeSplit, rounds: int) -> dict[str, Any]:
    x = data.features.dense()
    theirs = PublishedForm(x.shape[1], len(data.classes), data.graph)
    model = ev.create_model("diff_resnet_graph", in_features=x.shape[1], num_classes=len(data.classes), **SETTING)
    names = dict(model.named_parameters())
    for layer, name in ((theirs.first, "evolution.dynamics.0.convection.linear"), (theirs.last, "head")):
        names[f"{name}.weight"].data, names[f"{name}.bias"].data = layer.weight.data.T.clone(), layer.bias.data.clone()
    with torch.no_grad():
        off = (model.eval()(data.features, data.graph) - theirs.eval()(x)).abs().max().item()
    print(f"answers without dropout differ by at most {off:.1e}")
    epochs = {
        "published form": epoch_of(theirs.train(), lambda: theirs(x), data, split),
        "evolvent": epoch_of(model.train(), lambda: model(data.features, data.graph), data, split),
        "evolvent, dropout in 128 features": ours(
            "diff_resnet_graph", data, split, dropout_features=128, **SETTING
        ),
    }  # fmt: skip
    return compared(epochs, rounds, "published form") | {"difference": off}


def against_pyg(data: GraphData, split: NodeSplit, rounds: int) -> dict[str, Any]:
    """The baselines at the sizes of their papers; empty without PyTorch Geometric."""
    try:
        from torch_geometric.nn import APPNP, GATConv, GCNConv
    except ImportError:
        print("torch_geometric is not installed: not compared")
        return {}
    x, classes = data.features.dense(), len(data.classes)
    edges, width = torch.stack([data.graph.columns, data.graph.rows]), data.features.width

    class Theirs(nn.Module):
        def __init__(self, first: nn.Module, last: nn.Module, share: float, act: Any, after: nn.Module | None) -> None:
            super().__init__()
            self.first, self.last, self.share, self.act, self.after = first, last, share, act, after

        def forward(self) -> Tensor:
            alone = (x,) if self.after else (x, edges)
            u = self.act(self.first(F.dropout(alone[0], self.share, self.training), *alone[1:]))
            u = self.last(F.dropout(u, self.share, self.training), *alone[1:])
            return self.after(u, edges) if self.after else u

    def sparse(first: int, heads: int = 1) -> nn.Module:
        return GATConv(width, first, heads, dropout=0.6)

    theirs = {
        "gcn": Theirs(GCNConv(width, 16, cached=True), GCNConv(16, classes, cached=True), 0.5, F.relu, None),
        "gat": Theirs(sparse(8, 8), GATConv(64, classes, dropout=0.6), 0.6, F.elu, None),
        "appnp": Theirs(nn.Linear(width, 64), nn.Linear(64, classes), 0.5, F.relu, APPNP(10, 0.1, cached=True)),
    }
    found = {}
    for name, model in theirs.items():
        options = {"width": 16} if name == "gcn" else {}
        epochs = {
            f"{name} of PyTorch Geometric": epoch_of(model, model, data, split),
            f"{name} of evolvent": ours(name, data, split, **options),
        }
        found[name] = compared(epochs, rounds, f"{name} of PyTorch Geometric")
    return found


def stacked(data: GraphData, split: NodeSplit, rounds: int) -> dict[str, Any]:
    found = {}
    for name, options in STACKED.items():
        one = {f"{name}, one": ours(name, data, split, **options)}
        found[name] = {}
        for count in STACKS:
            together = {f"{name}, {count} at once": ours(name, data, split, initialisations=count, **options)}
            found[name] |= compared(one | together, rounds, f"{name}, one", share=1 / count)
    return found


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def diffuse(nodes: int) -> dict[str, float]:
    """Steps of diffusion on a graph of nearest neighbours, in this process."""
    from scipy.spatial import cKDTree

    torch.set_num_threads(1)
    torch.manual_seed(0)
    points = torch.rand(nodes, 2)
    begin = time.perf_counter()
    _, near = cKDTree(points.numpy()).query(points.numpy(), k=11)
    rows, columns = torch.arange(nodes).repeat_interleave(10), torch.from_numpy(near[:, 1:]).reshape(-1)
    both = torch.cat([rows, columns]), torch.cat([columns, rows])
    graph = SparseMatrix.from_entries(*both, torch.ones(20 * nodes), (nodes, nodes))
    diffusion = GraphDiffusion(normalise(graph.with_values(torch.ones_like(graph.values)), "gcn"))
    u = torch.randn(nodes, WIDTH)
    diffusion.flow(u[:, :1], 0.25)  # makes what is kept for later calls
    made, before = time.perf_counter() - begin, resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    begin = time.perf_counter()
    diffusion.flow(u, 0.25 * STEPS, "explicit", STEPS)
    seconds = time.perf_counter() - begin
    return {
        "nodes": nodes, "entries": len(diffusion.laplacian.columns), "made_seconds": made, "seconds": seconds,
        "peak_bytes": resident("VmHWM") - before, "features_bytes": 4 * nodes * WIDTH,
    }  # fmt: skip


def growth(sizes: tuple[int, ...]) -> list[dict[str, float]]:
    found = []
    for nodes in sizes:
        run = subprocess.run(
            [sys.executable, __file__, "--diffuse", str(nodes)], capture_output=True, text=True, check=True
        )
        row = json.loads(run.stdout)
        found.append(row)
        print(
            f"  {nodes:>9,} nodes, {row['entries']:>10,} entries: {row['seconds']:8.2f} s, "
            f"{row['peak_bytes'] / 2**20:8.0f} MiB beside {row['features_bytes'] / 2**20:.0f} MiB of features",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--diffuse", type=int, help="only diffuse on a graph of so many nodes")
    given = parser.parse_args()
    if given.diffuse:
        print(json.dumps(diffuse(given.diffuse)))
        return
    torch.set_num_threads(1)
    keep_freed_memory()
    data = load_graph("cora", given.data).row_normalised().largest_component()
    split, rounds = data.random_split(0), 1 if given.smoke else ROUNDS
    measured: dict[str, Any] = {"asked": ASKED, "data": data.name, "rounds": rounds, "unit": "one epoch, one thread"}
    for title, measure in (
        ("diff_resnet_graph", against_published), ("peers", against_pyg), ("initialisations", stacked)
    ):  # fmt: skip
        print(title)
        measured[title] = measure(data, split, rounds)
    print(f"{STEPS} steps of diffusion, width {WIDTH}")
    measured["growth"] = growth(SIZES[:1] if given.smoke else SIZES)
    if not given.smoke:
        packages = (*PACKAGES, "torch-geometric") if measured["peers"] else PACKAGES
        store("graph_epoch", measured, packages)


if __name__ == "__main__":
    main()
