"""Antisymmetric networks (Haber and Ruthotto 2017)."""

from __future__ import annotations

from evolvent.dynamics import Antisymmetric
from evolvent.evolution import Evolution
from evolvent.integrators import Euler
from evolvent.networks._units import Unit, unit_family


@unit_family("antisymmetric", papers=("haber2017",), recipe="mnist-families", step_size=0.3)
def antisymmetric(unit: Unit, *, damping: float = 0.1) -> Evolution:
    r"""Antisymmetric network: the linear part turns features and barely lets them grow or shrink.

    .. math:: u_{j+1} = u_j + h\, \sigma\bigl(\mathcal N((K_j - K_j^\top - \gamma I)\, u_j) + b_j\bigr)

    Haber and Ruthotto 2017. The eigenvalues of :math:`K - K^\top` are imaginary; damping moves them to the left, into
    the stability region of Euler's method.

    Args:
        damping: :math:`\gamma`.
    """
    blocks = [Antisymmetric(unit.width, damping=damping, **unit.layer) for _ in range(unit.blocks)]
    return Evolution(blocks, Euler(), step_size=unit.step_size)
