"""Densities from which points are drawn by their number, not by history."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_not_negative, check_positive, check_whole, told
from evolvent._core.errors import ConfigError, EvolventError, ShapeError, shortened
from evolvent._core.randomness import Stream, key, normal, uniform
from evolvent._core.registry import Registry
from evolvent.data.source import Source


class Density(ABC):
    """A probability density in d dimensions.

    Args:
        dimension: d.
    """

    def __init__(self, dimension: int) -> None:
        check_whole(1, dimension=dimension)
        self.dimension = dimension

    @property
    def known(self) -> bool:
        """Whether :meth:`log_density` can be computed, and is finite everywhere."""
        return type(self).log_density is not Density.log_density

    @abstractmethod
    def draw(self, rows: Tensor, *key: int) -> Tensor:
        """The points of these numbers, a function of numbers and key alone. Shape: (N,) to (N, d)."""

    def log_density(self, x: Tensor) -> Tensor:
        """The logarithm of the density. Shape: (N, d) to (N, 1)."""
        raise ConfigError(f"the density of {type(self).__name__} is only known by its points.")

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.dimension:
            raise ShapeError(
                f"a density in {self.dimension} dimensions takes points (N, {self.dimension}), got {tuple(x.shape)}."
            )


class GaussianMixture(Density):
    r"""A sum of normal densities, :math:`\sum_k w_k\, \mathcal N(m_k, \mathrm{diag}(s^2))`.

    Args:
        centres: :math:`m_k`, at least one; coordinates that are left out are 0.
        spread: standard deviation s, one for all coordinates or one for each.
        weights: :math:`w_k`, equal unless given; their sum need not be 1.
        dimension: d.

    >>> two = GaussianMixture([[-1.0], [1.0]], spread=0.1, dimension=1)
    >>> two.draw(torch.arange(4), 0).shape, two.log_density(torch.zeros(3, 1)).shape
    (torch.Size([4, 1]), torch.Size([3, 1]))
    """

    def __init__(
        self,
        centres: Sequence[Sequence[float]],
        spread: float | Sequence[float] = 1.0,
        weights: Sequence[float] = (),
        dimension: int = 2,
    ) -> None:
        super().__init__(dimension)
        centres = [_numbers("centre", centre) for centre in centres]
        longest = max((len(centre) for centre in centres), default=0)
        if not centres or longest > dimension:
            raise ConfigError(
                f"a mixture in {dimension} dimensions needs centres of at most {dimension} coordinates, got "
                f"{len(centres)} centres of up to {longest}. Raise dimension, or shorten the centres."
            )
        self.centres = torch.zeros(len(centres), dimension)
        for k, centre in enumerate(centres):
            self.centres[k, : len(centre)] = torch.tensor(centre)
        self.spread = torch.tensor(_for_each(spread, dimension))
        self.weights = torch.tensor(_shares(_numbers("weights", weights) or [1.0] * len(centres), len(centres)))

    def draw(self, rows: Tensor, *key: int) -> Tensor:
        index = rows[:, None] * self.dimension + torch.arange(self.dimension, device=rows.device)
        chosen = torch.searchsorted(self.weights.cumsum(0).to(rows.device), uniform(rows, *key, 2))
        chosen = chosen.clamp(max=len(self.centres) - 1)  # where rounding leaves the sum below 1
        return self.centres.to(rows.device)[chosen] + self.spread.to(rows.device) * normal(index, *key)

    def log_density(self, x: Tensor) -> Tensor:
        self._check(x)
        spread = self.spread.to(x)
        distances = ((x[:, None] - self.centres.to(x)) / spread).square().sum(2)
        constant = spread.log().sum() + self.dimension * math.log(2 * math.pi) / 2
        return torch.logsumexp(self.weights.to(x).log() - distances / 2, 1, keepdim=True) - constant


class Planar(Density):
    """Points of a pattern in the plane, which has no density that is positive everywhere; other coordinates are normal.

    ``checkerboard`` fills every other square of a board of four by four; ``moons`` are two half circles, ``rings`` four
    circles, ``spirals`` two arms. All lie within about 4 of the origin.

    Args:
        pattern: one of these names.
        noise: standard deviation around curves.
        dimension: d, at least 2.
    """

    def __init__(self, pattern: str, noise: float = 0.1, dimension: int = 2) -> None:
        super().__init__(dimension)
        if dimension < 2:
            raise ConfigError(f"{pattern!r} lies in a plane: dimension must be at least 2, got {dimension}.")
        check_not_negative(noise=noise)
        self.pattern, self.noise = check_choice("pattern", pattern, _PATTERNS), noise

    def draw(self, rows: Tensor, *key: int) -> Tensor:
        along, across, part = (uniform(rows, *key, number) for number in (2, 3, 4))
        index = rows[:, None] * self.dimension + torch.arange(self.dimension, device=rows.device)
        x = normal(index, *key)
        plane = torch.stack(_PATTERNS[self.pattern](along, across, part), 1)
        noise = 0.0 if self.pattern == "checkerboard" else self.noise
        return torch.cat([plane + noise * x[:, :2], x[:, 2:]], 1)


def _checkerboard(along: Tensor, across: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    square = (part * 8).long().clamp(max=7)
    row, column = square // 2, square % 2 * 2
    return 2 * (column + (row + 1) % 2 + along) - 4, 2 * (row + across) - 4


def _moons(along: Tensor, across: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    side = torch.where(part < 0.5, 1.0, -1.0)
    angle = math.pi * along
    return 2 * side * angle.cos() - side, 2 * side * angle.sin() - side / 2


def _rings(along: Tensor, across: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    ring = (part * 4).floor().clamp(max=3) + 1
    angle = 2 * math.pi * along
    return ring * angle.cos() * 0.9, ring * angle.sin() * 0.9


def _spirals(along: Tensor, across: Tensor, part: Tensor) -> tuple[Tensor, Tensor]:
    side = torch.where(part < 0.5, 1.0, -1.0)
    angle = 3 * math.pi * along.sqrt()
    radius = side * angle / 3
    return radius * angle.cos(), radius * angle.sin()


_PATTERNS: dict[str, Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "checkerboard": _checkerboard, "moons": _moons, "rings": _rings, "spirals": _spirals,
}  # fmt: skip

DENSITIES: Registry[Callable[..., Density]] = Registry("density")


def register_density(name: str) -> Callable[[Callable[..., Density]], Callable[..., Density]]:
    """Register a function of ``dimension`` and options of its own that makes a density."""

    def add(make: Callable[..., Density]) -> Callable[..., Density]:
        DENSITIES.add(name, make)
        return make

    return add


def make_density(name: str, dimension: int, **options: Any) -> Density:
    """The density of a name; options that it does not have are refused.

    >>> make_density("gaussian", 3, centre=[1.0], spread=0.5).draw(torch.arange(2), 0).shape
    torch.Size([2, 3])
    """
    make = DENSITIES.get(name)
    known = [option for option in inspect.signature(make).parameters if option != "dimension"]
    for option in options:
        check_choice(f"option of density {name!r}", option, known)
    try:
        return make(dimension=dimension, **options)
    except EvolventError:
        raise
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{option}: {told(value)}" for option, value in options.items())
        raise ConfigError(
            f"density {name!r} cannot be made with {shortened(given, 100) or 'its own options'}: "
            f"{shortened(str(error), 100)}. Change these options."
        ) from error


@register_density("gaussian")
def gaussian(dimension: int, centre: Sequence[float] = (0.0,), spread: float | Sequence[float] = 1.0) -> Density:
    """One normal density."""
    return GaussianMixture([centre], spread, dimension=dimension)


@register_density("gaussians")
def gaussians(
    dimension: int, modes: int = 8, radius: float = 4.0, spread: float = 0.3**0.5, weights: Sequence[float] = ()
) -> Density:
    """Normal densities around a circle of the first two coordinates, by default as in Ruthotto et al. 2020."""
    check_whole(1, modes=modes)
    check_positive(radius=radius)
    angles = [2 * math.pi * k / modes for k in range(modes)]
    centres = [[radius * math.cos(angle), radius * math.sin(angle)] for angle in angles]
    return GaussianMixture(centres, spread, weights, dimension)


def _register_pattern(name: str) -> None:
    @register_density(name)
    def make(dimension: int, noise: float = 0.1) -> Density:
        return Planar(name, noise, dimension)


for _name in _PATTERNS:
    _register_pattern(_name)


class DensityPairs(Source):
    """Points of two densities, where a transport begins and may end, and a time of the way; drawn anew in every epoch.

    Args:
        source, target: the densities, of one dimension.
        count: of pairs.
        part: sources of different parts share no point.

    >>> pairs = DensityPairs(make_density("gaussian", 2), make_density("moons", 2), count=8)
    >>> [drawn.shape for drawn in pairs.take(torch.tensor([2, 4]), seed=0, epoch=0)]
    [torch.Size([2, 2]), torch.Size([2, 2]), torch.Size([2, 1])]
    """

    def __init__(self, source: Density, target: Density, count: int, part: int = 0) -> None:
        if source.dimension != target.dimension:
            raise ConfigError(
                f"source and target must have the same dimension, got {source.dimension} and {target.dimension}."
            )
        self.source, self.target, self.count, self.part = source, target, count, part

    def __len__(self) -> int:
        return self.count

    def take(self, rows: Tensor, seed: int, epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Shape: rows (B,) to (B, d), (B, d) and times between 0 and 1, (B, 1)."""
        first, second, third = (key(Stream.DENSITY, seed, epoch, 3 * self.part + k) for k in range(3))
        return self.source.draw(rows, *first), self.target.draw(rows, *second), uniform(rows, *third)[:, None]


def _for_each(spread: float | Sequence[float], dimension: int) -> list[float]:
    values = [float(spread)] * dimension if isinstance(spread, (int, float)) else _numbers("spread", spread)
    if len(values) != dimension:
        raise ConfigError(f"spread needs one number or one for each of {dimension} coordinates, got {len(values)}.")
    for value in values:
        check_positive(spread=value)
    return values


def _numbers(option: str, values: Any) -> list[float]:
    """The values of an option that is a list of finite numbers."""
    try:
        found = None if isinstance(values, str) else [float(value) for value in values]
    except (TypeError, ValueError):
        found = None
    if found is None or not all(map(math.isfinite, found)):
        raise ConfigError(f"{option} of a density is a list of finite numbers, such as [1.0, 2.0], got {told(values)}.")
    return found


def _shares(weights: Sequence[float], modes: int) -> list[float]:
    if len(weights) != modes:
        raise ConfigError(f"weights needs one number for each of {modes} modes, got {len(weights)}.")
    if not all(0 <= w < math.inf for w in weights) or not sum(weights) > 0:
        raise ConfigError(
            f"weights of a density must be finite, none negative and not all 0, got {list(weights)}: a density is "
            "nowhere below 0."
        )
    return [w / sum(weights) for w in weights]
