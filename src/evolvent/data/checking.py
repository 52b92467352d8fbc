"""A report on the files and the content of a data set, for ``evolvent data check``."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from evolvent._core import files
from evolvent._core.errors import DataError
from evolvent.data.datasets import CatalogueEntry
from evolvent.data.formats.arrays import open_maybe_gzip, parsing
from evolvent.data.graph_set import GraphData, read_graph
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.data.locations import Location, locate
from evolvent.data.own import from_csv, from_folder, from_npz
from evolvent.data.own.parts import unseen_warning
from evolvent.data.reading import read

_IMAGES_AT_ONCE = 4096


@dataclass(frozen=True)
class FileReport:
    """One file or folder; ``published`` says whether it has the published checksum, None if there is none."""

    path: Path
    size: int
    sha256: str
    published: bool | None
    fault: str

    @property
    def ok(self) -> bool:
        return not self.fault


@dataclass(frozen=True)
class PartReport:
    """One part of a set: images, pixels, nodes or points per class.

    Attributes:
        mean, std: mean and standard deviation per channel, in units of 255; empty for nodes and points.
    """

    count: int
    counted: Literal["images", "pixels", "nodes", "points"]
    per_class: tuple[tuple[str, int], ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class CheckReport:
    """What was found; ``fault`` is empty if the set could be read and every published checksum agrees.

    ``warning`` is what else the user should know, in one line.
    """

    name: str
    source: str
    files: tuple[FileReport, ...]
    train: PartReport | None
    test: PartReport | None
    fault: str
    val: PartReport | None = None
    warning: str = ""

    @property
    def ok(self) -> bool:
        return not self.fault


def check(name: str, folder: str | os.PathLike[str] | None = None) -> CheckReport:
    """Check every file of a set and read it.

    Raises:
        DataError: if the set is not found.
    """
    location = locate(name, folder)
    reports = tuple(_file_report(location.entry, path) for path in location.files)
    fault = next((f"{report.path}: {report.fault}" for report in reports if report.fault), "")
    try:
        if location.entry.kind == "graph":
            return _graph_report(read_graph(location), reports, fault)
        data = read(location)
    except DataError as error:
        return CheckReport(name, _place(location), reports, None, None, str(error))
    train, test = _part_report(data.train), _part_report(data.test)
    return CheckReport(
        name, data.source, reports, train, test, fault, None if data.val is None else _part_report(data.val)
    )


def check_own(place: str | os.PathLike[str]) -> CheckReport:
    """Read a folder of images, an archive or a table of the user's own, and count what is in it.

    Raises:
        DataError: names the file that cannot be used, and what to do.
    """
    path = Path(place)
    reader = from_folder if path.is_dir() else from_csv if path.suffix.lower() == ".csv" else from_npz
    found = reader(path)
    if isinstance(found, ImageData):
        train, test = _part_report(found.train), _part_report(found.test)
        val = None if found.val is None else _part_report(found.val)
    else:
        train, test = (
            PartReport(sum(counts), "points", tuple(zip(found.classes, counts, strict=True)), (), ())
            for counts in found.class_counts()
        )
        val = None
    known, asked = ([number for _, number in part.per_class] for part in (train, test))
    warning = unseen_warning(known, asked, found.classes)
    return CheckReport(found.name, found.source, (), train, test, "", val, warning)


def _graph_report(data: GraphData, files: tuple[FileReport, ...], fault: str) -> CheckReport:
    def part(nodes: Tensor) -> PartReport:
        counts = torch.bincount(data.labels[nodes], minlength=len(data.classes)).tolist()
        return PartReport(len(nodes), "nodes", tuple(zip(data.classes, counts, strict=True)), (), ())

    split = data.public_split()
    parts = part(split.train), part(split.test)
    return CheckReport(data.name, data.source, files, *parts, fault, part(split.validation))


def _place(location: Location) -> str:
    return f"{location.match.layout.title} in {location.match.folder}"


def _file_report(entry: CatalogueEntry, path: Path) -> FileReport:
    if path.is_dir():
        size = sum(inner.stat().st_size for inner in path.rglob("*") if inner.is_file())
        return FileReport(path, size, "", None, "")
    checksum = dict(entry.checksums).get(path.name.removesuffix(".gz"), "")
    fault = _content_fault(path, checksum) if checksum else ""
    return FileReport(path, path.stat().st_size, files.sha256(path), not fault if checksum else None, fault)


def _content_fault(path: Path, checksum: str) -> str:
    """Compare the content, uncompressed if gzipped, with the published checksum."""
    algorithm, expected = checksum.split(":")
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with parsing(path), open_maybe_gzip(path) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except DataError as error:
        return str(error)
    found = digest.hexdigest()
    return "" if found == expected else f"{algorithm} {expected} is published, found {found}"


def _part_report(part: ImageSet) -> PartReport:
    mean, std = _moments(part)
    counted = "pixels" if part.has_masks else "images"
    return PartReport(len(part), counted, tuple(zip(part.classes, part.class_counts(), strict=True)), mean, std)


def _moments(part: ImageSet) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per channel, from the histogram of the bytes, hence exact."""
    values = torch.arange(256, dtype=torch.float64) / 255
    counts = torch.zeros(part.shape[0], 256, dtype=torch.float64)
    for some in part.images.split(_IMAGES_AT_ONCE):
        for channel, total in zip(some.unbind(1), counts, strict=True):
            total += torch.bincount(channel.flatten(), minlength=256)
    weights = counts / counts.sum(1, keepdim=True)
    means = weights @ values
    deviations = (weights * (values - means[:, None]) ** 2).sum(1).sqrt()
    return tuple(means.tolist()), tuple(deviations.tolist())
