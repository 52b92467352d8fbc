"""How the derivative of a loss is had: one file per strategy."""

from evolvent.gradients._contract import STRATEGIES, GradientStrategy, Propagator
from evolvent.gradients.backprop import Backprop

__all__ = ["STRATEGIES", "Backprop", "GradientStrategy", "Propagator"]
