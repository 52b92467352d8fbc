"""All measures together, for every kind of network."""

import math

import torch

from evolvent.analysis import measure_stability
from evolvent.analysis.states import evolution_inputs
from evolvent.dynamics import ReactionDiffusion
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, ImexEuler


def test_every_evolution_with_a_step_is_measured(any_network, images):
    found = measure_stability(any_network, images, spectrum_points=2)
    assert [f.name for f in found] == [start.name for start in evolution_inputs(any_network, images)]
    for f in found:
        assert f.growth.worst[0] == 1.0
        assert all(math.isfinite(value) for value in (*f.growth.worst, *f.growth.random, *f.energy.values))
        assert len(f.reconstructions) == (2 if f.integrator == "Verlet()" else 0)
        assert 1 <= len(f.spectra) <= 2
    assert all(module.training for module in any_network.modules())


def test_a_bare_evolution_and_evolutions_without_steps(network, images):
    evolution = Evolution(ReactionDiffusion(3), ImexEuler(), steps=2, step_size=0.5)
    [found] = measure_stability(evolution, torch.randn(2, 3, 8, 8))
    assert found.name == ""
    assert found.bound.step == math.inf
    assert found.warning == ""
    assert len(measure_stability(network("resnet", blocks=1), images)) == 1  # the second unit has no step of its own
    assert evolution_inputs(Evolution([], Euler()), torch.ones(1, 2)) == []
