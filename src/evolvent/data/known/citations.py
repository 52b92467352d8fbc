"""Citation graphs with a class for each document: Cora, Citeseer and PubMed, as Planetoid published them."""

from __future__ import annotations

from functools import partial

from evolvent.data.datasets import CatalogueEntry
from evolvent.data.formats import planetoid
from evolvent.data.layout import Layout


def _entry(name: str, title: str, shape: tuple[int, int, int], class_count: int) -> CatalogueEntry:
    folders = (".", "planetoid", "raw", f"{title}/raw", f"Planetoid/{title}/raw")
    parts = tuple((f"ind.{name}.{part}",) for part in planetoid.RAW_PARTS)
    return CatalogueEntry(
        name=name,
        title=f"{title}: documents that cite each other, by subject (Yang, Cohen, Salakhutdinov 2016)",
        shape=shape,
        classes=(),
        class_count=class_count,
        train_count=20 * class_count,
        test_count=1000,
        layouts=(
            Layout("Planetoid files", parts, partial(planetoid.read_raw, width=shape[2]), folders),
            Layout("npz archive of a graph", ((f"{name}.npz",),), planetoid.read_npz, folders, planetoid.holds_graph),
        ),
        home="https://github.com/kimiyoung/planetoid",
        val_count=500,
        kind="graph",
    )


CITATIONS = (
    _entry("cora", "Cora", (2708, 5278, 1433), 7),
    _entry("citeseer", "CiteSeer", (3327, 4552, 3703), 6),
    _entry("pubmed", "PubMed", (19717, 44324, 500), 3),
)
