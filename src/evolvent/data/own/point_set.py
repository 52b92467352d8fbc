"""Points of any number of features with a class each."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from evolvent._core.errors import ShapeError


@dataclass(frozen=True)
class PointData:
    """Training and test points; ``source`` says where they came from.

    Attributes:
        train, test: features float32 (N, d) and classes int64 (N,).
        classes: names of the classes.
        columns: names of the features.
        section: what a recipe's ``data`` section says to read the points again; empty if there is nothing to read.
    """

    name: str
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    source: str
    section: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for x, y in (self.train, self.test):
            if x.ndim != 2 or x.shape[1] != len(self.columns) or y.shape != x.shape[:1]:
                shapes = f"{tuple(x.shape)} and {tuple(y.shape)}"
                raise ShapeError(f"points must be (N, {len(self.columns)}) with N classes, got {shapes}.")

    def class_counts(self) -> tuple[list[int], list[int]]:
        """Training and test points of each class."""
        train, test = (torch.bincount(y, minlength=len(self.classes)).tolist() for _, y in (self.train, self.test))
        return train, test

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that change with any number, label or name."""
        digest = hashlib.sha256("\n".join([*self.classes, "", *self.columns]).encode())
        for part in (*self.train, *self.test):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]
