"""Multilayer perceptrons as functions of coordinates: the networks that represent solutions of equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, TypeAlias

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import handle_torch_function, has_torch_function_unary

from evolvent._core.errors import ConfigError, ShapeError
from evolvent.networks._options import Count, NetworkOptions, NumClasses, Width
from evolvent.networks._registry import ModelSpec, register_family

Symmetry: TypeAlias = Literal["none", "periodic", "even", "odd", "periodic-even", "periodic-odd"]


def tanh_layers(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    r"""Layers :math:`y = \tanh(W_l u + b_l)`, the last without tanh, as one operation.

    Tensors that carry derivatives find one rule for all layers, which is much faster than one for each.

    Args:
        x: (N, in).
        parameters: :math:`W_1, b_1, W_2, b_2, \dots`
    """
    if has_torch_function_unary(x):
        return handle_torch_function(tanh_layers, (x,), x, parameters)
    *hidden, last = zip(parameters[::2], parameters[1::2], strict=True)
    for weight, bias in hidden:
        x = torch.tanh(F.linear(x, weight, bias))
    return F.linear(x, *last)


class CoordinateInputs(nn.Module):
    r"""Inputs that have the symmetries of a function of coordinates, each scaled to :math:`s \in [-1, 1]` first.

    ``none``: :math:`s`; ``periodic``: :math:`\cos k \pi s` and :math:`\sin k \pi s`; ``periodic-even``:
    :math:`\cos k \pi s`; ``even``: :math:`s^2`. Odd ones have the inputs of even ones, and a factor
    :math:`\sin \pi s` or :math:`s` of the result.

    Args:
        lower, upper: the box of the coordinates.
        symmetry: of the function in each coordinate.
        harmonics: k runs from 1 to this.

    Shape: (N, coordinates) to (N, size).
    """

    def __init__(
        self, lower: Sequence[float], upper: Sequence[float], symmetry: Sequence[Symmetry], harmonics: int = 1
    ) -> None:
        super().__init__()
        if not len(lower) == len(upper) == len(symmetry):
            raise ConfigError(
                f"each coordinate needs a lower and an upper end and a symmetry, got {len(lower)}, {len(upper)} and "
                f"{len(symmetry)}."
            )
        for low, high in zip(lower, upper, strict=True):
            if not -math.inf < low < high < math.inf:
                raise ConfigError(f"a coordinate runs from a finite lower end to a larger one, got {low} to {high}.")
        self.lower, self.upper, self.symmetry, self.harmonics = lower, upper, symmetry, harmonics

    @property
    def size(self) -> int:
        """Number of inputs."""
        each = {"periodic": 2 * self.harmonics, "periodic-even": self.harmonics, "periodic-odd": self.harmonics}
        return sum(each.get(kind, 1) for kind in self.symmetry)

    def forward(self, x: Tensor) -> Tensor:
        if self._alike:  # a column each would leave a gradient of all coordinates each, too much for a thousand
            [(low, high)] = set(zip(self.lower, self.upper, strict=True))
            return (x - (low + high) / 2) * (2 / (high - low))
        return torch.cat([part for s, kind in self._scaled(x) for part in self._inputs(s, kind)], dim=1)

    def factor(self, x: Tensor) -> Tensor | None:
        """What makes the result odd, (N, 1); None if nothing must."""
        if not any("odd" in kind for kind in self.symmetry):
            return None
        odd = [torch.sin(math.pi * s) if "periodic" in kind else s for s, kind in self._scaled(x) if "odd" in kind]
        product = None
        for one in odd:
            product = one if product is None else product * one
        return product

    @property
    def _alike(self) -> bool:
        """Whether all coordinates have the same ends and no symmetry."""
        return set(self.symmetry) == {"none"} and len(set(zip(self.lower, self.upper, strict=True))) == 1

    def _scaled(self, x: Tensor) -> list[tuple[Tensor, Symmetry]]:
        ends = zip(self.lower, self.upper, self.symmetry, strict=True)
        scaled = [(x[:, i : i + 1] - (low + high) / 2) * (2 / (high - low)) for i, (low, high, _) in enumerate(ends)]
        return list(zip(scaled, self.symmetry, strict=True))

    def _inputs(self, s: Tensor, kind: Symmetry) -> list[Tensor]:
        if kind == "none":
            return [s]
        if kind in ("even", "odd"):
            return [s * s]
        waves: list[Callable[[Tensor], Tensor]] = [torch.cos, torch.sin] if kind == "periodic" else [torch.cos]
        return [wave(k * math.pi * s) for k in range(1, self.harmonics + 1) for wave in waves]

    def extra_repr(self) -> str:
        ends = zip(self.lower, self.upper, self.symmetry, strict=True)
        return ", ".join(f"[{low:g}, {high:g}] {kind}" for low, high, kind in ends)


class Perceptron(nn.Module):
    r"""A function of coordinates, :math:`u(x) = \text{shift} + \text{scale} \cdot o(x)\, N(\varphi(x))`.

    :math:`N` has layers :math:`\tanh(W u + b)` and a linear one, :math:`\varphi` are the :class:`CoordinateInputs`,
    and :math:`o` their factor.

    Args:
        inputs: of the network.
        widths: of the hidden layers.
        out_features: components of u.
        scale, shift: of the result, so that the network itself gives numbers of order one.

    Shape: (N, coordinates) to (N, out_features).
    """

    spec: ModelSpec

    def __init__(
        self, inputs: CoordinateInputs, widths: Sequence[int], out_features: int, scale: float = 1.0, shift: float = 0.0
    ) -> None:
        super().__init__()
        self.inputs, self.scale, self.shift = inputs, scale, shift
        sizes = [inputs.size, *widths, out_features]
        made = [nn.Linear(i, o) for i, o in pairwise(sizes)]
        for layer in made:
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.layers = nn.ModuleList(made)

    @property
    def in_features(self) -> int:
        """Number of coordinates."""
        return len(self.inputs.symmetry)

    def forward(self, x: Tensor) -> Tensor:
        self._check(x)
        u = tanh_layers(self.inputs(x), list(self.layers.parameters()))
        factor = self.inputs.factor(x)
        u = u if factor is None else u * factor
        u = u if self.scale == 1 else u * self.scale
        return u if self.shift == 0 else u + self.shift

    def forward_features(self, x: Tensor) -> Tensor:
        """The last hidden layer."""
        self._check(x)
        u = self.inputs(x)
        for layer in self.layers[:-1]:
            u = torch.tanh(layer(u))
        return u

    def _check(self, x: Tensor) -> None:
        if x.ndim != 2 or x.shape[1] != self.in_features:
            raise ShapeError(
                f"this network takes points of {self.in_features} coordinates, as (points, coordinates), got "
                f"{tuple(x.shape)}. Create it with other in_features, or change the points."
            )


@dataclass(frozen=True, kw_only=True)
class PerceptronOptions(NetworkOptions):
    num_classes: NumClasses = 1
    in_features: Annotated[Count, "coordinates of a point"] = 2
    width: Width = 30
    layers: Annotated[int, Ge(1), "hidden layers"] = 3
    lower: Annotated[tuple[float, ...], "lower ends of the coordinates; -1 for all if empty"] = ()
    upper: Annotated[tuple[float, ...], "upper ends of the coordinates; 1 for all if empty"] = ()
    symmetry: Annotated[tuple[Symmetry, ...], "symmetry of the function in each coordinate; none if empty"] = ()
    harmonics: Annotated[Count, "waves that periodic coordinates enter by"] = 1
    scale: Annotated[float, "factor of the result"] = 1.0
    shift: Annotated[float, "constant added to the result"] = 0.0


@register_family("perceptron", PerceptronOptions, papers=("raissi2019",), recipe="prnet-figure8")
def perceptron(options: PerceptronOptions) -> Perceptron:
    r"""Perceptron of coordinates: a function with declared symmetries, for solutions of equations.

    .. math:: u(x) = N(\varphi(x)), \qquad N = W_n \tanh(W_{n-1} \tanh(\cdots) + b_{n-1}) + b_n

    The network of physics-informed training (Raissi, Perdikaris, Karniadakis 2019). Coordinates are scaled to
    [-1, 1]; one declared periodic, even or odd enters by functions that are, so that u is so exactly.
    ``num_classes`` is the number of components of u.

    Shape: (N, in_features) to (N, num_classes).

    >>> import torch
    >>> import evolvent as ev
    >>> net = ev.create_model("perceptron", symmetry=("periodic-even", "none"))
    >>> x = torch.tensor([[0.3, 0.1], [-0.3, 0.1], [2.3, 0.1]])
    >>> bool(torch.allclose(net(x), net(x[:1]).expand(3, 1), atol=1e-5))
    True
    """
    d = options.in_features
    inputs = CoordinateInputs(
        options.lower or (-1.0,) * d,
        options.upper or (1.0,) * d,
        options.symmetry or ("none",) * d,
        options.harmonics,
    )
    if len(inputs.symmetry) != d:
        raise ConfigError(f"{d} coordinates need {d} symmetries and ends, got {len(inputs.symmetry)}.")
    widths = [options.width] * options.layers
    return Perceptron(inputs, widths, options.num_classes, options.scale, options.shift)
