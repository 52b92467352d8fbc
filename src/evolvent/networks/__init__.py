"""Named architectures: one file per paper, and the registry that finds them."""

from evolvent.networks import (
    bsde,
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
    mobile,
    nonlocal_hamiltonian,
    odenet,
    otflow,
    parabolic,
    perceptron,
    points,
    prnet,
    resnet,
    resnet26,
    velocity,
)
from evolvent.networks._files import load, save
from evolvent.networks._graph_skeleton import GraphNetwork, OnGraph
from evolvent.networks._papers import PAPERS, Paper
from evolvent.networks._registry import ModelEntry, ModelSpec, create_model, list_models, model_entry
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks.bsde import BsdeNetwork
from evolvent.networks.diff_resnet import DiffusionNetwork
from evolvent.networks.diff_resnet_fewshot import FewShotNetwork
from evolvent.networks.exporting import Exported, export_network
from evolvent.networks.fixed_steps import with_fixed_steps
from evolvent.networks.nonlocal_block import NonlocalBlock
from evolvent.networks.otflow import PotentialNetwork
from evolvent.networks.perceptron import Perceptron
from evolvent.networks.points import PointNetwork
from evolvent.networks.refinement import refine
from evolvent.networks.solution_block import COORDINATES, ExtrapolationWarning, SolutionBlock, solution_blocks
from evolvent.networks.transfer_learning import transfer
from evolvent.networks.velocity import VelocityNetwork

__all__ = [
    "COORDINATES",
    "PAPERS",
    "BsdeNetwork",
    "DiffusionNetwork",
    "Exported",
    "ExtrapolationWarning",
    "FewShotNetwork",
    "GraphNetwork",
    "ImageNetwork",
    "ModelEntry",
    "ModelSpec",
    "NonlocalBlock",
    "OnGraph",
    "Paper",
    "Perceptron",
    "PointNetwork",
    "PotentialNetwork",
    "SolutionBlock",
    "VelocityNetwork",
    "bsde",
    "building",
    "cnn",
    "create_model",
    "diff_resnet",
    "diff_resnet_fewshot",
    "diff_resnet_graph",
    "equivariant",
    "equivariant_hamiltonian",
    "export_network",
    "graph_baselines",
    "hamiltonian",
    "hyperbolic",
    "list_models",
    "load",
    "mobile",
    "model_entry",
    "nonlocal_hamiltonian",
    "odenet",
    "otflow",
    "parabolic",
    "perceptron",
    "points",
    "prnet",
    "refine",
    "resnet",
    "resnet26",
    "save",
    "solution_blocks",
    "transfer",
    "velocity",
    "with_fixed_steps",
]
