"""The audit catches masked gradients of every kind, names the check, and trusts ordinary networks."""

import copy

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.analysis import AttackWarning, audit_masking
from evolvent.analysis.robustness import audit as audit_module
from evolvent.analysis.robustness.twins import MeanAnswer, is_random, substitute, unrolled
from evolvent.dynamics import Residual
from evolvent.errors import ConfigError
from evolvent.integrators import Dopri5, Euler
from evolvent.integrators._contract import Integrator

EPS = 0.1


class Hot(nn.Module):
    """Scores so large that the softmax saturates: the cross-entropy has no gradient left."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x):
        return 1e4 * self.model(x)


class Quantised(Hot):
    """Pixels are rounded to nine levels: no gradient passes."""

    def forward(self, x):
        return self.model((8 * x).round() / 8)


class Rippled(Hot):
    """A ripple far below a grey level turns the gradient round, but not the answer."""

    def forward(self, x):
        return self.model(x - 2e-6 * torch.sin(1e6 * x) - 0)


class Scaled(Hot):
    """Scores times a number: the same classes, with another certainty."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__(model)
        self.factor = factor

    def forward(self, x):
        return self.factor * self.model(x)


class Borrowed(Hot):
    """Answers of one network, gradients of another with random weights."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.other = copy.deepcopy(model)
        generator = torch.Generator().manual_seed(3)
        for weight in self.other.parameters():
            nn.init.normal_(weight, 0, 0.2, generator)

    def forward(self, x):
        other = self.other(x)
        return self.model(x).detach() + other - other.detach()


class Noisy(Hot):
    """Random at evaluation."""

    def forward(self, x):
        return self.model(x + 0.15 * torch.randn_like(x))


class DetachedAdaptive(Integrator):
    """An adaptive method through which gradients pass as if nothing had happened."""

    order, adaptive = 5, True

    def step(self, f, t, u, h):
        return u + (Dopri5(1e-4, 1e-4).step(f, t, u, h) - u).detach()


def audit(model, digits, **options):
    return audit_masking(model.eval(), *digits, **{"eps": EPS, "steps": 10, "queries": 150} | options)


def checks(found) -> dict[str, bool | None]:
    return {check.name: check.passed for check in found.checks}


def test_an_ordinary_network_is_trusted(convnet, digits):
    told = []
    found = audit(convnet, digits, tell=told.append)
    assert found.trusted, found.verdict
    assert found.verdict == "trust the figure: all 6 checks for masked gradients are passed"
    assert checks(found) == {
        "gradients": True, "iteration": True, "margin": True, "search without gradients": True, "transfer": True,
        "fixed steps": None, "expectation": None, "larger budgets": True,
    }  # fmt: skip
    assert found.accuracies["PGD"] <= found.accuracies["FGSM"] < found.accuracies["clean"]
    assert found.sweep[-1] == 0
    assert found.sweep == sorted(found.sweep, reverse=True)
    assert told[-1] == 1
    assert told == sorted(told)


@pytest.mark.parametrize("masked", [Hot, Quantised])
def test_vanishing_gradients_are_caught(masked, convnet, digits):
    found = audit(masked(convnet), digits)
    assert not found.trusted
    assert found.verdict.startswith("do not trust the figure: ")
    assert "of the images have no usable gradient [gradients]" in found.verdict
    assert "\n" not in found.verdict
    failed = {name for name, passed in checks(found).items() if passed is False}
    assert {"gradients", "larger budgets"} <= failed
    assert "search without gradients" in failed or masked is Quantised
    assert found.accuracies["PGD"] == found.accuracies["clean"]


def test_gradients_that_mislead_are_caught_by_attacks_without_them(convnet, digits):
    """They are there, and finite: only other attacks show that they are of no use."""
    images, labels = digits[0].double() / 255, digits[1]
    found = audit(Rippled(copy.deepcopy(convnet).double()), (images, labels))
    assert checks(found)["gradients"]
    assert checks(found)["search without gradients"] is False or checks(found)["transfer"] is False
    assert not found.trusted


@pytest.mark.parametrize("factor", [1e-3, 10.0])
def test_scores_of_an_unusual_scale_are_caught_by_the_margin(factor, convnet, digits):
    """The cross-entropy has gradients that help, but point elsewhere: no class is the runner-up, or one is rounded."""
    found = audit(Scaled(convnet, factor), digits, eps=0.15, queries=20)
    assert next(name for name, passed in checks(found).items() if passed is False) == "margin"
    assert "PGD on the difference of scores leaves" in found.verdict


def test_wrong_gradients_are_caught_at_a_budget_too_small_to_change_anything(convnet, digits):
    found = audit(Borrowed(convnet), digits, eps=0.005)
    assert [name for name, passed in checks(found).items() if passed is False] == ["larger budgets"]
    assert "a search without gradients leaves" in found.verdict


@pytest.fixture(scope="module")
def odenet(digits):
    """A network with one evolution, trained on the test digits themselves."""
    torch.manual_seed(1)
    flow = ev.Evolution(Residual(8), Euler(), steps=4, step_size=0.5)
    stem, head = nn.Conv2d(1, 8, 3, padding=1), nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10))
    net = nn.Sequential(stem, flow, head)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(digits[0] / 255), digits[1]).backward()
        optimizer.step()
    return net.eval()


def with_method(net: nn.Sequential, method: Integrator, gradient: str = "backprop") -> nn.Module:
    net = copy.deepcopy(net)
    net[1] = ev.Evolution(net[1].dynamics, method, steps=4, step_size=0.5, gradient=gradient)
    return net.eval()


def test_adaptive_solvers_are_attacked_through_fixed_steps(odenet, digits):
    found = audit(with_method(odenet, Dopri5(1e-4, 1e-4), "adjoint"), digits, queries=60)
    assert checks(found)["fixed steps"] is True
    assert found.accuracies["fixed steps"] == pytest.approx(found.accuracies["PGD"], abs=0.05)
    assert found.trusted, found.verdict


def test_a_solver_that_hides_its_gradient_is_caught_by_fixed_steps(odenet, digits):
    found = audit(with_method(odenet, DetachedAdaptive()), digits, queries=60)
    assert checks(found)["fixed steps"] is False
    assert "an attack through fixed steps leaves" in str(found.checks)
    assert not found.trusted


def test_random_networks_are_attacked_in_expectation(convnet, digits):
    found = audit(Noisy(convnet), (digits[0][:30], digits[1][:30]), queries=20)
    assert checks(found)["expectation"] is not None
    assert found.accuracies["PGD"] <= found.accuracies["one draw"] + 0.02
    torch.manual_seed(9)
    state = torch.random.get_rng_state()
    again = audit(Noisy(convnet), (digits[0][:30], digits[1][:30]), queries=20)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert again == found


class SeldomNoisy(Hot):
    """Random in one call of five: two answers are mostly the same."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return self.model(x + 0.3 * torch.randn_like(x) * (self.calls % 5 == 0))


