"""Attacks: budgets are kept, linear classifiers are broken exactly as far as theory says, randomness is seeded."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import nn

from evolvent.analysis.robustness import APGD, FAB, FGSM, PGD, Auto, Square, make_attack
from evolvent.analysis.robustness.apgd import _checkpoints, likely_targets, logit_ratio
from evolvent.analysis.robustness.attack import margin
from evolvent.analysis.robustness.fab import to_hyperplane
from evolvent.analysis.robustness.square import square_share
from evolvent.errors import ConfigError, UnknownNameError

SMALL = [FGSM(), PGD(5, None, random_start=True), PGD(5, None, stop=True), APGD(steps=12), APGD("targeted", 8, 3),
         FAB(10, 3), Square(40), Auto(8, 3, 20)]  # fmt: skip
STRONG = [PGD(40, None), APGD(), APGD("targeted"), FAB(), Auto(queries=100)]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(images).argmax(1) == labels).double().mean().item()


@pytest.mark.parametrize("attack", SMALL, ids=repr)
def test_images_stay_within_the_budget_and_the_pixel_range(attack, convnet, digits, dtype):
    images, labels = digits[0][:20].to(dtype) / 255, digits[1][:20]
    model, eps = convnet.to(dtype), 0.1
    found = attack.perturb(model, images, labels, eps, generator())
    convnet.float()
    assert found.dtype == dtype
    assert not found.requires_grad
    assert (found - images).abs().max() <= eps + 1e-6
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("attack", SMALL, ids=repr)
def test_an_attack_lowers_accuracy_and_repeats_itself(attack, convnet, digits):
    images, labels = digits[0] / 255, digits[1]
    found = attack.perturb(convnet, images, labels, 0.15, generator())
    assert accuracy(convnet, found, labels) < accuracy(convnet, images, labels) - 0.1
    assert torch.equal(found, attack.perturb(convnet, images, labels, 0.15, generator()))


@pytest.mark.parametrize("attack", STRONG, ids=repr)
@pytest.mark.parametrize("eps", [0.01, 0.03])
def test_linear_classifiers_lose_exactly_what_theory_says(attack, eps, linear):
    model, images, labels = linear
    distances = model.distances(images, labels)
    found = attack.perturb(model, images, labels, eps, generator())
    fooled = model(found).argmax(1) != labels
    assert torch.equal(fooled[distances > eps * (1 + 1e-9)], torch.zeros_like(fooled[distances > eps * (1 + 1e-9)]))
    assert fooled[distances < 0.99 * eps].double().mean() > (0.99 if not isinstance(attack, PGD) else 0.9)
    assert 0 < fooled.double().mean() < 1


def test_fgsm_is_the_sign_of_the_gradient(linear):
    model, images, labels = linear
    x = images.clone().requires_grad_()
    nn.functional.cross_entropy(model(x), labels).backward()
    torch.testing.assert_close(FGSM().perturb(model, images, labels, 0.02, generator()), images + 0.02 * x.grad.sign())


def test_one_long_step_of_pgd_is_fgsm_and_more_steps_are_stronger(convnet, digits):
    images, labels = digits[0] / 255, digits[1]
    one = FGSM().perturb(convnet, images, labels, 0.1, generator())
    assert torch.equal(PGD(1, 0.5).perturb(convnet, images, labels, 0.1, generator()), one)
    more = PGD(20, None).perturb(convnet, images, labels, 0.1, generator())
    assert accuracy(convnet, more, labels) <= accuracy(convnet, one, labels)


def test_pgd_of_the_paper_makes_three_steps_of_one_level(convnet, digits):
    images, labels = digits[0] / 255, digits[1]
    found = PGD().perturb(convnet, images, labels, 0.5, generator())
    assert (found - images).abs().max().item() == pytest.approx(3 / 255, rel=1e-4)


def test_images_that_are_wrong_already_are_left_alone_by_pgd_that_stops(convnet, digits):
    images, labels = digits[0] / 255, (digits[1] + 1) % 10
    wrong = convnet(images).argmax(1) != labels
    found = PGD(stop=True).perturb(convnet, images, labels, 0.1, generator())
    assert torch.equal(found[wrong], images[wrong])


def test_auto_is_at_least_as_strong_as_each_of_its_attacks(convnet, digits):
    images, labels = digits[0][:40] / 255, digits[1][:40]
    auto = Auto(10, 3, 30)
    together = accuracy(convnet, auto.perturb(convnet, images, labels, 0.06, generator()), labels)
    for attack in auto.attacks:
        alone = accuracy(convnet, attack.perturb(convnet, images, labels, 0.06, generator()), labels)
        assert together <= alone + 1 / 40 + 1e-9, attack  # starts are drawn anew


def test_fab_finds_the_nearest_adversarial_image(linear):
    model, images, labels = linear
    found = FAB().perturb(model, images, labels, 0.2, generator())
    away = (found - images).flatten(1).abs().max(1).values
    torch.testing.assert_close(away, model.distances(images, labels), rtol=0.06, atol=0)


@given(st.integers(0, 10**6), st.integers(1, 7))
def test_projection_onto_a_hyperplane_in_a_box_is_the_linear_programme(seed, size):
    draw = np.random.default_rng(seed)
    u, w = draw.uniform(size=size), draw.normal(size=size)
    b = w @ u + draw.normal()
    step = to_hyperplane(torch.tensor(u)[None], torch.tensor(w)[None], torch.tensor([b]))[0].numpy()
    assert ((u + step) >= -1e-12).all()
    assert ((u + step) <= 1 + 1e-12).all()
    bounds = [(-u[i], 1 - u[i]) for i in range(size)] + [(0, None)]  # minimise the last variable, which bounds all
    both = np.vstack([np.eye(size), -np.eye(size)])
    best = linprog([0] * size + [1], A_ub=np.c_[both, -np.ones(2 * size)], b_ub=np.zeros(2 * size),
                   A_eq=[[*w, 0]], b_eq=[b - w @ u], bounds=bounds)  # fmt: skip
    if best.success:
        assert w @ (u + step) == pytest.approx(b, abs=1e-9)
        assert np.abs(step).max() == pytest.approx(best.fun, abs=1e-7)
    else:  # out of reach: the nearest corner
        assert np.allclose((u + step) * (1 - u - step), 0, atol=1e-12)


def test_a_network_without_gradient_moves_nobody_who_follows_it(convnet, digits):
    class Detached(nn.Module):
        def forward(self, x):
            return convnet(x).detach()

    images, labels = digits[0] / 255, digits[1]
    for attack in (FGSM(), PGD(3, None)):
        assert torch.equal(attack.perturb(Detached(), images, labels, 0.1, generator()), images)
    searched = Square(100).perturb(Detached(), images, labels, 0.1, generator())
    assert accuracy(convnet, searched, labels) < accuracy(convnet, images, labels)


def test_squares_are_of_one_colour_and_every_image_has_its_own():
    images = torch.full((6, 3, 9, 7), 0.5)
    changes = Square()._squares(images, 4, generator())
    assert set(changes.unique().tolist()) == {-1.0, 0.0, 1.0}
    assert (changes.abs().sum((2, 3)) == 16).all()
    assert len({change.numpy().tobytes() for change in changes}) > 1
    whole = Square()._squares(images, 20, generator())  # larger than the image
    assert (whole != 0).all()
    assert [square_share(k / 10) for k in (0, 3, 10)] == [0.8, 0.8 / 64, 0.8 / 512]


def test_the_logit_ratio_knows_neither_scale_nor_shift():
    scores, labels, targets = torch.randn(5, 7, dtype=torch.float64), torch.arange(5), torch.arange(5) + 1
    ratio = logit_ratio(labels, targets)
    torch.testing.assert_close(ratio(scores), ratio(1e4 * scores + 3), rtol=1e-9, atol=0)
    three = torch.tensor([[1.0, 3.0, 0.0]])
    assert logit_ratio(torch.tensor([1]), torch.tensor([0]))(three).tolist() == [-2.0]


def test_targets_are_wrong_classes_the_likeliest_first():
    scores = torch.tensor([[0.1, 0.5, 0.3, 0.2]])
    assert likely_targets(scores, torch.tensor([1])).tolist() == [[2, 3, 0]]
    assert margin(scores, torch.tensor([1])).item() == pytest.approx(0.2)


def test_checkpoints_come_closer_and_closer():
    """Croce and Hein 2020, section 3.1: 0.22, 0.41, 0.57, 0.70, 0.80, 0.87, 0.93, 0.99."""
    assert sorted(_checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]


def test_settings_and_names_are_checked():
    with pytest.raises(UnknownNameError, match=r"unknown attack 'fgms'\. Did you mean 'fgsm'"):
        make_attack("fgms")
    with pytest.raises(ConfigError, match="steps"):
        PGD(0)
    with pytest.raises(ConfigError, match="step_size"):
        PGD(3, -1.0)
    with pytest.raises(UnknownNameError, match="loss"):
        APGD("dlr")
    for wrong in (lambda: FAB(0), lambda: Square(0), lambda: Auto(targets=0)):
        with pytest.raises(ConfigError, match="whole number"):
            wrong()
