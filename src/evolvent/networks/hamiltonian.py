"""Networks that neither amplify nor damp features: Hamiltonian (Chang et al. 2018) and antisymmetric (Haber and
Ruthotto 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from evolvent._core.checks import check_even
from evolvent.dynamics import Antisymmetric, Hamiltonian
from evolvent.evolution import Evolution
from evolvent.integrators import Euler, Verlet
from evolvent.networks._options import Damping, StepSize
from evolvent.networks._registry import register_family, register_member
from evolvent.networks._skeleton import ImageNetwork
from evolvent.networks._units import Unit, UnitOptions, unit_network


@register_family("hamiltonian", UnitOptions, papers=("bohn2021", "chang2018"), recipe="mnist-hamiltonian")
def hamiltonian(options: UnitOptions) -> ImageNetwork:
    r"""Hamiltonian network: feature halves that exchange energy, advanced by Verlet steps.

    .. math::
        Y_{j+1} = Y_j + h K_{j1}^\top \sigma(K_{j1} Z_j + b_{j1}), \qquad
        Z_{j+1} = Z_j - h K_{j2}^\top \sigma(K_{j2} Y_{j+1} + b_{j2})

    Eq. 2.6 of Bohn, Griebel, Kannan 2021, after Chang et al. 2018. The paper's parameter counts hold without bias and
    normalisation. It prints no step size beyond "low" (and 0.15 in one experiment); 0.1 is our choice.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.

    >>> import evolvent as ev
    >>> sum(p.numel() for p in ev.create_model("hamiltonian74").parameters())
    504938
    """

    def make_unit(unit: Unit) -> list[nn.Module]:
        check_even(channels=unit.width)
        blocks = [Hamiltonian(unit.width // 2, **options.layer) for _ in range(unit.blocks)]
        return [Evolution(blocks, Verlet(), step_size=options.step_size)]

    return unit_network(options, make_unit)


@dataclass(frozen=True, kw_only=True)
class AntisymmetricOptions(UnitOptions):
    step_size: StepSize = 0.3
    damping: Damping = 0.1


@register_family("antisymmetric", AntisymmetricOptions, papers=("haber2017",), recipe="mnist-families")
def antisymmetric(options: AntisymmetricOptions) -> ImageNetwork:
    r"""Antisymmetric network: the linear part turns features and barely lets them grow or shrink.

    .. math:: u_{j+1} = u_j + h\, \sigma\bigl(\mathcal N((K_j - K_j^\top - \gamma I)\, u_j) + b_j\bigr)

    Haber and Ruthotto 2017. The eigenvalues of :math:`K - K^\top` are imaginary; damping moves them to the left, into
    the stability region of Euler's method.

    Shape: (B, in_channels, H, W) to (B, num_classes), or to (B, num_classes, H, W) for segmentation.
    """

    def make_unit(unit: Unit) -> list[nn.Module]:
        blocks = [Antisymmetric(unit.width, damping=options.damping, **options.layer) for _ in range(unit.blocks)]
        return [Evolution(blocks, Euler(), step_size=options.step_size)]

    return unit_network(options, make_unit)


register_member("hamiltonian74", "hamiltonian", recipe="pide-table1-cifar10", channels=(32, 64, 112), blocks=6)
register_member("hamiltonian1202", "hamiltonian", recipe="depth-study-cifar10", channels=(32, 64, 112), blocks=100)
register_member("lean_hamiltonian", "hamiltonian", papers=("ephrath2020",), recipe="mnist-families", operator="lean")
register_member("lean5_hamiltonian", "hamiltonian", papers=("ephrath2020",), recipe="mnist-families", operator="lean5")
register_member(
    "multigrid_hamiltonian", "hamiltonian", papers=("eliasof2023",), recipe="mnist-families", operator="multigrid"
)
