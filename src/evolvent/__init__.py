"""Deep networks as evolution equations.

>>> import evolvent as ev
>>> model = ev.create_model("hamiltonian74", num_classes=10)
>>> sum(p.numel() for p in model.parameters())
504938
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evolvent._core.lazy import attach

if TYPE_CHECKING:
    from evolvent import (
        analysis,
        data,
        dynamics,
        equations,
        errors,
        gradients,
        graphs,
        groups,
        integrators,
        networks,
        operators,
    )
    from evolvent.analysis.planning import plan
    from evolvent.estimators import DiffusionClassifier
    from evolvent.evolution import Evolution, evolutions, set_gradient
    from evolvent.experiments.own_training import train
    from evolvent.networks import create_model, list_models, refine, save
    from evolvent.report import plot
    from evolvent.solving.loading import load
    from evolvent.solving.solve import solve
    from evolvent.tasks.prediction import load_predictor

__version__ = "0.1.0"

__all__ = [
    "DiffusionClassifier",
    "Evolution",
    "__version__",
    "analysis",
    "create_model",
    "data",
    "dynamics",
    "equations",
    "errors",
    "evolutions",
    "gradients",
    "graphs",
    "groups",
    "integrators",
    "list_models",
    "load",
    "load_predictor",
    "networks",
    "operators",
    "plan",
    "plot",
    "refine",
    "save",
    "set_gradient",
    "solve",
    "train",
]

__getattr__, __dir__ = attach(
    __name__,
    modules=[
        "analysis",
        "data",
        "dynamics",
        "equations",
        "errors",
        "gradients",
        "graphs",
        "groups",
        "integrators",
        "networks",
        "operators",
        "testing",
    ],
    names={
        "evolvent.evolution": ["Evolution", "evolutions", "set_gradient"],
        "evolvent.networks": ["create_model", "list_models", "refine", "save"],
        "evolvent.solving.loading": ["load"],
        "evolvent.solving.solve": ["solve"],
        "evolvent.analysis.planning": ["plan"],
        "evolvent.estimators": ["DiffusionClassifier"],
        "evolvent.experiments.own_training": ["train"],
        "evolvent.report": ["plot"],
        "evolvent.tasks.prediction": ["load_predictor"],
    },
)
