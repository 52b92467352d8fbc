import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call

from evolvent.dynamics import (
    Antisymmetric,
    Dynamics,
    Hamiltonian,
    Parabolic,
    PartitionedDynamics,
    ReactionDiffusion,
    Residual,
    SecondOrder,
    SecondOrderDynamics,
    SplitDynamics,
    time_varying,
)
from evolvent.equations import jet
from evolvent.errors import ConfigError, UnknownNameError
from evolvent.evolution import Evolution, set_gradient
from evolvent.gradients import STRATEGIES, Backprop, Checkpoint, GradientStrategy, Reversible, make_strategy
from evolvent.integrators import Euler, ImplicitMidpoint, Integrator, LinearMultistep, ProjectedEuler, Verlet
from evolvent.testing import all_integrators, check_gradient

TEXTS = ["checkpoint:1", "checkpoint:2", "checkpoint:99", "checkpoint:binomial:1", "checkpoint:binomial:2",
         "checkpoint:binomial:9", "reversible:1", "reversible:2", "adjoint", "backprop", "checkpoint",
         "reversible", "layer_parallel", "layer_parallel:2:3"]  # fmt: skip

EVOLUTIONS = {
    "hamiltonian list": lambda: Evolution([Hamiltonian(2, bias=True) for _ in range(4)], Verlet(), step_size=0.1),
    "hamiltonian shared": lambda: Evolution(Hamiltonian(2), Verlet(), steps=3, step_size=0.2),
    "hamiltonian norm": lambda: Evolution([Hamiltonian(2, norm="batch") for _ in range(2)], Verlet(), step_size=0.1),
    "hamiltonian tanh": lambda: Evolution(Hamiltonian(2, activation="tanh"), Verlet(), steps=3, step_size=0.2),
    "time-varying": lambda: Evolution(
        time_varying([Hamiltonian(2) for _ in range(3)], end_time=0.8), Verlet(), steps=4, step_size=0.2
    ),
    "one step": lambda: Evolution([Hamiltonian(2)], Verlet()),
    "no step": lambda: Evolution(Hamiltonian(2), Verlet(), steps=0),
    "residual": lambda: Evolution([Residual(4, "pre") for _ in range(3)], Euler(), step_size=0.5),
    "residual evaluated": lambda: Evolution([Residual(4) for _ in range(3)], ProjectedEuler()).eval(),
    "trained method": lambda: Evolution(Antisymmetric(4), LinearMultistep(5, 0.1), steps=5, step_size=0.2),
}

DYNAMICS: dict[type[Dynamics], list] = {
    Dynamics: [lambda: Antisymmetric(4, bias=True), lambda: Parabolic(4), lambda: Residual(4)],
    PartitionedDynamics: [lambda: Hamiltonian(2, bias=True)],
    SecondOrderDynamics: [lambda: SecondOrder(4)],
    SplitDynamics: [lambda: ReactionDiffusion(4)],
}


def defined(method: Integrator, f: Dynamics) -> bool:
    """Projection is of one part; a fixed-point iteration leaves running statistics that depend on its length."""
    if isinstance(method, ProjectedEuler):
        return not isinstance(f, (PartitionedDynamics, SecondOrderDynamics))
    return not isinstance(method, ImplicitMidpoint) or not isinstance(f, Residual)


# every method with every kind of dynamics that it acts on
EVOLUTIONS |= {
    f"{method} {make().__class__.__name__}": lambda method=method, make=make: Evolution(
        [make() for _ in range(3)], method, step_size=0.05
    )
    for method in all_integrators()
    for kind, makers in DYNAMICS.items()
    if issubclass(kind, method.acts_on)
    for make in makers
    if defined(method, make())
}


def served(text: str, evolution: Evolution) -> bool:
    try:
        make_strategy(text).check_method(evolution.integrator)
    except ConfigError:
        return False
    return True


PAIRS = [(name, text) for name, made in EVOLUTIONS.items() for text in TEXTS if served(text, made())]


