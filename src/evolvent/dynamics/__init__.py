"""Right-hand sides F(t, u; theta): one file per family."""

from evolvent.dynamics._contract import Dynamics, PartitionedDynamics, SecondOrderDynamics, SplitDynamics
from evolvent.dynamics.hamiltonian import Hamiltonian
from evolvent.dynamics.residual import Residual
from evolvent.dynamics.symmetric_layer import SymmetricLayer

__all__ = [
    "Dynamics",
    "Hamiltonian",
    "PartitionedDynamics",
    "Residual",
    "SecondOrderDynamics",
    "SplitDynamics",
    "SymmetricLayer",
]
