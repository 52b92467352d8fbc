"""Linear differential operators that commute with a group: steerable PDOs."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_whole
from evolvent._core.errors import ConfigError
from evolvent.groups import (
    Field,
    cyclic,
    derivative_representation,
    intertwiners,
    multi_indices,
    regular,
    tensor_product,
)
from evolvent.groups.representation import range_of
from evolvent.operators._contract import FieldOperator
from evolvent.operators.convolution import channel_major, mix_channels
from evolvent.operators.differential.constants import ConstantsModule
from evolvent.operators.differential.field_checks import check_fields, check_map_size
from evolvent.operators.differential.inference import FixedConvolution, HasOrdinaryForm
from evolvent.operators.differential.stencils import (
    Discretisation,
    FiniteDifferences,
    given_or_fitted,
    rotated_stencils,
)

Basis: TypeAlias = Literal["complete", "band_limited"]


class SteerablePDO(FieldOperator, HasOrdinaryForm, ConstantsModule):
    r"""A differential operator with constant coefficients that commutes with a group, between any two fields.

    .. math:: (L f)(x) = \sum_{|\alpha| \le N} W_\alpha\, \partial^\alpha f(x), \qquad
              \sum_\beta \hat\rho_{\beta\alpha}(g)\, W_\beta\, \rho(g) = \rho'(g)\, W_\alpha

    Jenner and Weiler 2022; eq. (8) of He et al. 2023 with coefficients that do not depend on the features. On pixels it
    is a convolution, whose kernel is made from the weights in every pass. It commutes exactly with the elements of the
    group that move pixels onto pixels, and nearly with the others.

    Args:
        in_field, out_field: how features transform before and after.
        order: highest order :math:`N` of derivatives.
        discretisation: of the derivatives; :class:`FittedGaussian` of size 5 unless given.
        padding: zeros on each side; as many as keep the size unless given.
        basis: ``"complete"``, or ``"band_limited"`` for maps between regular fields of a cyclic group: Fourier modes
            over the orientations are coupled only as far as their frequencies do not wrap around, which is what the
            package e2cnn offers.

    Shape: (B, in_field.channels, H, W) to (B, out_field.channels, H, W) by default; the adjoint goes back.

    >>> from evolvent.groups import cyclic, regular_fields, scalars
    >>> C8 = cyclic(8)
    >>> lift = SteerablePDO(scalars(C8), regular_fields(C8, 2))
    >>> u = torch.randn(1, 1, 9, 9)
    >>> torch.allclose(lift(u.rot90(1, (2, 3))), lift.out_field.transform(lift(u), 2), atol=1e-5)
    True
    """

    space_axes = 2
    stencils: Tensor
    turning: Tensor
    modes: Tensor
    coefficients: Tensor

    def __init__(
        self,
        in_field: Field,
        out_field: Field,
        order: int = 3,
        discretisation: Discretisation | None = None,
        *,
        padding: int | None = None,
        basis: Basis = "complete",
    ) -> None:
        super().__init__()
        check_fields(self, in_field, out_field)
        if in_field.group != out_field.group:
            raise ConfigError(
                f"a map from {in_field} to {out_field} needs fields of one group. Use GroupRestriction before it."
            )
        check_choice("basis", basis, get_args(Basis))
        self.in_field, self.out_field, self.order = in_field, out_field, order
        self.discretisation = given_or_fitted(discretisation)
        self.discretisation.check_order(order, f"SteerablePDO from {in_field} to {out_field}")
        self.padding = self.discretisation.size // 2 if padding is None else padding
        check_whole(0, padding=self.padding)
        self.basis: Basis = basis
        self._turns = _kernels_turn(in_field, out_field)
        count = self._prepare_turning() if self._turns else self._prepare_intertwiners()
        self.weight = nn.Parameter(torch.empty(out_field.multiplicity, in_field.multiplicity, count))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights so that a ReLU after white noise keeps its variance (He et al. 2015)."""
        fan_in = max(1, self.weight.shape[1] * self.weight.shape[2])
        nn.init.normal_(self.weight, std=math.sqrt(2 / fan_in))

    def _prepare_turning(self) -> int:
        r"""For regular results of moved entries, :math:`k_{g h} = \sum_\alpha c_{g^{-1} h, \alpha} S_{g \alpha}` with
        the stencils :math:`S_g` in the frame of :math:`g` and any :math:`c`."""
        group, moved = self.in_field.group, self.in_field.representation.permutation
        assert moved is not None
        relative = moved[group.inverses]  # the number of g^-1 h
        self.add_constant("turning", np.eye(self.in_field.size)[:, relative])  # a product with it is a fast gather
        self.add_constant("stencils", rotated_stencils(group, self.order, self.discretisation))
        count = self.in_field.size * len(multi_indices(self.order))
        if self.basis == "band_limited" and self.in_field.size > 1:
            modes = _band_limited(self.in_field, self.order)
            self.add_constant("modes", modes)
            return len(modes)
        return count

    def _prepare_intertwiners(self) -> int:
        """For other fields, an orthonormal basis of all coefficients; each output has the variance of the weights."""
        if self.basis == "band_limited":
            raise ConfigError(f"basis='band_limited' is for regular fields, got {self.in_field} to {self.out_field}.")
        group = self.in_field.group
        derivatives = derivative_representation(group, self.order)
        found = intertwiners(tensor_product(self.in_field.representation, derivatives), self.out_field.representation)
        found = found.reshape(len(found), self.out_field.size, self.in_field.size, derivatives.size)
        self.add_constant("coefficients", math.sqrt(self.out_field.size) * found)
        self.add_constant("stencils", rotated_stencils(group, self.order, self.discretisation)[0])
        return len(found)

    def kernel(self) -> Tensor:
        """The convolution kernel, (out_field.channels, in_field.channels, size, size)."""
        kernel = self._turned_kernel() if self._turns else self._combined_kernel()
        size = self.discretisation.size
        return kernel.reshape(self.out_field.channels, self.in_field.channels, size, size)

    def _turned_kernel(self) -> Tensor:
        weight = self.weight @ self.modes if hasattr(self, "modes") else self.weight
        own = weight.unflatten(2, (self.in_field.size, -1))  # (o, i, h, D), seen from the first orientation
        if self.discretisation.size == 1:  # the only derivative is the value itself
            return torch.einsum("oih,hgk->ogik", own.squeeze(3), self.turning)
        turned = torch.einsum("oihd,hgk->oigkd", own, self.turning)
        return torch.einsum("oigkd,gdt->ogikt", turned, self.stencils)

    def _combined_kernel(self) -> Tensor:
        mixed = torch.einsum("oib,bpqd->opiqd", self.weight, self.coefficients)
        return mixed @ self.stencils

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, type(self).__name__)
        check_map_size(self, u)
        kernel = self.kernel()
        if self.discretisation.size == 1 and self.padding == 0:
            return mix_channels(u, kernel.flatten(1))
        return F.conv2d(u, kernel, padding=self.padding)

    def adjoint(self, v: Tensor) -> Tensor:
        self.out_field.check(v, f"{type(self).__name__}.adjoint")
        return F.conv_transpose2d(v, self.kernel(), padding=self.padding)

    def dense(self) -> FixedConvolution:
        """An ordinary convolution that does the same, for inference."""
        return FixedConvolution(self.kernel(), self.padding)

    def extra_repr(self) -> str:
        return f"{self.in_field} -> {self.out_field}, order={self.order}, {self.discretisation}, {self.basis}"


