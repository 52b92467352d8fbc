"""Named architectures: one file per paper, and the registry that finds them."""

from evolvent.networks import (
    building,
    cnn,
    diff_resnet,
    diff_resnet_fewshot,
    diff_resnet_graph,
    equivariant,
    equivariant_hamiltonian,
    graph_baselines,
    hamiltonian,
    hyperbolic,
    nonlocal_hamiltonian,
    odenet,
    parabolic,
    perceptron,
    points,
    resnet,
    resnet26,
)
from evolvent.networks._files import load, save
from evolvent.networks._graph_skeleton import GraphNetwork
from evolvent.networks._papers import PAPERS, Paper
from evolvent.networks._registry import ModelEntry, ModelSpec, create_model, list_models, model_entry
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks.diff_resnet import DiffusionNetwork
from evolvent.networks.diff_resnet_fewshot import FewShotNetwork
from evolvent.networks.nonlocal_block import NonlocalBlock
from evolvent.networks.perceptron import Perceptron
from evolvent.networks.points import PointNetwork
from evolvent.networks.refinement import refine

__all__ = [
    "PAPERS",
    "DiffusionNetwork",
    "FewShotNetwork",
    "GraphNetwork",
    "ImageNetwork",
    "ModelEntry",
    "ModelSpec",
    "NonlocalBlock",
    "Paper",
    "Perceptron",
    "PointNetwork",
    "building",
    "cnn",
    "create_model",
    "diff_resnet",
    "diff_resnet_fewshot",
    "diff_resnet_graph",
    "equivariant",
    "equivariant_hamiltonian",
    "graph_baselines",
    "hamiltonian",
    "hyperbolic",
    "list_models",
    "load",
    "model_entry",
    "nonlocal_hamiltonian",
    "odenet",
    "parabolic",
    "perceptron",
    "points",
    "refine",
    "resnet",
    "resnet26",
    "save",
]
