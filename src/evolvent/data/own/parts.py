"""Labels as class numbers, the test part of data that have none, and what is not used of what was given."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import told
from evolvent._core.errors import ConfigError, DataError, shortened
from evolvent._core.memory import check_fits
from evolvent._core.randomness import Stream
from evolvent.data.splits import share, stratified

DEFAULT_TEST = 0.2
MOST_CLASSES = 10_000
_SPLIT_SEED = 0  # the same rows on every machine and in every run


class OwnDataWarning(UserWarning):
    """A part of your own data is not used, or probably not meant as it is read."""


def warn_of_data(text: str) -> None:
    """Say what is not used, or probably not meant."""
    warnings.warn(text, OwnDataWarning, stacklevel=3)


def class_numbers(
    parts: Sequence[np.ndarray], classes: Sequence[str] | None, what: str
) -> tuple[list[Tensor], tuple[str, ...]]:
    """Labels of several parts as int64 tensors, and the names of the classes.

    With names of classes, labels are indices into them. Else every label that occurs, a number or a word, is a class.

    >>> numbers, names = class_numbers([np.array(["cat", "dog", "cat"])], None, "labels")
    >>> numbers[0].tolist(), names
    ([0, 1, 0], ('cat', 'dog'))
    """
    flat = [_one_each(labels, what) for labels in parts]
    if classes is not None:
        return [_indices(labels, len(classes), what) for labels in flat], tuple(map(str, classes))
    whole = np.concatenate(flat)
    values = np.unique(whole)
    if not 2 <= len(values) <= MOST_CLASSES:
        raise DataError(f"{what}: 2 to {MOST_CLASSES:,} classes are expected, found {len(values):,}.")
    return [torch.from_numpy(np.searchsorted(values, labels)) for labels in flat], tuple(map(str, values.tolist()))


def _one_each(labels: np.ndarray, what: str) -> np.ndarray:
    labels = labels.reshape(-1) if labels.size == len(labels) else labels
    if labels.dtype.kind == "f" and labels.size and (labels == np.rint(labels)).all():
        labels = labels.astype(np.int64)  # whole numbers that a table or a framework kept as floating point
    if labels.ndim != 1 or labels.dtype.kind not in "iubU":
        found = f"{labels.dtype} {labels.shape}"
        raise DataError(f"{what}: one whole number or word per row is expected as label, found {found}.")
    return labels.astype(np.int64) if labels.dtype.kind in "iub" else labels


def _indices(labels: np.ndarray, count: int, what: str) -> Tensor:
    if labels.dtype.kind != "i" or (labels.size and not 0 <= labels.min() <= labels.max() < count):
        found = shortened(", ".join(map(str, np.unique(labels)[:5])))
        raise DataError(f"{what}: labels 0 ... {count - 1} are expected, for {count} classes, found {found}.")
    return torch.from_numpy(labels)


def check_size(resize: Any) -> tuple[int, int] | None:
    """The height and width that images are resized to, if any are given."""
    if resize is None:
        return None
    given = resize.tolist() if isinstance(resize, (np.ndarray, Tensor)) else resize
    sides = list(given) if isinstance(given, Sequence) else []
    if len(sides) != 2 or not all(_is_side(side) for side in sides):
        raise ConfigError(f"resize must be [height, width], two whole numbers from 1, got {told(resize)}.")
    height, width = map(int, sides)
    check_fits(height * width, f"an image resized to {height} x {width}")
    return height, width


def _is_side(side: Any) -> bool:
    return isinstance(side, Integral) and not isinstance(side, bool) and int(side) > 0


def check_names(what: str, names: Any) -> None:
    """Refuse what is not a list of names, one for each class or column."""
    if names is not None and not hasattr(names, "__len__"):
        raise ConfigError(f"{what} must be a list of names, got {told(names)}.")


def held_out_rows(strata: Tensor, fraction: float | None, what: str) -> tuple[Tensor, Tensor]:
    """Rows of a stratified test part, a fifth unless told otherwise, and the rows that are left for training."""
    fraction = DEFAULT_TEST if fraction is None else fraction
    if not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
        raise ConfigError(f"the share of test rows must lie between 0 and 1, got {told(fraction)}.")
    count = share(len(strata), float(fraction))
    if not 0 < count < len(strata):
        raise DataError(
            f"{what}: a share of {fraction:g} of {len(strata)} rows leaves none on one side. Give more rows, or "
            "another share as data.test."
        )
    return stratified(strata, count, _SPLIT_SEED, Stream.TEST_SPLIT)


def refuse_unknown_test(train: Sequence[int], test: Sequence[int], classes: Sequence[str], what: str) -> None:
    """Refuse a test part that has no class of the training part; both are given as rows of each class."""
    unseen = unseen_classes(train, test, classes)
    if unseen and len(unseen) == sum(map(bool, test)):
        raise DataError(
            f"{what}: no class of the test part ({_listed(unseen)}) occurs in the training part, so that none can be "
            "learned. Give training rows of these classes, or other test rows."
        )


def unseen_warning(train: Sequence[int], test: Sequence[int], classes: Sequence[str]) -> str:
    """One line if the test part has classes that the training part has not; else empty.

    >>> unseen_warning([5, 0, 5], [1, 1, 1], ("cat", "dog", "emu"))
    '1 class of the test part has no training rows and cannot be learned: dog'
    """
    unseen = unseen_classes(train, test, classes)
    if not unseen:
        return ""
    have = "class of the test part has" if len(unseen) == 1 else "classes of the test part have"
    return f"{len(unseen)} {have} no training rows and cannot be learned: {_listed(unseen)}"


def unseen_classes(train: Sequence[int], test: Sequence[int], classes: Sequence[str]) -> list[str]:
    """Classes with test rows and without training rows."""
    return [name for name, known, asked in zip(classes, train, test, strict=True) if asked and not known]


def _listed(names: Sequence[str]) -> str:
    return shortened(", ".join(names))


def refuse_second_test(fraction: float | None, what: str) -> None:
    """A share of test rows makes no sense where there are test rows already."""
    if fraction is not None:
        raise ConfigError(f"{what} has a test part of its own; leave data.test out.")
