"""The potential of OT-Flow: its gradient transports points, and its Laplacian changes their density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple, cast

import torch
from annotated_types import Ge
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.errors import ShapeError
from evolvent.networks._options import Count, NetworkOptions, NumClasses
from evolvent.networks._registry import ModelSpec, register_family

_NEARLY_LINEAR = 60.0  # where softplus(z) = z in every precision


@dataclass(frozen=True, kw_only=True)
class OTFlowOptions(NetworkOptions):
    num_classes: NumClasses = 1
    in_features: Annotated[Count, "coordinates of a point, without time"] = 2
    width: Annotated[Count, "units of a layer of the residual network"] = 32
    layers: Annotated[Count, "layers of the residual network, the first included"] = 2
    rank: Annotated[int, Ge(0), "rank of the quadratic part; the smaller of 10 and coordinates with time if 0"] = 0


class Slopes(NamedTuple):
    """What :meth:`PotentialNetwork.gradient_and_laplacian` finds."""

    gradient: Tensor  # (N, d + 1), in all coordinates and in time
    laplacian: Tensor  # (N, 1), in the coordinates alone


class PotentialNetwork(nn.Module):
    r"""A potential with closed-form gradient and Laplacian, at points of space and time :math:`s = (x, t)`.

    .. math:: \Phi(s) = w^\top N(s) + \tfrac 12 s^\top A^\top A s + b^\top s + c, \\
              u_0 = \sigma(K_0 s + b_0), \quad u_i = u_{i-1} + h\, \sigma(K_i u_{i-1} + b_i), \quad N = u_m

    with :math:`\sigma(z) = |z| + \ln(1 + e^{-2|z|})`, whose derivative is tanh. Onken et al. 2021, section 3.

    Shape: (N, in_features + 1), time last, to (N, 1).
    """

    spec: ModelSpec

    def __init__(self, options: OTFlowOptions) -> None:
        super().__init__()
        self.options = options
        size, width = options.in_features + 1, options.width
        self.opening = nn.Linear(size, width)
        self.residual = nn.ModuleList(nn.Linear(width, width) for _ in range(options.layers - 1))
        self.weights = nn.Parameter(torch.full((width,), 1 / width))
        self.quadratic = nn.Parameter(torch.empty(options.rank or min(10, size), size))
        self.linear = nn.Parameter(torch.zeros(size))
        self.constant = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.quadratic, gain=0.1)

    @property
    def step_size(self) -> float:
        """:math:`h` of the residual layers, which end at time 1."""
        return 1 / max(1, len(self.residual))

    def forward(self, s: Tensor) -> Tensor:
        features = self.forward_features(s)
        square = F.linear(s, self.quadratic).square().sum(1)
        return (features @ self.weights + square / 2 + s @ self.linear + self.constant)[:, None]

    def forward_features(self, s: Tensor) -> Tensor:
        """The residual network :math:`N(s)`."""
        self._check(s)
        u = antiderivative(self.opening(s))
        for layer in self.residual:
            u = u + self.step_size * antiderivative(layer(u))
        return u

    def velocity(self, s: Tensor) -> Tensor:
        r"""Where the potential sends a point, :math:`v = -\nabla_x \Phi`. Shape: (N, d + 1) to (N, d)."""
        return -self.gradient(s)[:, :-1]

    def gradient(self, s: Tensor) -> Tensor:
        r""":math:`\nabla \Phi` in space and time. Shape: (N, d + 1) to the same."""
        slopes = self._slopes(s)
        return self._gradient(s, slopes, self._adjoints(slopes))

    def gradient_and_laplacian(self, s: Tensor) -> Slopes:
        r""":math:`\nabla \Phi` in space and time and :math:`\Delta_x \Phi` in space, both in closed form.

        .. math:: \Delta_x \Phi = \sum_i h_i\, \sigma''(K_i u_{i-1} + b_i)^\top
                  (z_{i+1} \odot |K_i \nabla_x u_{i-1}|^2) + |A_x|^2

        where :math:`z_i = \partial \Phi / \partial u_{i-1}`, squares are of rows, and :math:`A_x` is A without its last
        column, that of time. It takes O(layers width² min(d, width)) operations.
        """
        slopes = self._slopes(s)
        adjoints = self._adjoints(slopes)
        rows = self._directions()  # (e, width)
        trace = ((1 - slopes[0].square()) * adjoints[0]) @ rows.square().sum(0)
        tangents = slopes[0][:, None] * rows if len(self.residual) > 1 else None  # (N, e, width): derivatives of u
        for i, (layer, slope, adjoint) in enumerate(zip(self._weights(), slopes[1:], adjoints[1:], strict=True)):
            inner = F.linear(tangents, layer) if i and tangents is not None else _scaled(rows, slopes[0], layer)
            bent = (1 - slope.square()) * adjoint * inner.square().sum(1)
            trace = trace + self.step_size * bent.sum(1)
            if tangents is not None:
                tangents = tangents + self.step_size * slope[:, None] * inner
        trace = trace + self.quadratic[:, :-1].square().sum()
        return Slopes(self._gradient(s, slopes, adjoints), trace[:, None])

    def _slopes(self, s: Tensor) -> list[Tensor]:
        r""":math:`\sigma'` of every layer, (N, width) each."""
        self._check(s)
        z = self.opening(s)
        slopes, u = [torch.tanh(z)], antiderivative(z)
        for k, layer in enumerate(self.residual):
            z = layer(u)
            slopes.append(torch.tanh(z))
            if k + 1 < len(self.residual):
                u = u + self.step_size * antiderivative(z)
        return slopes

    def _adjoints(self, slopes: list[Tensor]) -> list[Tensor]:
        r"""The derivatives of :math:`w^\top N` by what each layer gives, (N, width) each."""
        adjoint = self.weights.expand_as(slopes[0])
        found = [adjoint]
        for layer, slope in zip(reversed(self._weights()), reversed(slopes[1:]), strict=True):
            adjoint = adjoint + self.step_size * (slope * adjoint) @ layer
            found.append(adjoint)
        first, *later = reversed(found)
        return [first, *later]

    def _gradient(self, s: Tensor, slopes: list[Tensor], adjoints: list[Tensor]) -> Tensor:
        bowl = F.linear(s, self.quadratic) @ self.quadratic
        return (slopes[0] * adjoints[0]) @ self.opening.weight + bowl + self.linear

    def _weights(self) -> list[Tensor]:
        return [cast(nn.Linear, layer).weight for layer in self.residual]

    def _directions(self) -> Tensor:
        """The first weight in space, (d, width); if d is large, a square matrix with the same inner products."""
        columns = self.opening.weight[:, :-1].T
        return columns if len(columns) <= columns.shape[1] else torch.linalg.qr(columns).R

    def _check(self, s: Tensor) -> None:
        if s.ndim != 2 or s.shape[1] != self.options.in_features + 1:
            raise ShapeError(
                f"this network takes {self.options.in_features} coordinates and then a time in each row, got shape "
                f"{tuple(s.shape)}."
            )


def _scaled(rows: Tensor, scales: Tensor, weight: Tensor) -> Tensor:
    """Rows (e, a) scaled for each point by (N, a), times a weight (k, a): one product of matrices for all points."""
    every = torch.einsum("ea,ka->aek", rows, weight)
    return (scales @ every.flatten(1)).unflatten(1, every.shape[1:])


def antiderivative(z: Tensor) -> Tensor:
    r""":math:`|z| + \ln(1 + e^{-2|z|}) = \ln(2 \cosh z)`, whose derivative is tanh."""
    return z + F.softplus(
        -2 * z, threshold=_NEARLY_LINEAR
    )  # the same, and smooth at 0 for automatic differentiation too


@register_family("otflow", OTFlowOptions, papers=("onken2021", "ruthotto2020mfg"), recipe="ot-gauss-mixture")
def otflow(options: OTFlowOptions) -> PotentialNetwork:
    r"""OT-Flow: a potential whose negative gradient transports one density to another.

    .. math:: \Phi(s) = w^\top N(s) + \tfrac 12 s^\top A^\top A s + b^\top s + c, \qquad x' = -\nabla_x \Phi(x, t)

    Onken, Wu Fung, Li, Ruthotto 2021; Ruthotto, Osher, Li, Nurbekyan, Wu Fung 2020. Gradient and Laplacian come in
    closed form from :meth:`~evolvent.networks.PotentialNetwork.gradient_and_laplacian`;
    :class:`evolvent.equations.TransportFlow` moves points and densities. ``num_classes`` has no meaning.

    Shape: points and times (N, in_features + 1), time last, to the potential (N, 1).

    >>> import torch
    >>> import evolvent as ev
    >>> potential = ev.create_model("otflow", in_features=5)
    >>> gradient, laplacian = potential.gradient_and_laplacian(torch.zeros(3, 6))
    >>> potential(torch.zeros(3, 6)).shape, gradient.shape, laplacian.shape
    (torch.Size([3, 1]), torch.Size([3, 6]), torch.Size([3, 1]))
    """
    return PotentialNetwork(options)
