"""Refinement of evolutions, and what becomes of an optimiser's momenta."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import evolvent as ev
from evolvent import Evolution, evolutions, refine
from evolvent.dynamics import Hamiltonian, Residual, time_varying
from evolvent.errors import ConfigError, UnknownNameError
from evolvent.integrators import Euler, LinearMultistep, Verlet
from evolvent.tasks.multilevel import carry_state
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer


def smooth_list(steps: int, end: float = 0.4) -> Evolution:
    """Weights that are samples of a smooth function of time at the middle of steps."""
    torch.manual_seed(1)
    base, slope = torch.randn(2, 2, 2, 2, 3, 3, dtype=torch.float64) / 3
    flow = Evolution(
        [Hamiltonian(2, activation="tanh") for _ in range(steps)], Verlet(), step_size=end / steps
    ).double()
    with torch.no_grad():
        for j, f in enumerate(flow.dynamics):
            t = (j + 0.5) / steps
            for i, layer in enumerate((f.layer1, f.layer2)):
                layer.operator.weight.copy_(base[i] + (2 * t) ** 2 * slope[i])
    return flow


MADE = {
    "list": lambda: smooth_list(4),
    "shared": lambda: Evolution(Hamiltonian(2, activation="tanh"), Verlet(), steps=4, step_size=0.25).double(),
    "time-varying": lambda: Evolution(
        time_varying([Hamiltonian(2, activation="tanh") for _ in range(3)], end_time=1.0), Verlet(), 4, 0.25
    ).double(),
}


@pytest.mark.parametrize("options", [{}, {"interpolation": "linear", "knots": "doubled"}], ids=["default", "other"])
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_twice_the_steps_of_half_the_size_and_a_new_object(made, options):
    flow = made()
    before = copy.deepcopy(flow.state_dict())
    fine = flow.refine(**options)
    assert (fine.steps, fine.step_size) == (8, flow.step_size / 2)
    assert fine.steps * fine.step_size == pytest.approx(flow.steps * flow.step_size)
    assert not {id(p) for p in fine.parameters()} & {id(p) for p in flow.parameters()}
    assert all(torch.equal(value, before[name]) for name, value in flow.state_dict().items())
    assert (fine.gradient, fine.integrator) == (flow.gradient, flow.integrator)
    assert not flow.eval().refine().training


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_refinements_converge_to_the_equation_with_first_order(made):
    """The equation is fixed by the first level; differences halve with h, so the limit is at distance O(h)."""
    u0 = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    flow, values = made(), []
    for _ in range(7):
        values.append(flow(u0).detach())
        flow = flow.refine()
    jumps = [(b - a).norm().item() for a, b in itertools.pairwise(values)]
    rates = [a / b for a, b in itertools.pairwise(jumps)]
    assert rates[-1] == pytest.approx(2, abs=0.2)
    limit = 2 * values[-1] - values[-2]
    errors = [(v - limit).norm().item() for v in values]
    assert errors[0] / errors[4] == pytest.approx(16, rel=0.5)
    assert jumps[0] < 2 * errors[0]


@pytest.mark.parametrize("interpolation", ["constant", "linear"])
def test_the_jump_of_one_refinement_is_of_first_order_in_h(interpolation):
    u0 = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    jumps = [(f(u0) - f.refine(interpolation)(u0)).norm().item() for f in map(smooth_list, (8, 16, 32))]
    assert [a / b for a, b in itertools.pairwise(jumps)] == pytest.approx([2, 2], abs=0.4)


def test_linear_interpolation_is_second_order_in_the_weights():
    def off(steps: int) -> float:
        coarse, exact = smooth_list(steps).refine("linear"), smooth_list(2 * steps)
        pairs = zip(list(coarse.dynamics)[1:-1], list(exact.dynamics)[1:-1], strict=True)
        return max((a.layer1.operator.weight - b.layer1.operator.weight).abs().max().item() for a, b in pairs)

    assert off(8) / off(16) == pytest.approx(4, rel=0.05)
    ends = smooth_list(4), smooth_list(4).refine("linear")
    assert_close(ends[1].dynamics[0].layer1.operator.weight, ends[0].dynamics[0].layer1.operator.weight)


def test_statistics_are_copied_from_the_step():
    flow = Evolution([Residual(2), Residual(2)], Euler(), step_size=0.5)
    flow(torch.randn(4, 2, 5, 5))
    fine = flow.refine("linear")
    for j, f in enumerate(fine.dynamics):
        assert torch.equal(f.norm1.running_mean, flow.dynamics[j // 2].norm1.running_mean)


def test_methods_with_parameters_of_their_steps_are_refused():
    flow = Evolution(Residual(2), LinearMultistep(2), steps=2)
    with pytest.raises(ConfigError, match="cannot be refined"):
        flow.refine()


@pytest.mark.parametrize("options", [{"interpolation": "cubic"}, {"knots": "tripled"}])
def test_unknown_kinds_of_refinement_are_refused(options):
    with pytest.raises(UnknownNameError, match=r"unknown (interpolation 'cubic'|knots 'tripled')"):
        Evolution([Residual(2)], Euler()).refine(**options)


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = ev.create_model(
        "hamiltonian", num_classes=3, in_channels=1, image_size=8, channels=(4, 8), blocks=2, step_size=0.2
    ).double()
    x = torch.randn(48, 1, 8, 8, dtype=torch.float64)
    return model, x, (x[:, 0, :4].mean((1, 2)) * 4).add(1.5).clamp(0, 2).long()


@pytest.mark.parametrize("carry", [True, False], ids=["carried", "reset"])
@pytest.mark.parametrize(
    "config", [OptimizerConfig(lr=0.02), OptimizerConfig(name="adam", lr=0.003)], ids=["sgd", "adam"]
)
def test_loss_goes_on_falling_over_the_levels(config, carry):
    model, x, y = problem()
    optimizer, losses, jumps = make_optimizer(model.parameters(), config), [], []
    for epoch in range(24):
        if epoch in (8, 16):
            old, before = model, F.cross_entropy(model(x), y).item()
            model = refine(old)
            jumps.append(abs(F.cross_entropy(model(x), y).item() - before))
            new_optimizer = make_optimizer(model.parameters(), config)
            if carry:
                carry_state(old, optimizer, model, new_optimizer)
            optimizer = new_optimizer
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert [e.steps for _, e in evolutions(model)] == [8, 8]
    assert losses[7] < losses[0]
    assert losses[15] < losses[8]
    assert losses[-1] < losses[16] < losses[0]
    assert max(jumps) < 0.01 * losses[-1]
    chain = [model, refine(model), refine(refine(model))]
    coarse, middle, fine = (m(x).detach() for m in chain)
    assert (middle - coarse).norm() / (fine - middle).norm() == pytest.approx(2, abs=0.3)


def test_carried_momentum_is_that_of_the_refined_gradient():
    """For a list, gradients of both halves of a step add up to the step's, up to O(h)."""
    model, x, y = problem()
    fine = refine(model)
    optimizers = [make_optimizer(m.parameters(), OptimizerConfig(lr=1e-9)) for m in (model, fine)]
    for m, optimizer in zip((model, fine), optimizers, strict=True):
        F.cross_entropy(m(x), y).backward()
        optimizer.step()
    carried = make_optimizer(fine.parameters(), OptimizerConfig(lr=1e-9))
    carry_state(model, optimizers[0], fine, carried)
    own = torch.cat([optimizers[1].state[p]["momentum_buffer"].flatten() for p in fine.parameters()])
    got = torch.cat([carried.state[p]["momentum_buffer"].flatten() for p in fine.parameters()])
    assert F.cosine_similarity(own, got, dim=0) > 0.97
    assert got.norm() / own.norm() == pytest.approx(1, abs=0.1)


def test_adam_moments_and_counters_are_carried():
    flow = Evolution([Residual(2), Residual(2)], Euler(), step_size=0.5)
    optimizer = torch.optim.Adam(flow.parameters())
    flow(torch.ones(1, 2, 3, 3)).sum().backward()
    optimizer.step()
    fine = refine(flow)
    carried = torch.optim.Adam(fine.parameters())
    carry_state(flow, optimizer, fine, carried)
    old, new = ([o.state[p] for p in e.parameters()] for o, e in ((optimizer, flow), (carried, fine)))
    half = len(old) // 2
    for j, state in enumerate(new):
        parent = old[(j // half) // 2 * half + j % half]
        assert state["step"] == 1
        assert_close(state["exp_avg"], 0.5 * parent["exp_avg"])
        assert_close(state["exp_avg_sq"], 0.25 * parent["exp_avg_sq"])


def test_an_optimiser_that_has_not_stepped_has_nothing_to_carry():
    flow = Evolution(Residual(2), Euler(), steps=2)
    fine = refine(flow)
    optimizer = torch.optim.Adam(fine.parameters())
    carry_state(flow, torch.optim.Adam(flow.parameters()), fine, optimizer)
    assert not optimizer.state