class FieldLinear(SteerablePDO):
    r"""The same linear map at every point, :math:`v(x) = W u(x)` with :math:`W \rho(g) = \rho'(g) W`: of order 0.

    Between regular fields of a group that has the half turn :math:`z`, which commutes with all others, :math:`W` keeps
    :math:`u(g) + u(zg)` and :math:`u(g) - u(zg)` apart: two products of half the width and half the height are then all
    there is to compute.

    Args:
        in_field, out_field: how features transform before and after.

    Shape: (B, in_field.channels, H, W) to (B, out_field.channels, H, W).
    """

    def __init__(self, in_field: Field, out_field: Field) -> None:
        super().__init__(in_field, out_field, 0, FiniteDifferences(1))
        group = in_field.group
        both = in_field.representation == out_field.representation == regular(group)
        self._halves = group.rotations // 2 if both and group.rotations % 2 == 0 else 0

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, type(self).__name__)
        return self._by_halves(u) if self._halves else mix_channels(u, self.kernel().flatten(1))

    def _by_halves(self, u: Tensor) -> Tensor:
        planes, half = channel_major(u), self._halves
        weight = self._turned_kernel().reshape(-1, 2, half, planes.shape[0] // half // 2, 2, half)[:, 0]
        apart = 0.5 * torch.stack(_sum_and_difference(weight, 3)).flatten(3).flatten(1, 2)
        kept = torch.stack(_sum_and_difference(planes.view(planes.shape[0] // half // 2, 2, half, -1), 1)).flatten(1, 2)
        made = torch.bmm(apart, kept).view(2, apart.shape[1] // half, half, *planes.shape[1:])
        return torch.stack(_sum_and_difference(made, 0), dim=1).flatten(0, 2).transpose(0, 1)

    def extra_repr(self) -> str:
        return f"{self.in_field} -> {self.out_field}"


def _sum_and_difference(pair: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    first, second = pair.unbind(axis)
    return first + second, first - second


def _kernels_turn(in_field: Field, out_field: Field) -> bool:
    """Whether the kernel of each orientation is the turned kernel of the first."""
    return out_field.representation == regular(out_field.group) and in_field.representation.permutation is not None


def _band_limited(field: Field, order: int) -> np.ndarray:
    r"""An orthonormal basis of the coefficients :math:`c_{h \alpha}` that couple Fourier modes without wrapping.

    The part of :math:`c` with frequency :math:`f` over rotations of the derivatives and :math:`-l` over the
    orientations takes mode :math:`l` of the input to mode :math:`l + f` of the output. Both must lie strictly within
    :math:`\pm n / 2`; the mode :math:`n / 2` is coupled with itself only.

    Returns: (count, n * D).
    """
    group, n = field.group, field.size
    if group.mirrored or field.representation != regular(group):
        raise ConfigError(f"basis='band_limited' is for regular fields of a cyclic group, got {field}.")
    turns = 2 * order + 1
    rho = derivative_representation(cyclic(turns), order).matrices
    waves = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / math.sqrt(n)  # mode l at orientation h
    projection = np.zeros((n * rho.shape[1],) * 2, dtype=complex)
    for f in range(-order, order + 1):
        phases = np.exp(-2j * np.pi * f * np.arange(turns) / turns)
        of_frequency = np.tensordot(phases, rho, axes=1) / turns
        kept = [l for l in range(-((n - 1) // 2), (n + 1) // 2) if 2 * abs(l + f) < n]  # noqa: E741
        kept += [n // 2] if f == 0 and n % 2 == 0 else []
        modes = waves[kept]
        projection += np.kron(modes.T @ modes.conj(), of_frequency)
    return range_of(np.real(projection)).T
