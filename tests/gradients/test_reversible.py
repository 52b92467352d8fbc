import copy

import pytest
import torch
from torch import nn

from evolvent import analysis, create_model, set_gradient
from evolvent.dynamics import Hamiltonian, PartitionedDynamics, SecondOrder
from evolvent.errors import ConfigError
from evolvent.evolution import Evolution
from evolvent.gradients import Backprop, Checkpoint, Reversible, reconstruction_error
from evolvent.gradients.replay import Replay
from evolvent.gradients.symmetric_undoing import SymmetricUndoing
from evolvent.integrators import Leapfrog, Verlet


def hamiltonian(steps: int, **options) -> Evolution:
    return Evolution([Hamiltonian(2, **options) for _ in range(steps)], Verlet(), step_size=0.1)


def saved_bytes(steps: int, strategy) -> int:
    flow = hamiltonian(steps)
    flow.gradient = strategy
    return analysis.activation_bytes(flow, torch.randn(2, 4, 8, 8))


def test_memory_does_not_grow_with_steps():
    state = 2 * 4 * 8 * 8 * 4
    assert saved_bytes(4, Reversible()) == saved_bytes(40, Reversible()) == state
    assert saved_bytes(40, Reversible(10)) == state * (1 + 3)
    assert saved_bytes(40, Checkpoint(stored=3)) == (3 + 1) * state
    assert saved_bytes(40, Backprop()) > 40 * state
    assert saved_bytes(40, Checkpoint("sqrt")) < 8 * state


def suits(flow: Evolution) -> bool:
    return SymmetricUndoing.suits(flow, Replay(flow.modules(), (torch.zeros(1),)))


def test_written_out_derivatives_serve_plain_hamiltonians_only():
    assert suits(hamiltonian(2, bias=True))
    assert not suits(hamiltonian(2, norm="group"))
    assert not suits(hamiltonian(2, activation="tanh"))
    assert not suits(hamiltonian(2, operator="dense"))
    assert not suits(Evolution(SecondOrder(2), Leapfrog(), steps=2))
    with torch.autocast("cpu"):
        assert not suits(hamiltonian(2))
    watched = hamiltonian(2)
    watched.dynamics[1].layer1.operator.register_forward_hook(lambda *_: None)
    assert not suits(watched)


class Child(Hamiltonian):
    def dy(self, t, z):
        return 2 * super().dy(t, z)


def test_written_out_derivatives_do_not_serve_subclasses():
    assert not suits(Evolution(Child(2), Verlet(), steps=2))


@pytest.mark.parametrize("momentum", [0.1, None])
def test_statistics_are_those_of_one_pass(momentum):
    plain = create_model("hamiltonian", channels=(4, 8), blocks=3, norm="batch", in_channels=1, image_size=8)
    for norm in plain.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.momentum = momentum
    x = torch.randn(4, 1, 8, 8)
    twins = {text: copy.deepcopy(plain) for text in ("backprop", "reversible", "checkpoint:2", "checkpoint:binomial:2")}
    for text, twin in twins.items():
        set_gradient(twin, text)
        for _ in range(2):
            twin(x).square().sum().backward()
    expected = dict(twins["backprop"].named_buffers())
    assert any(name.endswith("num_batches_tracked") and b == 2 for name, b in expected.items())
    for twin in twins.values():
        for name, buffer in twin.named_buffers():
            torch.testing.assert_close(buffer, expected[name], msg=name)


def test_error_of_reconstruction():
    flow = hamiltonian(30)
    u0 = torch.randn(2, 4, 6, 6)
    assert 0 < reconstruction_error(flow, u0) < 1e-3
    assert reconstruction_error(flow.double(), u0.double()) < 1e-11
    assert reconstruction_error(flow, tuple(u0.double().chunk(2, 1))) < 1e-11
    strategy = flow.gradient = Reversible(check=True)
    flow(u0.double()).sum().backward()
    assert 0 < strategy.report() < 1e-11
    assert strategy.report() is None


def test_error_of_reconstruction_of_complex_states():
    class Turning(PartitionedDynamics):
        def dy(self, t, z):
            return 2.1 * z

        def dz(self, t, y):
            return 0.7j * y

    state = tuple(1j * torch.full((3,), 0.1 + k, dtype=torch.complex64) for k in range(2))
    error = reconstruction_error(Evolution(Turning(), Verlet(), 40, 0.1), state)
    assert 1e-9 < error < 1e-3


def test_anchors_shorten_the_error():
    torch.manual_seed(2)
    flow, u0 = hamiltonian(60), torch.randn(2, 4, 6, 6)
    errors = {}
    for every in (None, 5):
        flow.gradient = Reversible(every, check=True)
        flow(u0).sum().backward()
        errors[every] = flow.gradient.report()
    assert errors[5] < errors[None]


def test_error_of_reconstruction_leaves_no_trace():
    flow = hamiltonian(3, norm="batch")
    before, state = copy.deepcopy(flow.state_dict()), torch.get_rng_state()
    reconstruction_error(flow, torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in flow.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_second_derivatives_are_refused():
    flow = hamiltonian(2)
    flow.gradient = Reversible()
    u0 = torch.randn(1, 4, 3, 3, requires_grad=True)
    with pytest.raises(ConfigError, match=r"second derivatives .* gradient='backprop'"):
        torch.autograd.grad(flow(u0).square().sum(), u0, create_graph=True)


def test_output_changed_in_place_is_noticed():
    flow = hamiltonian(2)
    flow.gradient = Reversible()
    y, z = flow(tuple(torch.randn(1, 2, 3, 3, requires_grad=True) for _ in range(2)))
    with pytest.raises(RuntimeError, match=r"inplace|in-place"):
        (y.mul_(2) + z).sum().backward()


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_loss_of_one_part_leaves_the_other_out(activation):
    flow = hamiltonian(3, activation=activation).double()
    u0 = tuple(torch.randn(1, 2, 3, 3, dtype=torch.float64) for _ in range(2))
    found = {}
    for text in ("backprop", "reversible"):
        flow.gradient = text
        flow.zero_grad()
        flow(u0)[0].square().sum().backward()
        found[text] = {name: p.grad for name, p in flow.named_parameters()}
    for name, expected in found["backprop"].items():
        if expected is None:
            assert found["reversible"][name] is None
        else:
            torch.testing.assert_close(found["reversible"][name], expected, rtol=1e-10, atol=1e-12)
    assert found["backprop"]["dynamics.2.layer2.operator.weight"] is None
