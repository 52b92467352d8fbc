"""Labelled points of the plane: spirals, moons, circles and blobs, drawn from a seed."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from evolvent._core.config import Config


class PointCloud(Config):
    """Points near one curve for each class, about as large as the unit disc.

    Spirals are the arms of one spiral; moons are half circles in a row, open downwards and upwards in turn; circles
    have a common centre; blobs are normal clouds around the corners of a polygon.

    >>> x, y = PointCloud(kind="moons", points=3).draw(seed=0)
    >>> x.shape, y.tolist()
    (torch.Size([6, 2]), [0, 0, 0, 1, 1, 1])
    """

    kind: Literal["spirals", "moons", "circles", "blobs"] = "spirals"
    classes: int = Field(default=2, ge=2, le=8)
    points: int = Field(default=250, ge=2, description="of each class")
    turns: float = Field(default=2.0, gt=0, description="of each spiral around the centre")
    noise: float = Field(default=0.02, ge=0, description="standard deviation around the curve, along each axis")

    def draw(self, seed: int, points: int | None = None) -> tuple[Tensor, Tensor]:
        """Points (classes * points, 2) and their classes, class by class; a function of the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        along = torch.rand(self.classes, self.points if points is None else points, generator=generator)
        number = torch.arange(self.classes)[:, None]
        curve = torch.stack(torch.broadcast_tensors(*self._curve(along, number)), dim=-1)
        noise = torch.randn((*along.shape, 2), generator=generator)
        return (curve + self.noise * noise).flatten(0, 1), number.expand_as(along).flatten()

    def _curve(self, along: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates, from the place along the curve in [0, 1) and the number of the class."""
        share = number / self.classes
        match self.kind:
            case "spirals":
                radius = along.sqrt()
                return _polar(0.1 + 0.9 * radius, self.turns * radius + share)
            case "moons":
                x, y = _polar(1.0, along / 2)
                centre, side = number - (self.classes - 1) / 2, 1 - 2 * (number % 2)
                return 2 / (self.classes + 1) * (x + centre), 2 / (self.classes + 1) * side * (y - 0.25)
            case "circles":
                return _polar(share + 1 / self.classes, along)
            case "blobs":
                return _polar(0.7, share)


def _polar(radius: Tensor | float, turns: Tensor) -> tuple[Tensor, Tensor]:
    angle = 2 * math.pi * turns
    return radius * angle.cos(), radius * angle.sin()