@pytest.mark.parametrize(("name", "text"), PAIRS)
def test_strategy_agrees_with_autograd(name, text):
    strategy, evolution = make_strategy(text), EVOLUTIONS[name]()
    u0 = torch.randn(2, 4, 3, 5)
    if not strategy.exact and isinstance(evolution.dynamics_at(-1), SecondOrderDynamics):
        u0 = (u0, -u0)  # with the last velocity unused, backpropagation has no gradient of some parameters
    check_gradient(strategy, evolution, u0)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_strategy_agrees_on_pairs_and_single_pixels(name):
    evolution = Evolution([Hamiltonian(1) for _ in range(3)], Verlet(), step_size=0.1)
    check_gradient(STRATEGIES.get(name)(), evolution, (torch.randn(1, 1, 1, 1), torch.randn(1, 1, 1, 1)))


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_registered_under_its_own_name(name):
    strategy = STRATEGIES.get(name)()
    assert strategy.name == name
    assert isinstance(strategy.exact, bool)
    assert type(strategy).__name__ in repr(strategy)
    assert repr(make_strategy(strategy.text)) == repr(strategy)


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_value_without_gradient(name):
    evolution = Evolution([Hamiltonian(1), Hamiltonian(1)], Verlet(), gradient=STRATEGIES.get(name)())
    with torch.no_grad():
        value = evolution(torch.randn(1, 2, 3, 3))
    assert not value.requires_grad


def test_backprop_against_a_loop_written_out():
    f = [Hamiltonian(1).double() for _ in range(3)]
    evolution = Evolution(f, Verlet(), step_size=0.1)
    u0 = torch.randn(1, 2, 3, 3, dtype=torch.float64)
    evolution(u0).square().sum().backward()
    found = [p.grad.clone() for p in evolution.parameters()]
    evolution.zero_grad()
    y, z = u0.chunk(2, 1)
    for g in f:
        y = y + 0.1 * nn.functional.conv_transpose2d(
            nn.functional.conv2d(z, g.layer1.operator.weight, padding=1).relu(), g.layer1.operator.weight, padding=1
        )
        z = z - 0.1 * nn.functional.conv_transpose2d(
            nn.functional.conv2d(y, g.layer2.operator.weight, padding=1).relu(), g.layer2.operator.weight, padding=1
        )
    (y.square().sum() + z.square().sum()).backward()
    for p, expected in zip(evolution.parameters(), found, strict=True):
        torch.testing.assert_close(p.grad, expected, rtol=1e-10, atol=1e-12)


def test_contract_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        GradientStrategy()
    assert repr(Backprop()) == "Backprop()"


@pytest.mark.parametrize("text", TEXTS)
def test_frozen_parameters_and_inputs_have_no_gradient(text):
    evolution = Evolution([Hamiltonian(2, bias=True) for _ in range(3)], Verlet(), step_size=0.1, gradient=text)
    evolution.dynamics[1].requires_grad_(False)
    evolution.dynamics[2].layer1.bias.requires_grad_(False)
    evolution(torch.randn(1, 4, 3, 3)).sum().backward()
    assert all((p.grad is not None) == p.requires_grad for p in evolution.parameters())


@pytest.mark.parametrize("text", TEXTS)
def test_input_alone(text):
    evolution = Evolution(Hamiltonian(2), Verlet(), steps=3, step_size=0.1, gradient=text).requires_grad_(False)
    u0 = torch.randn(1, 4, 3, 3, requires_grad=True)
    evolution(u0).sum().backward()
    assert u0.grad is not None
    assert not evolution(u0.detach()).requires_grad


@pytest.mark.parametrize("text", TEXTS)
def test_grad_of_chosen_parameters(text):
    evolution = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1).double()
    u0, chosen = torch.randn(1, 4, 3, 3).double(), evolution.dynamics[1].layer2.operator.weight
    [expected] = torch.autograd.grad(evolution(u0).square().sum(), chosen)
    evolution.gradient = text
    [found] = torch.autograd.grad(evolution(u0).square().sum(), chosen)
    if evolution.gradient.exact:
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert all(p.grad is None for p in evolution.parameters())


@pytest.mark.parametrize("text", TEXTS)
def test_one_evolution_used_twice_between_relus_in_place(text):
    torch.manual_seed(1)
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1)
    net = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(inplace=True), flow, nn.Conv2d(4, 4, 1), flow).double()
    x = torch.randn(2, 1, 3, 3).double()

    def gradients() -> list[torch.Tensor]:
        net.zero_grad()
        net(x).square().sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    expected = gradients()
    flow.gradient = text
    found = gradients()
    if flow.gradient.exact:
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


