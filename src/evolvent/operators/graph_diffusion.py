"""Diffusion between the nodes of a graph: the Laplacian, and three ways to follow its flow for any time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from evolvent._core.checks import check_choice, check_not_negative, check_whole, described
from evolvent._core.errors import ConfigError, ShapeError
from evolvent.graphs import (
    SparseMatrix,
    check_graph,
    check_weights,
    conjugate_gradients,
    eigenvalue_bound,
    laplacian,
    largest_eigenvalue,
    largest_stable_step,
)
from evolvent.graphs.solve import in_float64, is_stiff
from evolvent.operators._contract import DiffusionOperator

FlowMethod: TypeAlias = Literal["explicit", "implicit", "exponential"]


class UnstableDiffusionWarning(UserWarning):
    """Explicit diffusion with steps so large that some differences between nodes grow."""


class GraphDiffusion(DiffusionOperator):
    r"""The Laplacian :math:`L = D - W` of a graph, which acts on features of its nodes.

    .. math:: (L u)_i = \sum_j w_{ij} (u_i - u_j), \qquad u' = -L u

    Wang et al., eqs. (4) and (7). It has no parameters and may follow any layer of any network whose rows are nodes.
    :math:`L` is symmetric and positive semidefinite if :math:`W` is symmetric; the flow is defined for directed graphs
    as well. All flows are linear in :math:`u`, so that the backward pass is the flow of the transpose and nothing is
    kept for it.

    Args:
        weights: :math:`W`, not negative, normalised or not, sparse; see :func:`evolvent.graphs.normalise`.

    Shape: (N, ...) to the same: the first axis counts the nodes.

    >>> from evolvent.graphs import gaussian_affinity, normalise
    >>> x = torch.randn(100, 2)
    >>> diffusion = GraphDiffusion(normalise(gaussian_affinity(x, 10, sigma=0.5), "row"))
    >>> diffusion.flow(x, 20.0, "exponential").shape
    torch.Size([100, 2])
    """

    space_axes = 0

    def __init__(self, weights: SparseMatrix) -> None:
        super().__init__()
        check_graph(weights)
        if not torch.compiler.is_compiling():
            check_weights(weights)
        self.laplacian = laplacian(weights)
        self._propagators: dict[float, SparseMatrix] = {}

    def forward(self, u: Tensor) -> Tensor:
        self._check_nodes(u)
        return self.laplacian @ u

    def adjoint(self, v: Tensor) -> Tensor:
        self._check_nodes(v)
        return self.laplacian.T @ v

    def solve(self, u: Tensor, h: float) -> Tensor:
        r""":math:`(I + h L)^{-1} u` by conjugate gradients, of the normal equations if the graph is directed."""
        self._check_nodes(u)
        stiff = is_stiff(h * self._bound / 2, squared=not self.laplacian.is_symmetric)
        twin = self._precise if stiff else self
        return _linear(u, lambda v: twin._solve(v, h, stiff), lambda v: twin._transposed._solve(v, h, stiff))

    def flow(
        self,
        u: Tensor,
        time: float,
        method: FlowMethod = "explicit",
        substeps: int = 1,
        *,
        allow_unstable: bool = False,
        unit: float = 1.0,
    ) -> Tensor:
        r"""Follow :math:`u' = -L u` for some time.

        .. math::
            \text{explicit: } (I - \tfrac t r L)^r u, \qquad
            \text{implicit: } (I + \tfrac t r L)^{-r} u, \qquad
            \text{exponential: } e^{-t L} u

        The exponential is a sum of Chebyshev polynomials of :math:`L` (for directed graphs of powers of
        :math:`W`), exact to rounding; it and the implicit method are stable for every :math:`t`. Long implicit steps
        are computed in float64.

        Args:
            u: features of the nodes.
            time: :math:`t`.
            method: which of the three.
            substeps: :math:`r`; the exponential needs none.
            allow_unstable: run explicit steps that are too large for the graph, with a warning.
            unit: of times in messages, such as the step size of a network by which its strength is multiplied.

        Raises:
            ConfigError: if the explicit method would be unstable, see :meth:`check_step`; if an implicit step is too
                long even for float64.
        """
        check_choice("flow", method, get_args(FlowMethod))
        check_not_negative(time=time)
        check_whole(1, substeps=substeps)
        if method == "implicit":
            for _ in range(substeps):
                u = self.solve(u, time / substeps)
            return u
        self._check_nodes(u)
        if method == "exponential":
            return _linear(u, lambda v: self._exponential(v, time), lambda v: self._transposed._exponential(v, time))
        if not torch.compiler.is_compiling():
            self.check_step(time / substeps, substeps, allow_unstable, unit)
        matrix = self.propagator(time / substeps)
        return _linear(u, lambda v: _power(matrix, v, substeps), lambda v: _power(matrix.T, v, substeps))

    def propagator(self, step: float) -> SparseMatrix:
        r""":math:`I - \gamma L`, one explicit step; made once for each step size."""
        if step not in self._propagators:
            diagonal = (self.laplacian.rows == self.laplacian.columns).to(self.laplacian.dtype)
            self._propagators[step] = self.laplacian.with_values(diagonal - step * self.laplacian.values)
        return self._propagators[step]

    @cached_property
    def largest_eigenvalue(self) -> float:
        r""":math:`\lambda_{max}(L)`, of an undirected graph."""
        return largest_eigenvalue(self.laplacian)

    @cached_property
    def largest_stable_step(self) -> float:
        r"""The largest :math:`\gamma` with which explicit steps do not grow."""
        return largest_stable_step(self.laplacian)

    def check_step(self, step: float, substeps: int = 1, allow_unstable: bool = False, unit: float = 1.0) -> None:
        r"""Refuse explicit steps :math:`\gamma` with :math:`\gamma \lambda_{max} > 2`, or just warn of them.

        Messages count :math:`\gamma` in multiples of ``unit``.

        Raises:
            ConfigError: with the largest stable step, and what would do in its place.
        """
        if step * self._bound <= 2 or step <= self.largest_stable_step * (1 + 1e-6):
            return
        step, largest = step / unit, self.largest_stable_step / unit
        graph, stable = ("graph", "stable") if self.laplacian.is_symmetric else ("directed graph", "surely stable")
        if allow_unstable:
            warnings.warn(
                f"explicit diffusion steps of {step:g} exceed {largest:.4g}, the largest {stable} one of this {graph}: "
                "some differences between nodes may grow.",
                UnstableDiffusionWarning,
                stacklevel=3,
            )
            return
        enough = math.ceil(1.001 * step * substeps / largest)  # so that the step is stable as it is printed
        raise ConfigError(
            f"gamma = {step:g} is too large for explicit diffusion on this {graph}: at most {largest:.4g} is {stable}. "
            f"For the same strength take {enough} steps of {step * substeps / enough:.4g} instead of {substeps}, or "
            "flow implicit or exponential; allow_unstable=True runs it all the same."
        )

    def _check_nodes(self, u: Tensor) -> None:
        if not isinstance(u, Tensor) or not (u.is_floating_point() or u.is_complex()):
            raise ShapeError(
                f"diffusion takes a tensor of floating-point features, got {described(u)}. Convert it: "
                "torch.as_tensor(u).float()."
            )
        if u.shape[:1] != (len(self.laplacian),):
            raise ShapeError(
                f"diffusion on a graph of {len(self.laplacian)} nodes takes features with as many rows, got shape "
                f"{tuple(u.shape)}."
            )

    @cached_property
    def _bound(self) -> float:
        return eigenvalue_bound(self.laplacian)

    @cached_property
    def _transposed(self) -> GraphDiffusion:
        """The operator with the transposed Laplacian; itself if that is symmetric."""
        if self.laplacian.is_symmetric:
            return self
        twin = GraphDiffusion.__new__(GraphDiffusion)
        super(GraphDiffusion, twin).__init__()
        twin.laplacian, twin._propagators = self.laplacian.T, {}
        return twin

    @cached_property
    def _precise(self) -> GraphDiffusion:
        """The operator in float64; its Laplacian annihilates constants to that precision."""
        L = in_float64(self.laplacian)
        return GraphDiffusion(L.with_values(torch.where(L.rows == L.columns, 0.0, -L.values)))

    def _solve(self, u: Tensor, h: float, stiff: bool) -> Tensor:
        if u.is_complex():
            return torch.view_as_complex(self._solve(torch.view_as_real(u.resolve_conj()), h, stiff))
        b = u.double() if stiff else u
        A = self.propagator(-h).to(b.device, b.dtype)
        if A.is_symmetric:
            enough = 4 * torch.finfo(u.dtype).eps
            return conjugate_gradients(A.product, b, A.diagonal(), tolerance=enough).to(u.dtype)
        squares = A.T.with_values(A.T.values.square()).row_sums()
        return conjugate_gradients(lambda v: A.T.product(A.product(v)), A.T.product(b), squares).to(u.dtype)

    def _exponential(self, u: Tensor, time: float) -> Tensor:
        if self.laplacian.is_symmetric:
            return _chebyshev(self.laplacian, u, time, self._bound)
        return _uniformisation(self.laplacian, u, time)

    def extra_repr(self) -> str:
        return repr(self.laplacian)


def _linear(u: Tensor, act: Callable[[Tensor], Tensor], transposed: Callable[[Tensor], Tensor]) -> Tensor:
    if torch.compiler.is_compiling():
        return act(u)  # made of operations that tracers know and differentiate
    return _Flow.apply(u, act, transposed)  # pyright: ignore[reportReturnType]


class _Flow(torch.autograd.Function):
    """A linear map without parameters, whose backward pass is its transpose."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, act: Callable[[Tensor], Tensor], transposed: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.act, ctx.transposed = act, transposed
        return act(u)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return _Flow.apply(gradients[0], ctx.transposed, ctx.act), None, None  # pyright: ignore[reportReturnType]


