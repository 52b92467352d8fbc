"""Labelled points of the plane: spirals, moons, circles, blobs and those of Wang et al., drawn from a seed."""

from __future__ import annotations

import math
from typing import Any, Literal, Self, get_args

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from evolvent._core.checks import check_choice
from evolvent._core.config import Config

_CORNERS = torch.tensor([[[0.0, 0.0], [2.0, 2.0]], [[0.0, 2.0], [2.0, 0.0]]])  # of XOR: class, disc, coordinate


class PointCloud(Config):
    r"""Points near one curve for each class.

    Four kinds have places along their curves drawn at random, are about as large as the unit disc and have any number
    of classes: ``spirals`` are the arms of one spiral; ``moons`` are half circles in a row, open downwards and upwards
    in turn; ``circles`` have a common centre; ``blobs`` are normal clouds around the corners of a polygon.

    Four are the sets of Wang et al. 2024, section E.1.1, of two classes and in the paper's units: ``moon``, half
    circles of radius 1 around (0, 0) and (1, 0.5); ``circle``, circles of radius 1 and 2; ``spiral``,
    :math:`r = \pm (1 + \theta)` for one turn, all three with evenly spaced places along the curves, as in the paper's
    code; ``xor``, discs of radius 0.75 around (0, 0) and (2, 2) against (0, 2) and (2, 0). The paper's noise is 0.05,
    0.05, 0.1 and 0.

    >>> x, y = PointCloud(kind="moons", points=3).draw(seed=0)
    >>> x.shape, y.tolist()
    (torch.Size([6, 2]), [0, 0, 0, 1, 1, 1])
    >>> PointCloud(kind="xor", points=4).subclasses().tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """

    kind: Literal["spirals", "moons", "circles", "blobs", "xor", "moon", "circle", "spiral"] = "spirals"
    classes: int = Field(default=2, ge=2, le=8)
    points: int = Field(default=250, ge=2, le=10**8, description="number of points of each class")
    turns: float = Field(default=2.0, gt=0, allow_inf_nan=False, description="turns of each spiral around the centre")
    noise: float = Field(
        default=0.02, ge=0, allow_inf_nan=False, description="standard deviation around the curve, along each axis"
    )

    @field_validator("kind", mode="before")
    @classmethod
    def _is_known(cls, kind: Any) -> Any:
        return check_choice("kind of points", kind, get_args(PointCloud.model_fields["kind"].annotation))

    @model_validator(mode="after")
    def _has_two_classes(self) -> Self:
        if self.kind in ("xor", "moon", "circle", "spiral") and self.classes != 2:
            raise ValueError(f"{self.kind!r} has two classes, got {self.classes}")
        return self

    def draw(self, seed: int, points: int | None = None) -> tuple[Tensor, Tensor]:
        """Points (classes * points, 2) and their classes, class by class; a function of the seed alone."""
        generator = torch.Generator().manual_seed(seed)
        along = torch.rand(self.classes, self.points if points is None else points, generator=generator)
        number = torch.arange(self.classes)[:, None]
        if self.kind == "xor":
            place = _disc(0.75, along, torch.rand(along.shape, generator=generator)) + _CORNERS[number, _halves(along)]
        else:
            place = torch.stack(torch.broadcast_tensors(*self._curve(along, number)), dim=-1)
        noise = torch.randn((*along.shape, 2), generator=generator)
        return (place + self.noise * noise).flatten(0, 1), number.expand_as(along).flatten()

    def subclasses(self, points: int | None = None) -> Tensor:
        """The connected part that each point was drawn in: of ``xor`` the disc, of all others the class."""
        parts = torch.arange(self.classes)[:, None].expand(-1, self.points if points is None else points)
        return (2 * parts + _halves(parts) if self.kind == "xor" else parts).flatten()

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
            case _:
                return self._even_curve(torch.linspace(0, 1, along.shape[1]), number)

    def _even_curve(self, along: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """The curves of Wang et al., at evenly spaced places."""
        side = 1 - 2 * number
        match self.kind:
            case "moon":
                x, y = _polar(1.0, along / 2)
                return side * x + number, side * y + number / 2
            case "circle":
                return _polar(1.0 + number, along)
            case _:
                return _polar(side * (1 + 2 * math.pi * along), along)


def _polar(radius: Tensor | float, turns: Tensor) -> tuple[Tensor, Tensor]:
    angle = 2 * math.pi * turns
    return radius * angle.cos(), radius * angle.sin()


def _disc(radius: float, share: Tensor, turns: Tensor) -> Tensor:
    """Points of a disc, uniform if the share of its area inside them and their angle are."""
    return torch.stack(_polar(radius * share.sqrt(), turns), dim=-1)


def _halves(of: Tensor) -> Tensor:
    """Zeros for the first half of each row, ones for the other."""
    return (torch.arange(of.shape[1]) >= -(-of.shape[1] // 2)).long().expand_as(of)
