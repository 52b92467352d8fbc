"""Solving equations with networks: the equation's residual, conditions and samples train a function of coordinates."""

from evolvent.tasks.pde.discovery import Discovery
from evolvent.tasks.pde.settings import LibrarySettings, LossWeights, PdeData, PdeSettings, Phase, WeightingSettings
from evolvent.tasks.pde.task import SOLUTION, Pde

__all__ = [
    "SOLUTION",
    "Discovery",
    "LibrarySettings",
    "LossWeights",
    "Pde",
    "PdeData",
    "PdeSettings",
    "Phase",
    "WeightingSettings",
]
