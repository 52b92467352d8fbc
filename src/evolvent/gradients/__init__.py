"""How gradients are computed: one file per strategy."""

from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator, make_strategy
from evolvent.gradients.adjoint import ContinuousAdjoint
from evolvent.gradients.checkpoint import Backprop, Checkpoint
from evolvent.gradients.layer_parallel import LayerParallel, LayerParallelWarning, SimultaneousLayerParallel
from evolvent.gradients.reversible import Reversible, reconstruction_error

__all__ = [
    "STRATEGIES",
    "Backprop",
    "Checkpoint",
    "ContinuousAdjoint",
    "GradientStrategy",
    "LayerParallel",
    "LayerParallelWarning",
    "Propagator",
    "Reversible",
    "SimultaneousLayerParallel",
    "make_strategy",
    "reconstruction_error",
]