REPEATING = [text for text in TEXTS if not text.startswith(("backprop", "layer_parallel"))]


@pytest.mark.parametrize("text", REPEATING)
def test_weights_changed_before_the_backward_pass_are_noticed(text):
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1, gradient=text)
    loss = flow(torch.randn(1, 4, 3, 3)).square().sum()
    loss.backward(retain_graph=True)
    first = flow.dynamics[0].layer1.operator.weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(flow.dynamics[0].layer1.operator.weight.grad, 2 * first)
    loss = flow(torch.randn(1, 4, 3, 3)).square().sum()
    torch.optim.SGD(flow.parameters(), 0.1).step()
    with pytest.raises(ConfigError, match=r"weights were changed or exchanged .* Run the forward pass again"):
        loss.backward()


@pytest.mark.parametrize("text", REPEATING)
def test_weights_of_a_functional_call_are_noticed(text):
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1, gradient=text)
    others = {name: (0.5 * p).detach().requires_grad_() for name, p in flow.named_parameters()}
    loss = functional_call(flow, others, torch.randn(1, 4, 3, 3)).square().sum()
    with pytest.raises(ConfigError, match="weights were changed or exchanged"):
        loss.backward()


@pytest.mark.parametrize("text", ["checkpoint:1", "checkpoint:binomial:2", "reversible", "adjoint"])
def test_weights_may_change_after_their_last_use(text):
    """Optimisers that act during the backward pass, layer after layer."""
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1, gradient=text)
    for p in flow.parameters():
        p.register_post_accumulate_grad_hook(torch.no_grad()(lambda p: p.sub_(p.grad)))
    before = [p.detach().clone() for p in flow.parameters()]
    flow(torch.randn(1, 4, 3, 3)).square().sum().backward()
    assert all(torch.equal(p, b - p.grad) for p, b in zip(flow.parameters(), before, strict=True))


@pytest.mark.parametrize("text", TEXTS)
def test_copies_and_pickles(text):
    evolution = Evolution(Hamiltonian(2), Verlet(), steps=3, step_size=0.1, gradient=text)
    u0 = torch.randn(1, 4, 3, 3)
    for twin in (copy.deepcopy(evolution), pickle.loads(pickle.dumps(evolution))):
        assert repr(twin.gradient) == repr(evolution.gradient)
        assert torch.equal(twin(u0), evolution(u0))


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("evolution", ["hamiltonian list", "hamiltonian tanh"])
def test_mixed_precision_is_reproduced(text, evolution):
    evolution, u0 = EVOLUTIONS[evolution](), torch.randn(2, 4, 5, 5)

    def gradients() -> torch.Tensor:
        evolution.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = evolution(u0)
        value.square().sum().backward()
        return torch.cat([p.grad.flatten() for p in evolution.parameters()])

    expected = gradients()
    evolution.gradient = text
    found = gradients()
    assert found.dtype == torch.float32
    if evolution.gradient.exact:
        assert (found - expected).norm() < 0.01 * expected.norm()


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("power", [1, 2])
def test_second_derivatives_are_right_or_refused(text, power):
    """A linear functional hands the strategy a constant; its gradient depends on the parameters all the same."""
    flow = Evolution([Hamiltonian(2, activation="tanh") for _ in range(3)], Verlet(), step_size=0.1).double()
    stem, x = nn.Conv2d(1, 4, 1).double(), torch.randn(2, 1, 3, 3).double().requires_grad_()

    def second() -> torch.Tensor:
        [slope] = torch.autograd.grad(flow(stem(x)).pow(power).sum(), x, create_graph=True)
        [found] = torch.autograd.grad(slope.square().sum(), stem.weight)
        return found

    expected = second()
    flow.gradient = text
    if text == "backprop" or (text.startswith("checkpoint") and "binomial" not in text):
        torch.testing.assert_close(second(), expected, rtol=1e-9, atol=1e-11)
    else:
        with pytest.raises(ConfigError, match="second derivatives"):
            second()


class Noisy(Hamiltonian):
    """Dropout inside both right-hand sides."""

    def dy(self, t, z):
        return nn.functional.dropout(super().dy(t, z), 0.5, self.training)

    def dz(self, t, y):
        return nn.functional.dropout(super().dz(t, y), 0.5, self.training)


