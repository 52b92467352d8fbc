"""Solutions of periodic equations: computed to a tolerance, and evaluated anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from evolvent._core.checks import check_positive, check_whole
from evolvent._core.errors import ConfigError, NonFiniteError, ShapeError
from evolvent._core.files import atomic_path
from evolvent.equations.references.deadline import check_deadline
from evolvent.equations.references.etdrk4 import Etdrk4, PeriodicEquation

_NEIGHBOURS = 8  # stored times of which one between them is interpolated
_ROOM = 2**22  # complex numbers, at most, for the points that are evaluated at once


class PeriodicSolution:
    r"""A solution :math:`u(x, t)` by its Fourier coefficients at stored times.

    Between the points of the grid it is the trigonometric polynomial, between stored times a polynomial of degree 7.

    Args:
        times: (T,), ascending and evenly spaced.
        waves: Fourier coefficients at each time, (T, modes), of all modes.
        lower, upper: ends of the periodic interval.
        real: whether u is real; a complex one is given as its real and imaginary part.
        difference: from the solution with steps twice as long, relative, in the maximum norm.

    Shape: points (N, 2) of x and t to (N, 1), or (N, 2) for a complex u.
    """

    def __init__(
        self, times: np.ndarray, waves: np.ndarray, lower: float, upper: float, real: bool, difference: float = 0.0
    ) -> None:
        self.times, self.waves, self.real = times, waves, real
        self.lower, self.upper, self.difference = lower, upper, difference

    @property
    def grid(self) -> np.ndarray:
        """Places in space, (modes,); the upper end is left out, where the values of the lower one return."""
        return np.linspace(self.lower, self.upper, self.waves.shape[1], endpoint=False)

    @property
    def values(self) -> np.ndarray:
        """On the grid at the stored times, (T, modes), real or complex."""
        u = np.fft.ifft(self.waves, axis=1)
        return np.real(u) if self.real else u

    def save(self, path: Path) -> None:
        """Write an npz file that :meth:`load` reads."""
        arrays = {"times": self.times, "waves": self.waves, "ends": np.array([self.lower, self.upper])}
        with atomic_path(path) as draft, draft.open("wb") as file:
            np.savez(file, allow_pickle=False, real=np.array(self.real), difference=np.array(self.difference), **arrays)

    @classmethod
    def load(cls, path: Path) -> PeriodicSolution:
        """Read what :meth:`save` wrote."""
        with np.load(path, allow_pickle=False) as stored:
            lower, upper = stored["ends"].tolist()
            return cls(
                stored["times"], stored["waves"], lower, upper, bool(stored["real"]), float(stored["difference"])
            )

    def __call__(self, points: Tensor) -> Tensor:
        """The solution at points, in float64."""
        if points.ndim != 2 or points.shape[1] != 2:
            raise ShapeError(f"the solution takes points (N, 2) of x and t, got shape {tuple(points.shape)}.")
        x, t = points.detach().cpu().double().numpy().T
        (places, x_of), (times, t_of) = (np.unique(axis, return_inverse=True) for axis in (x, t))
        if len(places) * len(times) <= 2 * len(x):  # points of a grid: each place and each time is needed once
            u = self._coefficients(times) @ self._turns(places).T
            return self._as_tensor(u[t_of, x_of])
        size = max(1, _ROOM // (_NEIGHBOURS * self.waves.shape[1]))
        chunks = [self._at(x[n : n + size], t[n : n + size]) for n in range(0, len(x), size)]
        return self._as_tensor(np.concatenate(chunks))

    def _as_tensor(self, u: np.ndarray) -> Tensor:
        parts = (np.real(u),) if self.real else (np.real(u), np.imag(u))
        return torch.from_numpy(np.stack(parts, axis=1))

    def _at(self, x: np.ndarray, t: np.ndarray) -> np.ndarray:
        return (self._coefficients(t) * self._turns(x)).sum(1)

    def _turns(self, x: np.ndarray) -> np.ndarray:
        """The waves at places, (N, modes)."""
        phases = 2j * np.pi * (x - self.lower) / (self.upper - self.lower)
        modes = self.waves.shape[1]
        turns = np.exp(phases[:, None] * np.fft.fftfreq(modes, 1 / modes)) / modes
        if modes % 2 == 0:
            turns[:, modes // 2] = turns[:, modes // 2].real  # the highest wave is a cosine
        return turns

    def _coefficients(self, t: np.ndarray) -> np.ndarray:
        """Fourier coefficients at times, (N, modes)."""
        places, weights = self._interpolation(t)
        total = np.zeros((len(t), self.waves.shape[1]), dtype=complex)
        for n in range(places.shape[1]):
            total += weights[:, n, None] * self.waves[places[:, n]]
        return total

    def _interpolation(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each time, the stored times around it and their weights by Lagrange's formula, (N, neighbours) each."""
        count = min(_NEIGHBOURS, len(self.times))
        spacing = (self.times[-1] - self.times[0]) / max(1, len(self.times) - 1) or 1.0
        place = (t - self.times[0]) / spacing
        if ((place < -1e-6) | (place > len(self.times) - 1 + 1e-6)).any():
            raise ConfigError(
                f"the solution is known for t from {self.times[0]:g} to {self.times[-1]:g}, got {t.min():g} to "
                f"{t.max():g}. Compute it for a longer time."
            )
        first = np.clip(np.floor(place).astype(int) - count // 2 + 1, 0, len(self.times) - count)
        offset = place[:, None] - first[:, None] - np.arange(count)  # (N, count)
        weights = np.ones((len(t), count))
        for n in range(count):
            for m in range(count):
                if m != n:
                    weights[:, n] *= offset[:, m] / (n - m)
        return first[:, None] + np.arange(count), weights


def solve_periodic(
    equation: PeriodicEquation,
    initial: Callable[[np.ndarray], np.ndarray],
    lower: float,
    upper: float,
    until: float,
    *,
    modes: int = 512,
    stored: int = 201,
    tolerance: float = 1e-10,
    most_steps: int = 2**17,
) -> PeriodicSolution:
    """Solve an equation from t = 0, with steps halved until halving them no longer changes the solution.

    Args:
        equation: what is solved.
        initial: u at t = 0, of the places of the grid.
        lower, upper: ends of the periodic interval.
        until: the last time.
        modes: points of the grid, and waves.
        stored: evenly spaced times that are kept, the first and the last included.
        tolerance: of the change, relative to the largest value.
        most_steps: where halving ends with an error.

    >>> import numpy as np
    >>> heat = PeriodicEquation(lambda k: -(k**2))
    >>> u = solve_periodic(heat, np.sin, 0, 2 * np.pi, until=1.0, modes=16, stored=3)
    >>> bool(np.allclose(u.values[-1], np.exp(-1) * np.sin(u.grid)))
    True
    """
    check_whole(2, modes=modes, stored=stored)
    check_positive(until=until, tolerance=tolerance, length=upper - lower)
    grid = np.linspace(lower, upper, modes, endpoint=False)
    start = np.asarray(initial(grid), dtype=float if equation.real else complex)
    between, before, change = 1, None, np.inf
    while (stored - 1) * between <= most_steps:
        waves = _trajectory(equation, start, upper - lower, until, stored, between)
        if before is not None and np.isfinite(waves).all() and np.isfinite(before).all():
            size = np.abs(np.fft.ifft(waves, axis=1)).max()
            change = np.abs(np.fft.ifft(waves - before, axis=1)).max() / max(size, 1e-300)
            if change <= tolerance:
                times = np.linspace(0.0, until, stored)
                return PeriodicSolution(times, waves, lower, upper, equation.real, float(change))
        between, before = 2 * between, waves
    raise NonFiniteError(
        f"the reference still changes by {change:.1e} with {(stored - 1) * between // 2} steps to t = {until:g}, where "
        f"{tolerance:.0e} was asked for. Give more modes (now {modes}), a larger tolerance or a shorter time."
    )


def _trajectory(
    equation: PeriodicEquation, start: np.ndarray, length: float, until: float, stored: int, between: int
) -> np.ndarray:
    method = Etdrk4(equation, length, len(start), until / (stored - 1) / between)
    v = method.to_waves(start)
    kept = [v]
    with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long may overflow; shorter ones follow
        for _ in range(stored - 1):
            check_deadline()
            for _ in range(between):
                v = method.step(v)
            kept.append(v)
        return np.fft.fft(np.stack([method.to_values(v) for v in kept]), axis=1)
