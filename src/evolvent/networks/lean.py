"""Networks with lean operators (Ephrath et al. 2020) and multigrid in channels (Eliasof et al. 2023).

They have fewer parameters and multiply-adds at the same width.
"""

from evolvent.networks import hamiltonian, hyperbolic, parabolic
from evolvent.networks._registry import register_member

_PAPERS = {"lean": "ephrath2020", "lean5": "ephrath2020", "multigrid": "eliasof2023"}  # by kind of operator

for _family in (hamiltonian.hamiltonian, hyperbolic.hyperbolic, parabolic.parabolic):
    for _operator, _paper in _PAPERS.items():
        _name = f"{_operator}_{_family.__name__}"
        register_member(_name, _family.__name__, papers=(_paper,), recipe="mnist-families", operator=_operator)
