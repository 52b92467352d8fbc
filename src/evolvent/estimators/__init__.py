"""Estimators: the library's flows with the interface of scikit-learn."""

from evolvent.estimators.competition import label_flow
from evolvent.estimators.diffusion_classifier import DiffusionClassifier
from evolvent.estimators.point_graph import PointGraph

__all__ = ["DiffusionClassifier", "PointGraph", "label_flow"]
