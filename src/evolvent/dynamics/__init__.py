"""Right-hand sides F(t, u; theta): one file per family."""

from evolvent.dynamics._contract import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics
from evolvent.dynamics.antisymmetric import Antisymmetric
from evolvent.dynamics.convection_diffusion import ConvectionDiffusion, on_graph
from evolvent.dynamics.from_module import ModuleDynamics, from_module
from evolvent.dynamics.hamiltonian import Hamiltonian
from evolvent.dynamics.layers import SymmetricLayer
from evolvent.dynamics.nonlocal_flow import FractionalDiffusion, NonlocalFlow, NonlocalSystem
from evolvent.dynamics.parabolic import Parabolic
from evolvent.dynamics.reaction_diffusion import ReactionDiffusion
from evolvent.dynamics.residual import Residual
from evolvent.dynamics.second_order import SecondOrder
from evolvent.dynamics.time_varying import TimeVarying, time_varying
from evolvent.dynamics.two_layer import TwoLayer

__all__ = [
    "Antisymmetric",
    "ConvectionDiffusion",
    "Dynamics",
    "FractionalDiffusion",
    "Hamiltonian",
    "ModuleDynamics",
    "NonlocalFlow",
    "NonlocalSystem",
    "Parabolic",
    "PartitionedDynamics",
    "ReactionDiffusion",
    "Residual",
    "SecondOrder",
    "SecondOrderDynamics",
    "SplitDynamics",
    "SymmetricLayer",
    "TimeVarying",
    "TwoLayer",
    "from_module",
    "on_graph",
    "time_varying",
]