@pytest.mark.parametrize(
    "text", [text for text in TEXTS if make_strategy(text).exact and not text.startswith("layer_parallel")]
)  # layer-parallel solves refuse random numbers
def test_dropout_is_reproduced(text):
    flow = Evolution([Noisy(2) for _ in range(4)], Verlet(), step_size=0.1)
    check_gradient(make_strategy(text), flow, torch.randn(2, 4, 5, 5))
    torch.manual_seed(3)
    flow(torch.randn(2, 4, 5, 5)).sum().backward()
    expected = torch.rand(1)
    torch.manual_seed(3)
    flow.gradient = text
    flow(torch.randn(2, 4, 5, 5)).sum().backward()
    assert torch.equal(torch.rand(1), expected)


def test_text_is_parsed_in_one_place():
    assert repr(make_strategy("checkpoint:binomial:5")) == "Checkpoint(stored=5)"
    assert repr(make_strategy("reversible:10")) == "Reversible(anchor_every=10)"
    assert make_strategy("checkpoint").text == "checkpoint:sqrt"
    for text in TEXTS:
        assert make_strategy(make_strategy(text).text).text == make_strategy(text).text
    with pytest.raises(UnknownNameError, match="'reversible'"):
        make_strategy("reversable:3")


@pytest.mark.parametrize(
    "text",
    ["backprop:2", "checkpoint:0", "checkpoint:-1", "checkpoint:binomial", "checkpoint:binomial:x", "checkpoint:cube",
     "checkpoint:4:4", "reversible:x", "reversible:0", "reversible:2:3", "adjoint:1"],
)  # fmt: skip
def test_bad_options_are_refused(text):
    with pytest.raises(ConfigError, match="got"):
        make_strategy(text)


@pytest.mark.parametrize(
    "make",
    [lambda: Checkpoint(0), lambda: Checkpoint("log"), lambda: Checkpoint(2, stored=2), lambda: Checkpoint(stored=0),
     lambda: Checkpoint(2.5), lambda: Reversible(0), lambda: Reversible("10")],
)  # fmt: skip
def test_bad_arguments_are_refused(make):
    with pytest.raises(ConfigError, match="got"):
        make()


def test_a_strategy_that_does_not_fit_is_refused_before_training():
    flow = Evolution(Residual(4), Euler(), steps=2)
    with pytest.raises(ConfigError, match=r"Euler\(\) cannot be undone. Use .*Verlet\(\).* 'checkpoint'"):
        flow.gradient = Reversible()
    with pytest.raises(ConfigError, match="cannot be undone"):
        Evolution(Residual(4), Euler(), steps=2, gradient="reversible")
    net = nn.Sequential(Evolution(Hamiltonian(2), Verlet(), steps=2), flow)
    with pytest.raises(ConfigError, match="cannot be undone"):
        set_gradient(net, "reversible")
    assert all(isinstance(flow.gradient, Backprop) for flow in net)
    with pytest.raises(ConfigError, match="carries more"):
        Evolution(Antisymmetric(4), LinearMultistep(2), steps=2, gradient="adjoint")


def test_a_method_changed_later_is_refused_in_use():
    flow = Evolution(Hamiltonian(2), Verlet(), steps=2, gradient="reversible")
    flow.integrator = Euler()
    with pytest.raises(ConfigError, match="cannot be undone"):
        flow(torch.randn(1, 4, 3, 3))


def test_a_text_makes_a_strategy_for_each_evolution():
    net = nn.Sequential(*[Evolution(Residual(2), Euler(), step_size=0.1, steps=4) for _ in range(2)])
    set_gradient(net, "layer_parallel:2")
    assert net[0].gradient is not net[1].gradient
    net(torch.randn(1, 2, 3, 3)).sum().backward()
    assert net[0].gradient.forward_residuals != net[1].gradient.forward_residuals


@pytest.mark.parametrize("strategy", ["reversible", "checkpoint:binomial:2", "adjoint"])
def test_constants_pass_beside_jets_in_inference_mode(strategy):
    flow = Evolution([Hamiltonian(2) for _ in range(3)], Verlet(), step_size=0.1, gradient=strategy)
    with torch.inference_mode():
        x, constant = torch.randn(2, 2, 4, 3, 3)
        value, slope = jet(lambda u: flow(constant) * u, x, torch.ones(4, 3, 3), 1)
    torch.testing.assert_close(value, slope * x)
