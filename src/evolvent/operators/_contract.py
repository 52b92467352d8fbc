"""What an operator is, and the registry of kinds that networks and recipes choose from by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

from evolvent._core.checks import check_whole
from evolvent._core.memory import check_fits
from evolvent._core.registry import Registry
from evolvent.groups import Field


class LinearOperator(nn.Module, ABC):
    r"""A linear map :math:`L` in space whose adjoint :math:`L^\top` is known.

    The adjoint identity :math:`\langle L u, v\rangle = \langle u, L^\top v\rangle` is tested for every subclass by
    :func:`evolvent.testing.check_operator`.

    Attributes:
        space_axes: how many axes of space follow batch and channels: 2 for images, 0 for vectors.
    """

    space_axes: ClassVar[int]

    @abstractmethod
    def forward(self, u: Tensor) -> Tensor:
        """:math:`L u`."""

    @abstractmethod
    def adjoint(self, v: Tensor) -> Tensor:
        r""":math:`L^\top v`."""

    def skew(self, u: Tensor) -> Tensor:
        r""":math:`(L - L^\top) u`, for an operator between spaces of the same shape."""
        return self(u) - self.adjoint(u)


class FieldOperator(LinearOperator):
    r"""A linear map between fields that commutes with their group, :math:`L\, \rho(g) = \rho'(g)\, L`.

    What follows it, such as a bias or a normalisation, should commute with the group as well.

    Attributes:
        in_field, out_field: how features transform before and after.
    """

    in_field: Field
    out_field: Field


class DiffusionOperator(LinearOperator):
    r"""A symmetric, positive semidefinite :math:`L`, whose flow :math:`u' = -L u` damps and whose implicit steps are
    cheap.
    """

    def adjoint(self, v: Tensor) -> Tensor:
        return self(v)

    @abstractmethod
    def solve(self, u: Tensor, h: float) -> Tensor:
        r""":math:`(I + h L)^{-1} u` for :math:`h \ge 0`: one implicit Euler step of :math:`u' = -L u`."""


OPERATORS: Registry[Callable[[int, int], LinearOperator]] = Registry("operator")


def make_operator(kind: str, in_channels: int, out_channels: int) -> LinearOperator:
    """An operator of a registered kind, such as ``"full"`` or ``"dense"``, between two numbers of channels."""
    check_whole(in_channels=in_channels, out_channels=out_channels)
    check_fits(in_channels * out_channels, "this operator")
    return OPERATORS.get(kind)(in_channels, out_channels)
