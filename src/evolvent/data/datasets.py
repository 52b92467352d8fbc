"""The catalogue of data sets: what is known about each, and how another is added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evolvent._core.registry import Registry
from evolvent.data.layout import Layout


@dataclass(frozen=True)
class Download:
    """A file at the set's own home.

    Attributes:
        checksum: ``"sha256:..."`` or, where only that is published, ``"md5:..."``.
        size: in bytes, if known.
        unpack: whether it is an archive; members whose file name is in ``skip`` are left out.
    """

    url: str
    checksum: str
    size: int | None = None
    unpack: bool = False
    skip: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Shipped:
    """A folder that comes with an installed package.

    ``package`` is a Python package and ``folder`` a path inside it, or ``package`` is empty and ``folder`` absolute.
    """

    title: str
    package: str
    folder: str
    install: str


@dataclass(frozen=True)
class CatalogueEntry:
    """A named data set.

    Attributes:
        shape: channels, height and width of an image; of a graph its nodes, edges and features.
        classes: names of the classes; empty where the files name them.
        layouts: the ways in which its files may be arranged, preferred one first.
        home: web page of the set.
        other_shapes: further image sizes in which the set is distributed.
        checksums: those published for single files (of the content, if a file is gzipped), by file name.
        test_labels: sha256 of the test labels as bytes, which distinguishes sets with equal file names.
        ignore: in sets with a label for every pixel, the label of pixels without a class.
        kind: whether it has images, read by :func:`load`, or is a graph, read by :func:`load_graph`.
    """

    name: str
    title: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    class_count: int
    train_count: int
    test_count: int
    layouts: tuple[Layout, ...]
    home: str
    downloads: tuple[Download, ...] = ()
    shipped: tuple[Shipped, ...] = ()
    other_shapes: tuple[tuple[int, int, int], ...] = ()
    checksums: tuple[tuple[str, str], ...] = ()
    test_labels: str = ""
    ignore: int | None = None
    val_count: int = 0
    kind: Literal["images", "graph"] = "images"

    @property
    def size(self) -> str:
        """How large an image is, or the graph."""
        if self.kind == "images":
            return "x".join(map(str, self.shape))
        return "{:,} nodes, {:,} edges".format(*self.shape)

    @property
    def downloadable(self) -> bool:
        return bool(self.downloads)

    @property
    def advice(self) -> str:
        """How to get the files."""
        if self.shipped and not self.downloads:
            return f"Run: {self.shipped[0].install}."
        home = "" if self.downloads else f" (home: {self.home})"
        place = f"place {self.layouts[0].wanted} in a folder given by --data{home}"
        ways = [f"run: evolvent data fetch {self.name}"] if self.downloads else []
        ways += [f"run: {shipped.install}" for shipped in self.shipped]
        text = "; or ".join([*ways, place])
        return text[0].upper() + text[1:] + "."


DATASETS: Registry[CatalogueEntry] = Registry("data set", advice="evolvent data list shows all.")


def register_dataset(entry: CatalogueEntry) -> None:
    """Add a data set to the catalogue, so that :func:`load`, recipes and the command line know its name.

    Raises:
        NameClashError: if the name is taken.
    """
    DATASETS.add(entry.name, entry)


def list_datasets(pattern: str = "*") -> list[str]:
    """Names of the data sets that match a shell pattern, sorted."""
    return DATASETS.names(pattern)


def describe(name: str) -> CatalogueEntry:
    """The catalogue entry of a name; a wrong name is answered with the nearest right ones."""
    return DATASETS.get(name)
