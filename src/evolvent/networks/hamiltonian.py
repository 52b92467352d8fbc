"""Hamiltonian networks (Chang et al. 2018), as used by Bohn, Griebel, Kannan 2021."""

from __future__ import annotations

from evolvent._core.errors import ConfigError
from evolvent.dynamics import Hamiltonian
from evolvent.evolution import Evolution
from evolvent.integrators import Verlet
from evolvent.networks._registry import register_member
from evolvent.networks._units import Unit, unit_family


@unit_family("hamiltonian", papers=("bohn2021", "chang2018"), recipe="mnist-hamiltonian")
def hamiltonian(unit: Unit) -> Evolution:
    r"""Hamiltonian network: feature halves that exchange energy, advanced by Verlet steps.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2})

    Eq. 2.6 of Bohn, Griebel, Kannan 2021, after Chang et al. 2018. The paper's parameter counts hold without bias and
    normalisation. It prints no step size beyond "low" (and 0.15 in one experiment); 0.1 is our choice.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("hamiltonian74").parameters())
    504938
    """
    if unit.width % 2:
        raise ConfigError(f"hamiltonian splits channels in halves, so each number must be even, got {unit.width}.")
    blocks = [Hamiltonian(unit.width // 2, **unit.layer) for _ in range(unit.blocks)]
    return Evolution(blocks, Verlet(), step_size=unit.step_size)


register_member("hamiltonian74", "hamiltonian", recipe="pide-table1-cifar10", channels=(32, 64, 112), blocks=6)
register_member("hamiltonian1202", "hamiltonian", recipe="depth-study-cifar10", channels=(32, 64, 112), blocks=100)