def test_networks_that_are_seldom_random_are_noticed(convnet, digits):
    found = audit(SeldomNoisy(convnet), (digits[0][:30], digits[1][:30]), queries=20)
    assert checks(found)["expectation"] is not None


def test_one_image_decides_nothing(convnet, digits, monkeypatch):
    left = {"PGD": 0.5, "margin": 0.45, "Square": 0.4}
    leaves = lambda self, attack, source, eps: left["margin" if attack.loss == "margin" else "PGD"]  # noqa: E731
    images, labels = digits[0][:20] / 255, digits[1][:20]
    auditor = audit_module._Auditor(convnet, images, labels, 1, 1, 0)
    auditor.accuracies |= left
    monkeypatch.setattr(audit_module._Auditor, "_leaves", leaves)
    assert auditor._margin(EPS).passed
    assert not auditor._not_beaten("search without gradients", "Square", "two images").passed


def test_twins(odenet, digits):
    images = digits[0] / 255
    assert unrolled(odenet, images) is None
    inexact = with_method(odenet, Euler(), "adjoint")
    twin = unrolled(inexact, images)
    assert (str(twin[1].integrator), twin[1].gradient.name) == ("Euler()", "backprop")
    assert inexact[1].gradient.name == "adjoint"
    several = nn.Sequential(
        odenet[0], ev.Evolution([Residual(8), Residual(8)], Dopri5(1e-3, 1e-3), step_size=0.2), odenet[2]
    )
    twin = unrolled(several.eval(), images)
    assert twin[1].steps >= 8
    torch.testing.assert_close(twin(images), several(images), rtol=1e-2, atol=1e-2)
    other = substitute(odenet, images, torch.Generator().manual_seed(0))
    assert isinstance(other[1], nn.Identity)
    assert (other(images).argmax(1) == odenet(images).argmax(1)).double().mean() > 0.8
    assert not any(p.requires_grad for p in other.parameters())
    alone = ev.Evolution(Residual(8), Dopri5(), steps=1)
    assert unrolled(nn.Sequential(alone, odenet[2]).eval(), torch.rand(2, 8, 8, 8)) is not None


def test_the_mean_answer_has_the_mean_probabilities(convnet, digits):
    images = digits[0] / 255
    noisy = Noisy(convnet)
    assert is_random(noisy, images, 2)
    assert not is_random(convnet, images, 3)
    torch.manual_seed(0)
    each = torch.stack([noisy(images).softmax(1) for _ in range(3)])
    torch.manual_seed(0)
    torch.testing.assert_close(MeanAnswer(noisy, 3)(images).softmax(1), each.mean(0))


def test_what_cannot_be_audited_is_explained(convnet, digits):
    with torch.no_grad():
        wrong = (convnet(digits[0] / 255).argmax(1) + 1) % 10
    with pytest.raises(ConfigError, match="right on 0 of 60 images"):
        audit(convnet, (digits[0], wrong))
    with pytest.raises(ConfigError, match="Did you mean 8/255"):
        audit(convnet, digits, eps=8)
    with pytest.raises(ConfigError, match="queries"):
        audit(convnet, digits, queries=0)
    with pytest.warns(AttackWarning, match="training mode"), pytest.raises(ConfigError):
        audit_masking(copy.deepcopy(convnet).train(), digits[0], wrong)
