"""Eigenvalues of the Jacobian of a right-hand side along a trajectory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from evolvent._core.modes import evaluation_mode
from evolvent._core.state import State
from evolvent.analysis.linearisation import Linearisation, linearise, unit_rows
from evolvent.analysis.states import StateLayout, first_sample, full_trajectory, spread
from evolvent.dynamics import Dynamics
from evolvent.evolution import Evolution

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

EXTREMES = ("LM", "SR", "LR", "LI")  # largest by size, smallest and largest real part, largest imaginary part


@dataclass(frozen=True)
class Spectrum:
    r"""Eigenvalues of :math:`J = \partial F / \partial u` at one time, and the box around its field of values.

    The field of values :math:`\{x^* J x : \|x\| = 1\}` holds all eigenvalues. Its real extent is that of the symmetric
    part's eigenvalues, its imaginary extent that of the antisymmetric part's.
    """

    time: float
    eigenvalues: tuple[complex, ...]  # all of them, or the outermost ones
    complete: bool
    real_extent: tuple[float, float]
    imaginary_extent: float

    @property
    def radius(self) -> float:
        """The largest absolute value."""
        return max((abs(value) for value in self.eigenvalues), default=0.0)

    @property
    def abscissa(self) -> float:
        """The largest real part: the rate at which some small perturbation grows."""
        return max((value.real for value in self.eigenvalues), default=self.real_extent[1])


def spectra(
    evolution: Evolution,
    u0: State,
    *,
    points: int = 5,
    dense_up_to: int = 256,
    count: int = 6,
    batched: bool = True,
) -> list[Spectrum]:
    """The spectrum at the beginning of some steps, for the first sample.

    Args:
        evolution: measured in evaluation mode and left as it was.
        u0: initial states. Partitioned and second-order dynamics are linearised as whole systems.
        points: steps at which to look, evenly spread.
        dense_up_to, count: see :func:`spectrum_at`.
        batched: whether the first axis counts independent samples.
    """
    return [
        _spectrum(t, jacobian, dense_up_to, count) for t, jacobian in jacobians(evolution, u0, points, batched=batched)
    ]


def jacobians(
    evolution: Evolution, u0: State, points: int, *, batched: bool = True
) -> Iterator[tuple[float, Linearisation]]:
    """Time and Jacobian of the right-hand side at the beginning of some steps; see :func:`spectra`."""
    start = first_sample(u0) if StateLayout.of(u0, batched).samples > 1 else u0
    with evaluation_mode(evolution):
        with torch.no_grad():
            states = full_trajectory(evolution, start)
        for j in spread(evolution.steps, points):
            t = j * evolution.step_size
            yield t, jacobian_at(evolution.dynamics_at(j), t, states[j])


def spectrum_at(f: Dynamics, t: float, u: State, dense_up_to: int = 256, count: int = 6) -> Spectrum:
    r"""Eigenvalues of the Jacobian of ``f`` at one state, which is taken as one sample.

    Args:
        f: right-hand side, in evaluation mode.
        dense_up_to: states of at most this many numbers get all eigenvalues, from the dense matrix; for larger ones
            Arnoldi's method finds the outermost ones in each direction without the matrix.
        count: how many in each direction.

    >>> from evolvent.testing.problems import Forced
    >>> found = spectrum_at(Forced(), 0.0, Forced.solution(0.0))
    >>> len(found.eigenvalues), found.complete
    (2, True)
    """
    return _spectrum(t, jacobian_at(f, t, u), dense_up_to, count)


def jacobian_at(f: Dynamics, t: float, u: State) -> Linearisation:
    """The Jacobian of ``f`` at one state, which is taken as one sample."""
    layout = StateLayout.of(u, batched=False)

    def compute(rows: Tensor) -> Tensor:
        return layout.rows(f(t, layout.state(rows)))

    with torch.enable_grad():
        x = layout.rows(u).detach().requires_grad_()
        return linearise(compute, x, compute(x))


def ritz_values(jacobian: Linearisation, products: int) -> tuple[complex, ...]:
    r"""Estimates of the outermost eigenvalues in all directions at once, from ``products`` products :math:`J v`.

    They are the eigenvalues of :math:`Q^\top J Q` with :math:`Q` an orthonormal basis of the Krylov space of a random
    vector (Arnoldi's method without restarts). They lie in the field of values, and mostly a little inside the
    spectrum. A Jacobian that is not finite has none.

    >>> x = torch.ones(1, 2, requires_grad=True)
    >>> values = ritz_values(Linearisation(x, x * torch.tensor([-1.0, -3.0])), 2)
    >>> sorted(round(value.real, 5) for value in values)
    [-3.0, -1.0]
    """
    start = torch.randn(jacobian.x.shape, generator=torch.Generator().manual_seed(0)).to(jacobian.x)
    basis = unit_rows(start)
    projected = torch.zeros(products + 1, products, dtype=torch.float64)
    for k in range(products):
        image = jacobian.forward(basis[-1:])
        for _ in range(2):  # a second time, against rounding
            along = image @ basis.mT
            image = image - along @ basis
            projected[: k + 1, k] += along[0].double().cpu()
        size = image.norm().item()
        if not math.isfinite(size):
            return ()
        if k + 1 == products or size <= 1e-6 * projected.norm().item():
            return tuple(torch.linalg.eigvals(projected[: k + 1, : k + 1]).tolist())
        projected[k + 1, k] = size
        basis = torch.cat([basis, image / size])
    return ()


def _spectrum(t: float, jacobian: Linearisation, dense_up_to: int, count: int) -> Spectrum:
    if jacobian.x.shape[1] <= dense_up_to:
        return _dense(t, jacobian.matrix().double())
    return _matrix_free(t, jacobian, count)


def _dense(t: float, matrix: Tensor) -> Spectrum:
    if not bool(matrix.isfinite().all()):
        return Spectrum(t, (), True, (float("nan"), float("nan")), float("nan"))
    symmetric = torch.linalg.eigvalsh((matrix + matrix.mT) / 2)
    skew = torch.linalg.matrix_norm((matrix - matrix.mT) / 2, ord=2)
    values = tuple(torch.linalg.eigvals(matrix).tolist())
    return Spectrum(t, values, True, (symmetric[0].item(), symmetric[-1].item()), skew.item())


def _matrix_free(t: float, jacobian: Linearisation, count: int) -> Spectrum:
    forward, adjoint = _on_arrays(jacobian.forward, jacobian.x), _on_arrays(jacobian.adjoint, jacobian.y)
    size = jacobian.x.shape[1]
    whole = _operator(forward, size)
    symmetric = _operator(lambda v: (forward(v) + adjoint(v)) / 2, size)
    skew = _operator(lambda v: (forward(v) - adjoint(v)) / 2, size)
    found = {_rounded(v): v for which in EXTREMES for v in _extreme(whole, which, count)}
    low, high = (_extreme(symmetric, which, 1, hermitian=True) for which in ("SA", "LA"))
    across = _extreme(_operator(lambda v: -skew.matvec(skew.matvec(v)), size), "LA", 1, hermitian=True)
    extent = (min((v.real for v in low), default=0.0), max((v.real for v in high), default=0.0))
    imaginary = max((max(v.real, 0.0) ** 0.5 for v in across), default=0.0)
    return Spectrum(t, tuple(found.values()), False, extent, imaginary)


def _rounded(value: complex) -> tuple[float, float]:
    """Equal for an eigenvalue that was found in two directions."""
    return float(f"{value.real:.3g}"), float(f"{value.imag:.3g}")


def _on_arrays(product: Callable[[Tensor], Tensor], like: Tensor) -> Callable[[np.ndarray], np.ndarray]:
    def apply(v: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(np.ascontiguousarray(v).reshape(1, -1)).to(like)
        return product(rows).detach()[0].double().cpu().numpy()

    return apply


def _operator(product: Callable[[np.ndarray], np.ndarray], size: int) -> LinearOperator:
    from scipy.sparse.linalg import LinearOperator

    return LinearOperator((size, size), matvec=product, dtype=np.float64)  # pyright: ignore[reportCallIssue]


def _extreme(operator: LinearOperator, which: str, count: int, *, hermitian: bool = False) -> list[complex]:
    """Outermost eigenvalues in one direction; those that converged, which may be none."""
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, eigs, eigsh

    solve: Any = eigsh if hermitian else eigs
    start = np.random.default_rng(0).standard_normal(operator.shape[0])
    try:
        found = solve(operator, count, which=which, v0=start, tol=1e-3, maxiter=15, return_eigenvectors=False)
    except ArpackNoConvergence as error:
        found = error.eigenvalues
    except ArpackError:  # the matrix is zero, or holds NaN
        found = []
    return [complex(value) for value in found]