def _power(matrix: SparseMatrix, u: Tensor, exponent: int) -> Tensor:
    for _ in range(exponent):
        u = matrix.product(u)
    return u


def _chebyshev(L: SparseMatrix, u: Tensor, time: float, bound: float) -> Tensor:
    r""":math:`e^{-tL} u = e^{-z} \sum_k c_k T_k(L / s - I) u` with :math:`s = bound / 2`, :math:`z = s t` and Bessel
    functions :math:`c_k = (2 - \delta_{k0}) (-1)^k I_k(z)`, for a symmetric :math:`L` with spectrum in [0, bound].
    """
    scale = bound / 2 or 1.0
    coefficients = _chebyshev_coefficients(scale * time, torch.finfo(u.dtype).eps)
    diagonal = (L.rows == L.columns).to(L.dtype)
    shifted = L.with_values(L.values / scale - diagonal).to(u.device, u.dtype)
    before, now = u, shifted.product(u)
    total = coefficients[0] * u + coefficients[1] * now
    for c in coefficients[2:]:
        before, now = now, shifted.product(now).mul_(2).sub_(before)
        total.add_(now, alpha=c)
    return total


def _chebyshev_coefficients(z: float, rounding: float) -> list[float]:
    """As many as are larger than rounding, two at least."""
    import numpy as np
    from scipy.special import ive

    count = int(z + 12 * z**0.5 + 24)
    sizes = np.asarray(ive(np.arange(count), z))
    needed = max(2, int((sizes > rounding / 10).sum()))
    signs = np.where(np.arange(needed) % 2, -2.0, 2.0)
    signs[0] = 1.0
    return (signs * sizes[:needed]).tolist()


def _uniformisation(L: SparseMatrix, u: Tensor, time: float) -> Tensor:
    r""":math:`e^{-tL} u = \sum_k e^{-z} \tfrac{z^k}{k!}\, (I - L / s)^k u` with :math:`z = s t` and :math:`s = \max
    l_{ii}`: all terms are averages, so that none grows.
    """
    import numpy as np
    from scipy.stats import poisson

    scale = L.diagonal().max().item() or 1.0
    z = scale * time
    weights = poisson.pmf(np.arange(int(z + 12 * z**0.5 + 30)), z)
    last = int(np.flatnonzero(weights > torch.finfo(u.dtype).eps / 10).max(initial=0))
    diagonal = (L.rows == L.columns).to(L.dtype)
    average = L.with_values(diagonal - L.values / scale).to(u.device, u.dtype)
    total, term = weights[0] * u, u
    for weight in weights[1 : last + 1].tolist():
        term = average.product(term)
        total.add_(term, alpha=weight)
    return total
