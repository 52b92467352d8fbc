"""What a catalogue entry knows of a data set, and the catalogue itself."""

from __future__ import annotations

from dataclasses import dataclass

from evolvent._core.registry import Registry
from evolvent.data.layout import Layout


@dataclass(frozen=True)
class Download:
    """A file at the set's own home.

    ``checksum`` is ``"sha256:..."`` or, where only that is published, ``"md5:..."``; ``size`` in bytes if known;
    ``unpack`` for an archive, from which members whose file name is in ``skip`` are left out.
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

    ``classes`` is empty where the files name them; ``other_shapes`` are sizes in which the set is also handed round;
    ``checksums`` are those published for single files (of the content, if a file is gzipped);
    ``test_labels`` is the sha256 of the test labels as bytes, which tells sets with equal file names apart;
    ``ignore``, in sets with a label for every pixel, is that of pixels without a class.
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

    @property
    def downloadable(self) -> bool:
        return bool(self.downloads)

    @property
    def advice(self) -> str:
        """How to get the files."""
        if self.shipped and not self.downloads:
            return f"Run: {self.shipped[0].install}."
        place = f"place {self.layouts[0].wanted} in a folder given by --data or EVOLVENT_DATA (home: {self.home})"
        ways = [f"run: evolvent data fetch {self.name}"] if self.downloads else []
        ways += [f"run: {shipped.install}" for shipped in self.shipped]
        text = "; or ".join([*ways, place])
        return text[0].upper() + text[1:] + "."


CATALOGUE: Registry[CatalogueEntry] = Registry("data set", advice="evolvent data list shows all.")


def list_datasets(pattern: str = "*") -> list[str]:
    """Names of the data sets that match a shell pattern, sorted."""
    _fill()
    return CATALOGUE.names(pattern)


def describe(name: str) -> CatalogueEntry:
    """The catalogue entry of a name; a wrong name is answered with the nearest right ones."""
    _fill()
    return CATALOGUE.get(name)


def _fill() -> None:
    """Enter the known sets on first use."""
    if len(CATALOGUE) == 0:
        from evolvent.data.known_sets import KNOWN_SETS

        for entry in KNOWN_SETS:
            CATALOGUE.add(entry.name, entry)
