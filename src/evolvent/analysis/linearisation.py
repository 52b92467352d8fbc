"""The Jacobian of something computed, as a linear map that is never written out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from evolvent._core.errors import ConfigError


class Linearisation:
    r"""The Jacobian :math:`J = \partial y / \partial x` of one recorded computation.

    One forward and one backward pass are recorded; after that :math:`J^\top w` is a backward pass, and :math:`J v` is
    the derivative of the linear map :math:`w \mapsto J^\top w`. Reverse mode alone is needed, as all operators have it.

    Args:
        x: where the computation began; ``requires_grad`` was set.
        y: its result.

    Shape: with rows as samples, (B, N) and (B, M); the samples must not act on each other.

    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> square = Linearisation(x, x**2)
    >>> square.forward(torch.tensor([[1.0, 1.0]])), square.adjoint(torch.tensor([[0.0, 1.0]]))
    (tensor([[2., 4.]]), tensor([[0., 4.]]))
    """

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y
        self._w = torch.zeros_like(y, requires_grad=True)
        self._adjoint = self._record()

    def _record(self) -> Tensor | None:
        """The adjoint product with its graph; None if y does not depend on x."""
        if not self.y.requires_grad:
            return None
        return torch.autograd.grad(self.y, self.x, self._w, create_graph=True, allow_unused=True)[0]

    def forward(self, v: Tensor) -> Tensor:
        """:math:`J v`."""
        if self._adjoint is None or not self._adjoint.requires_grad:  # y does not depend on x
            return torch.zeros_like(self.y)
        found = torch.autograd.grad(self._adjoint, self._w, v, retain_graph=True, allow_unused=True)[0]
        return torch.zeros_like(self.y) if found is None else found

    def adjoint(self, w: Tensor) -> Tensor:
        r""":math:`J^\top w`."""
        if not self.y.requires_grad:
            return torch.zeros_like(self.x)
        return torch.autograd.grad(self.y, self.x, w, retain_graph=True, materialize_grads=True)[0]

    def matrix(self) -> Tensor:
        """The Jacobian of the first sample written out, one backward pass per row.

        Shape: (M, N).
        """
        units = torch.eye(self.y.shape[1], dtype=self.y.dtype, device=self.y.device)
        return torch.cat([self.adjoint(unit.expand_as(self.y))[:1] for unit in units])


class DifferenceLinearisation(Linearisation):
    """A Jacobian whose products come from central differences, for computations that offer no second derivative."""

    def __init__(self, compute: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> None:
        super().__init__(x, y)
        self.compute = compute

    def _record(self) -> None:
        return None

    @torch.no_grad()
    def forward(self, v: Tensor) -> Tensor:
        size = torch.finfo(v.dtype).eps ** (1 / 3) * (1 + self.x.norm() / v.norm().clamp_min(1e-30))
        return (self.compute(self.x + size * v) - self.compute(self.x - size * v)) / (2 * size)


def linearise(compute: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> Linearisation:
    r"""The Jacobian of ``y = compute(x)``, which has been computed already.

    Its products are those of :class:`Linearisation` where they are true. Computations that can be differentiated once
    only, such as the implicit midpoint rule, raise an error or silently leave a part out; so the identity
    :math:`\langle J v, w \rangle = \langle v, J^\top w \rangle` is checked, and differences are used if it fails.
    """
    generator = torch.Generator().manual_seed(0)
    v, w = (torch.randn(like.shape, generator=generator).to(like) for like in (x, y))
    try:
        map_ = Linearisation(x, y)
        image = map_.forward(v)
    except (RuntimeError, ConfigError):
        return DifferenceLinearisation(compute, x, y)
    back = map_.adjoint(w)
    gap = ((image * w).sum() - (v * back).sum()).abs()
    scale = image.norm() * w.norm() + v.norm() * back.norm()
    return DifferenceLinearisation(compute, x, y) if gap > 1e-3 * scale else map_


def largest_singular_value(
    map_: Linearisation, start: Tensor, iterations: int = 50, tolerance: float = 1e-4
) -> tuple[Tensor, Tensor]:
    r"""Norm :math:`\|J\|_2` of each sample's Jacobian by power iteration on :math:`J^\top J`, a bound from below.

    Args:
        start: where the iteration begins, one direction per sample.
        iterations: the most iterations; fewer once no sample's value changes by more than ``tolerance`` of itself.

    Returns: the values, and the directions that grow most.

    Shape: (B,), and (B, N) with rows of length one.
    """
    v = unit_rows(start)
    value = v.new_zeros(len(v))
    for _ in range(iterations):
        image = map_.forward(v)
        before, value = value, image.norm(dim=1)
        if bool(((value - before).abs() <= tolerance * value).all()):
            break
        back = map_.adjoint(image)
        v = torch.where(back.norm(dim=1, keepdim=True) > 0, unit_rows(back), v)
    return value, v


def unit_rows(rows: Tensor) -> Tensor:
    """Rows of length one; zero rows stay zero."""
    return rows / rows.norm(dim=1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
