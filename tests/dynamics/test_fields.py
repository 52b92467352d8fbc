"""Dynamics over fields: with steerable operators they commute with the group."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from evolvent.dynamics import Antisymmetric, Dynamics, Hamiltonian, Parabolic, Residual, SecondOrder
from evolvent.dynamics.layers import SymmetricLayer
from evolvent.errors import ConfigError
from evolvent.evolution import Evolution
from evolvent.gradients import Reversible
from evolvent.groups import Field, cyclic, dihedral, irrep, regular_fields
from evolvent.integrators import Euler, Leapfrog, Verlet
from evolvent.operators import OPERATORS
from evolvent.operators.differential import FieldBias, SteerablePDO
from evolvent.testing import check_equivariance, check_gradient

FIELDS = {
    "steerable_c4": regular_fields(cyclic(4), 4),
    "steerable_c8": regular_fields(cyclic(8), 2),
    "steerable_d4": regular_fields(dihedral(4), 2),
}
FLOWS = {
    "parabolic": (Parabolic, Euler),
    "hamiltonian": (Hamiltonian, Verlet),
    "antisymmetric": (Antisymmetric, Euler),
    "second order": (SecondOrder, Leapfrog),
    "residual": (Residual, Euler),
}
every_kind = pytest.mark.parametrize("kind", FIELDS)
every_flow = pytest.mark.parametrize("flow", FLOWS)


def generic(module: nn.Module) -> nn.Module:
    """With parameters as after some training."""
    for name, p in module.named_parameters():
        if "bias" in name or "norm" in name:
            nn.init.normal_(p, 0.5)
    return module


def evolution(flow: str, kind: str, **options) -> Evolution:
    make, method = FLOWS[flow]
    channels = FIELDS[kind].channels // (2 if make is Hamiltonian else 1)
    steps: list[Dynamics] = [make(channels, operator=kind, **options) for _ in range(2)]
    made = Evolution(steps, method(), step_size=0.1)
    generic(made)
    return made


@every_flow
@every_kind
@pytest.mark.parametrize("norm", [None, "batch"])
@pytest.mark.parametrize("training", [True, False])
def test_flows_commute_with_the_group(flow, kind, norm, training):
    field = FIELDS[kind]
    check_equivariance(evolution(flow, kind, norm=norm, bias=True).train(training), field, field, 5)


@every_flow
def test_flows_of_ordinary_operators_do_not_commute(flow):
    field = FIELDS["steerable_c8"]
    make, method = FLOWS[flow]
    channels = 8 if make is Hamiltonian else 16
    plain = Evolution(make(channels, operator="full"), method(), steps=2, step_size=0.1)
    with pytest.raises(AssertionError, match="element 2 of C8"):
        check_equivariance(plain, field, field, 5)


@every_kind
def test_verlet_steps_are_undone(kind):
    f = Hamiltonian(FIELDS[kind].channels, operator=kind, bias=True).double()
    generic(f)
    y, z = torch.randn(2, 2, FIELDS[kind].channels, 5, 5, dtype=torch.float64)
    back = Verlet().unstep(f, 0.0, Verlet().step(f, 0.0, (y, z), 0.3), 0.3)
    assert_close(back, (y, z), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", [None, "batch"])
def test_reversible_gradients_are_those_of_backpropagation(norm):
    flow = evolution("hamiltonian", "steerable_c8", norm=norm, bias=True)
    check_gradient(Reversible(), flow, torch.randn(2, 16, 5, 5))


def test_a_field_has_one_bias():
    layer = SymmetricLayer(16, operator="steerable_c8", norm="batch", bias=True)
    assert isinstance(layer.bias, FieldBias)
    assert layer.bias.bias.shape == (2, 1)
    assert sum(p.numel() for p in layer.norm.parameters()) == 4  # type: ignore[union-attr]


def test_activations_that_do_not_commute_are_refused(monkeypatch):
    vectors = Field(irrep(cyclic(8), 1), 2)
    monkeypatch.setitem(OPERATORS._entries, "vectors", lambda before, after: SteerablePDO(vectors, vectors))
    with pytest.raises(ConfigError, match="'relu' does not commute with the group on 2 x irrep"):
        SymmetricLayer(4, operator="vectors")
