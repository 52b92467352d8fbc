"""The largest step with which a method stays stable, and a warning for steps beyond it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from evolvent._core.state import State
from evolvent.analysis.spectrum import Spectrum, spectra
from evolvent.analysis.states import check_evolution, evolution_inputs
from evolvent.evolution import Evolution
from evolvent.integrators import Integrator

_MOST_STEPS = 10**15  # more than these are not counted


class StabilityWarning(UserWarning):
    """A step size beyond the stability limit of the method."""


@dataclass(frozen=True)
class StepBound:
    """The largest stable steps of an evolution; infinite where nothing bounds them.

    Attributes:
        decay: for the modes that decay, nearer to the negative real axis than to the imaginary one.
        oscillation: for the modes that oscillate; zero for methods such as Euler's, which let undamped ones grow
            with any step.
    """

    decay: float
    oscillation: float

    @property
    def step(self) -> float:
        """The largest step that is stable for all modes."""
        return min(self.decay, self.oscillation)

    @property
    def attainable(self) -> float:
        """The largest step that is stable for all modes that some step is stable for."""
        return min(self.decay, self.oscillation or math.inf)

    def exceeded_by(self, step: float) -> bool:
        """Whether a smaller step than ``step`` would be stable where it is not."""
        return step > self.attainable * (1 + 1e-6)


def largest_stable_step(evolution: Evolution, u0: State, *, batched: bool = True) -> StepBound:
    """The largest stable step for the modes of the right-hand side along the trajectory of the first sample.

    Args:
        evolution: measured in evaluation mode and left as it was.
        u0: initial states.
        batched: whether the first axis counts independent samples.

    >>> import torch
    >>> from evolvent.dynamics import Dynamics
    >>> from evolvent.integrators import Euler
    >>> class Decay(Dynamics):
    ...     def forward(self, t, u):
    ...         return -10 * u
    >>> largest_stable_step(Evolution(Decay(), Euler(), steps=2, step_size=0.1), torch.ones(1, 3)).step
    0.2
    """
    check_evolution(evolution, "largest_stable_step")
    return step_bound(evolution, spectra(evolution, u0, batched=batched))


def step_bound(evolution: Evolution, found: Iterable[Spectrum]) -> StepBound:
    r"""The largest stable step for given spectra, by what the method claims on the two axes.

    From :math:`R` on the negative real axis and :math:`I` on the imaginary one, :math:`h \lambda` is taken to be stable
    in the disc with diameter :math:`[-R, 0]`, which is exact for Euler's method, and in the triangle with the corners
    :math:`-R` and :math:`\pm i I`. On the axes this is what the method claims, between them it is cautious. Modes that
    grow in the equation itself bound no step.
    """
    return bound_for_modes(evolution.integrator, [value for spectrum in found for value in _modes(spectrum)])


def bound_for_modes(method: Integrator[Any], values: Sequence[complex]) -> StepBound:
    """The largest stable step of a method for given eigenvalues; see :func:`step_bound`."""
    real, imaginary = method.real_stability, method.imaginary_stability
    noise = 1e-6 * max(map(abs, values), default=0.0)  # what rounding makes of zero
    values = [value for value in values if abs(value) > noise]
    decaying = [v for v in values if v.real < 0 and abs(v.imag) <= -v.real]
    oscillating = [v for v in values if abs(v.imag) > abs(v.real)]
    return StepBound(
        decay=min((_decay_bound(v, real, imaginary) for v in decaying), default=math.inf),
        oscillation=min((_oscillation_bound(v, real, imaginary) for v in oscillating), default=math.inf),
    )


def _decay_bound(mode: complex, real: float | None, imaginary: float | None) -> float:
    if real is None:
        return math.inf
    disc = real * -mode.real / abs(mode) ** 2
    return max(disc, _oscillation_bound(mode, real, imaginary)) if imaginary else disc


def _oscillation_bound(mode: complex, real: float | None, imaginary: float | None) -> float:
    if not imaginary:
        return math.inf if imaginary is None else 0.0
    return 1 / (abs(mode.imag) / imaginary + (max(-mode.real, 0.0) / real if real else 0.0))


def _modes(spectrum: Spectrum) -> Sequence[complex]:
    """The eigenvalues, or where none was found the corners of the field of values, which holds them."""
    extremes = (complex(spectrum.real_extent[0]), complex(0, spectrum.imaginary_extent))
    return spectrum.eigenvalues or extremes


def check_step_size(model: nn.Module, example: State) -> dict[str, StepBound]:
    """Warn of every evolution of ``model`` whose step is too large for its method.

    Modes that a method lets grow with any step, such as oscillations under Euler's method, do not cause a warning.

    Args:
        model: a network, or a bare evolution; measured in evaluation mode.
        example: what the model takes; the first sample is used.

    Returns: the bounds by the evolutions' names.

    Warns:
        StabilityWarning: a step lies beyond the bound; the message names the largest stable step.
    """
    bounds = {}
    for start in evolution_inputs(model, example):
        bound = bounds[start.name] = largest_stable_step(start.evolution, start.u0)
        message = step_warning(start.name, start.evolution, bound)
        if message:
            warnings.warn(message, StabilityWarning, stacklevel=2)
    return bounds


def step_warning(name: str, evolution: Evolution, bound: StepBound) -> str:
    """What is wrong with the evolution's step, and what to do; empty if nothing is."""
    h, where = evolution.step_size, f"evolution {name!r}: " if name else ""
    limit = bound.attainable
    if not bound.exceeded_by(h):
        return ""
    steps = steps_needed(evolution, limit)
    if bound.decay <= limit:
        other = "let an IMEX method such as ImexEuler() treat the stiff part implicitly, for which no step is too large"
    else:
        other = "make the operators smaller"
    return (
        f"{where}the step {h:g} of {evolution.integrator} lies beyond the largest stable one, {limit:.3g}. "
        f"Make {steps} steps or more in place of {evolution.steps} for the same time, or {other}."
    )


def steps_needed(evolution: Evolution, step: float) -> int:
    """How many steps of at most this size reach the evolution's end."""
    return math.ceil(min(evolution.steps * evolution.step_size / step - 1e-9, _MOST_STEPS))
