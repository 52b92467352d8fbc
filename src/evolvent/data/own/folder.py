"""Folders of your own images: one folder for each class, or images with masks."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import torch

from evolvent._core.checks import check_path
from evolvent._core.errors import DataError
from evolvent.data.formats.arrays import parsing
from evolvent.data.image_files import ImageFiles
from evolvent.data.image_set import ImageData, ImageSet
from evolvent.data.own.arrays import image_data, masked_sets
from evolvent.data.own.parts import check_size, refuse_second_test, warn_of_data
from evolvent.data.picture_readers import SUFFIXES, Stretched, picture_form, read_mask

_PARTS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}
_IMAGES, _MASKS = ("images", "imgs"), ("masks", "labels")
_NAMES_FILE = "classes.txt"
_OTHER_PICTURES = frozenset({".bmp", ".gif", ".heic", ".pgm", ".ppm", ".tif", ".tiff", ".webp"})
_MOST_BYTES = 1 << 30  # of images that are kept in memory; larger sets stay in their files


def from_folder(
    folder: str | os.PathLike[str], *, test: float | None = None, resize: Sequence[int] | None = None
) -> ImageData:
    """Your own folder of PNG and JPEG images as data for trainings.

    Either there is one folder for each class, named after it, or ``images`` and ``masks``, where a mask is a PNG with
    the name and size of its image whose pixels are labels: 0, 1, ... and 255 for none, or just 0 and 255. A file
    ``classes.txt`` beside the masks names their classes, one in each line. All this may lie in ``train`` and ``test``
    (and ``val``). Images are grey if all of them are, else RGB.

    Args:
        folder: that contains them.
        test: the share of images for testing, if there is no folder ``test``; 0.2 unless given.
        resize: height and width that all images are resized to; needed if they are of unequal size.
    """
    root, wanted = check_path(folder, "ev.data.from_folder").absolute(), check_size(resize)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}. Give a folder with one folder of images for each class.")
    parts = _parts(root)
    masked = _pair(parts["train"]) is not None
    found = {part: _Listing.of_masks(place) if masked else _Listing.of_classes(place) for part, place in parts.items()}
    if "test" in found:
        refuse_second_test(test, str(root))
    size = _size(found, wanted, root)
    sets = _masked(found, size, root) if masked else _labelled(found, size, root)
    section = {"folder": str(root)} | ({} if test is None else {"test": test})
    section |= {} if wanted is None else {"resize": list(wanted)}
    rest = [sets["train"], *([sets["test"]] if "test" in sets else [])]
    return image_data(root.name, rest, test, f"images in {root}", val=sets.get("val"), section=section)


class _Listing:
    """The files of one part: for each image its name below the folder, and its class or the name of its mask."""

    def __init__(self, folder: Path, names: list[str], labels: list[str]) -> None:
        self.folder, self.names, self.labels = folder, names, labels

    @classmethod
    def of_classes(cls, folder: Path) -> _Listing:
        names, labels = [], []
        classes = _folders(folder)
        if not classes:
            raise DataError(f"{folder} has no folders; make one for each class and put its images there.")
        for inner in classes:
            files = _files(inner, SUFFIXES)
            if not files:
                kinds = ", ".join(sorted({p.suffix for p in inner.iterdir() if p.is_file()})[:4]) or "nothing"
                raise DataError(f"{inner} has no PNG or JPEG images, it has {kinds}. Fill or delete the folder.")
            _warn_of_unread(inner)
            names += [f"{inner.name}/{path.name}" for path in files]
            labels += [inner.name] * len(files)
        return cls(folder, names, labels)

    @classmethod
    def of_masks(cls, folder: Path) -> _Listing:
        pair = _pair(folder)
        if pair is None:
            raise DataError(f"{folder} must have folders images and masks, as the training part has.")
        images, masks = pair
        _warn_of_unread(images)
        known = {path.stem: path.name for path in _files(masks, (".png",))}
        files = _files(images, SUFFIXES)
        lacking = [path for path in files if path.stem not in known]
        if lacking or not files:
            which = f"{lacking[0]} has no mask {masks / lacking[0].stem}.png" if lacking else f"{images} has no images"
            raise DataError(f"{which}. Every image needs a PNG of the same name in {masks}.")
        return cls(folder, [f"{images.name}/{p.name}" for p in files], [f"{masks.name}/{known[p.stem]}" for p in files])


def _parts(root: Path) -> dict[str, Path]:
    """Where the training images lie, and validation and test ones if there are such folders."""
    found = {part: path for part, names in _PARTS.items() if (path := _named(root, names))}
    if "train" not in found:
        return {"train": root}
    if "test" not in found and "val" in found:
        found["test"] = found.pop("val")  # without a test part, the validation images test
    return found


def _named(folder: Path, names: Sequence[str]) -> Path | None:
    return next((path for path in _folders(folder) if path.name.lower() in names), None)


def _pair(folder: Path) -> tuple[Path, Path] | None:
    images, masks = _named(folder, _IMAGES), _named(folder, _MASKS)
    return (images, masks) if images and masks else None


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith((".", "__")))


def _files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    found = (path for path in folder.iterdir() if path.suffix.lower() in suffixes and not path.name.startswith("."))
    return sorted(path for path in found if path.is_file())


def _warn_of_unread(folder: Path) -> None:
    """Say which pictures and folders in a folder of images are not read."""
    inner = len(_folders(folder))
    other = Counter(path.suffix.lower() for path in _files(folder, _OTHER_PICTURES))
    unread = [f"{count} {suffix}" for suffix, count in sorted(other.items())]
    unread += [f"{inner} folder{'s' if inner > 1 else ''}"] if inner else []
    if unread:
        warn_of_data(
            f"{folder} also has {', '.join(unread)}, which are not read. Convert pictures to PNG or JPEG, and put all "
            "images directly into this folder."
        )


def _size(found: dict[str, _Listing], resize: tuple[int, int] | None, root: Path) -> Stretched:
    """How all images are read: the channels that they have, and one size."""
    files = [part.folder / name for part in found.values() for name in part.names]
    forms = {path: picture_form(path) for path in files}
    channels = max(form.channels for form in forms.values())
    if resize is not None:
        return Stretched(channels, *resize)
    sizes = Counter(form[1:] for form in forms.values())
    (common, _), *others = sizes.most_common()
    if others:
        odd = next(name for name, form in forms.items() if form[1:] != common)
        form = forms[odd]
        raise DataError(
            f"images in {root} have {len(sizes)} sizes: {odd} is {form.height} x {form.width}, most are {common[0]} x "
            f"{common[1]}. Say which size they are resized to, for example data.resize=[{common[0]}, {common[1]}]."
        )
    return Stretched(channels, *common)


def _labelled(found: dict[str, _Listing], reader: Stretched, root: Path) -> dict[str, ImageSet]:
    classes = sorted(set(found["train"].labels))
    if len(classes) < 2:
        raise DataError(f"{root} has one class, {classes[0]!r}; make a folder for each of at least two classes.")
    total = sum(len(part.names) for part in found.values())
    in_memory = total * int(np.prod(reader.shape)) <= _MOST_BYTES
    sets = {}
    for name, part in found.items():
        if extra := sorted(set(part.labels) - set(classes)):
            raise DataError(f"{part.folder} has a class {extra[0]!r} that {found['train'].folder} does not have.")
        files = ImageFiles(part.folder, part.names, reader)
        labels = torch.tensor([classes.index(label) for label in part.labels])
        sets[name] = ImageSet(files[:] if in_memory else files, labels, tuple(classes))
    return sets


def _masked(found: dict[str, _Listing], reader: Stretched, root: Path) -> dict[str, ImageSet]:
    parts = []
    for part in found.values():
        _check_mask_sizes(part)
        masks = np.stack([read_mask(part.folder / name, reader.height, reader.width) for name in part.labels])
        parts.append((ImageFiles(part.folder, part.names, reader)[:], masks))
    sets = masked_sets(parts, _class_names(root / _NAMES_FILE) or None, str(root))
    return dict(zip(found, sets, strict=True))


def _class_names(file: Path) -> list[str]:
    """One in each line, if there is such a file."""
    if not file.is_file():
        return []
    with parsing(file):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    return [name for line in lines if (name := line.strip())]


def _check_mask_sizes(part: _Listing) -> None:
    """Refuse masks that are not as large as their images: stretched, they would label other pixels."""
    for name, mask in zip(part.names, part.labels, strict=True):
        image, labels = picture_form(part.folder / name), picture_form(part.folder / mask)
        if image[1:] != labels[1:]:
            raise DataError(
                f"{part.folder / mask} is {labels.height} x {labels.width}, its image {name} {image.height} x "
                f"{image.width}. Give a mask of the image's size; data.resize resizes both together."
            )
