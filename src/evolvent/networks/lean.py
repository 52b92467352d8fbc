"""Networks with lean operators (Ephrath et al. 2020): fewer parameters and multiply-adds at the same width."""

from evolvent.networks import hamiltonian, hyperbolic, parabolic
from evolvent.networks._registry import register_member

_OPERATORS = {"lean": "lean", "lean5": "lean5", "multigrid": "multigrid"}

for _family in (hamiltonian.hamiltonian, hyperbolic.hyperbolic, parabolic.parabolic):
    for _prefix, _operator in _OPERATORS.items():
        _name = f"{_prefix}_{_family.__name__}"
        register_member(_name, _family.__name__, papers=("ephrath2020",), recipe="mnist-families", operator=_operator)
