"""The stability of a model, evolution by evolution: growth, energy, spectrum, largest step, reconstruction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from evolvent._core.notebook import html_table
from evolvent._core.state import State
from evolvent.analysis.energy import EnergyDrift, energy_drift
from evolvent.analysis.growth import Growth, perturbation_growth
from evolvent.analysis.reconstruction import Reconstruction, measure_reconstruction
from evolvent.analysis.spectrum import Spectrum, spectra
from evolvent.analysis.states import EvolutionInput, evolution_inputs
from evolvent.analysis.step_size import StepBound, step_bound, step_warning
from evolvent.integrators import ReversibleIntegrator


@dataclass(frozen=True)
class EvolutionStability:
    """What was measured of one evolution."""

    name: str
    dynamics: str
    integrator: str
    steps: int
    step_size: float
    growth: Growth
    energy: EnergyDrift
    spectra: list[Spectrum]
    bound: StepBound
    warning: str  # empty if the step is not too large
    reconstructions: list[Reconstruction]  # in float32 and float64; none for methods that cannot go back

    def _repr_html_(self) -> str:
        rows = [
            ["steps x step size", f"{self.steps} x {self.step_size:g}"],
            ["largest growth of a perturbation", max(self.growth.worst)],
            [f"largest change of the {self.energy.kind}", max(map(abs, self.energy.values))],
            ["largest eigenvalue", max((one.radius for one in self.spectra), default=0.0)],
            *([["warning", self.warning]] if self.warning else []),
        ]
        return html_table(["measure", "value"], rows, f"{self.name or 'evolution'}: {self.dynamics}, {self.integrator}")


def measure_stability(
    model: nn.Module, example: State, *, points: int = 5, spectrum_points: int = 2
) -> list[EvolutionStability]:
    """All measures of stability of each evolution in a model.

    Args:
        model: a network, or a bare evolution; measured in evaluation mode and left as it was.
        example: what the model takes, for example images.
        points: times at which growth is measured; the worst to about one percent.
        spectrum_points: times at which the spectrum is taken, of the first sample.

    >>> import evolvent as ev
    >>> model = ev.create_model("hamiltonian", channels=(4,), blocks=3, image_size=8)
    >>> [found] = measure_stability(model, torch.randn(2, 3, 8, 8))
    >>> found.integrator, found.energy.kind, [r.dtype for r in found.reconstructions]
    ('Verlet()', 'energy', ['float32', 'float64'])
    """
    return [_measure(start, points, spectrum_points) for start in evolution_inputs(model, example)]


def _measure(start: EvolutionInput, points: int, spectrum_points: int) -> EvolutionStability:
    evolution, u0 = start.evolution, start.u0
    found = spectra(evolution, u0, points=spectrum_points)
    bound = step_bound(evolution, found)
    dtypes = [torch.float32, torch.float64] if isinstance(evolution.integrator, ReversibleIntegrator) else []
    return EvolutionStability(
        name=start.name,
        dynamics=type(evolution.dynamics_at(0)).__name__,
        integrator=str(evolution.integrator),
        steps=evolution.steps,
        step_size=evolution.step_size,
        growth=perturbation_growth(evolution, u0, points=points, iterations=40, tolerance=1e-3),
        energy=energy_drift(evolution, u0),
        spectra=found,
        bound=bound,
        warning=step_warning(start.name, evolution, bound),
        reconstructions=[measure_reconstruction(evolution, u0, dtype) for dtype in dtypes],
    )
