"""What is needed to write a network: options, registration, the frames and parts that the shipped networks use.

A family is a class of options and a builder that takes an object of it; see "Add a network" in CONTRIBUTING.md.
"""

from evolvent.networks._graph_skeleton import GraphNetwork, GraphOptions, OnGraph, StackedLinear, kept_for, part_of
from evolvent.networks._options import (
    Bias,
    Blocks,
    Channels,
    Count,
    Damping,
    Dropout,
    HeadPool,
    ImageOptions,
    ImageSize,
    InChannels,
    NetworkOptions,
    NormOption,
    NumClasses,
    Operator,
    Readout,
    ReadoutOption,
    StepSize,
    Width,
)
from evolvent.networks._papers import PAPERS, Paper
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import (
    ImageNetwork,
    PixelClassifier,
    PooledLinear,
    height_and_width,
    per_unit,
    plain_conv,
)
from evolvent.networks._units import Unit, UnitOptions, unit_network
from evolvent.networks.odenet import ZeroChannels
from evolvent.networks.points import PointNetwork

__all__ = [
    "PAPERS",
    "Bias",
    "Blocks",
    "Channels",
    "Count",
    "Damping",
    "Dropout",
    "GraphNetwork",
    "GraphOptions",
    "HeadPool",
    "ImageNetwork",
    "ImageOptions",
    "ImageSize",
    "InChannels",
    "NetworkOptions",
    "NormOption",
    "NumClasses",
    "OnGraph",
    "Operator",
    "Paper",
    "PixelClassifier",
    "PointNetwork",
    "PooledLinear",
    "Readout",
    "ReadoutOption",
    "StackedLinear",
    "StepSize",
    "Unit",
    "UnitOptions",
    "Width",
    "ZeroChannels",
    "height_and_width",
    "kept_for",
    "part_of",
    "per_unit",
    "plain_conv",
    "register_family",
    "register_member",
    "unit_network",
]
