"""The five methods, and the transformations of features before them."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent import create_model
from evolvent.data import EpisodeBatch, Episodes
from evolvent.errors import ConfigError, DataError, ShapeError
from evolvent.networks import FewShotNetwork
from evolvent.tasks.fewshot import (
    Classifier,
    Descent,
    EpisodeObjective,
    centre_and_normalise,
    propagate_labels,
    prototypes,
    rectified_prototypes,
    shift_query,
    train_episodes,
)
from evolvent.tasks.fewshot.methods import neighbour_matrix


def episodes(noise=0.5, tasks=6, shot=2, **options) -> EpisodeBatch:
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(8).repeat_interleave(25)
    points = 2 * torch.randn(8, 16, generator=draw)[labels] + noise * torch.randn(200, 16, generator=draw)
    source = Episodes(points.double(), labels, tasks, way=4, shot=shot, query=8, **options)
    return source.take(torch.arange(tasks), 0, 0)


def network(name) -> FewShotNetwork:
    made = create_model(name, in_features=16, num_classes=4, n_top=5, sigma_neighbour=3)
    assert isinstance(made, FewShotNetwork)
    return made.double()


def accuracy(classifier, batch, name="resnet_fewshot") -> float:
    said = classifier.classify(batch, network(name), Descent([0.1] * 30))
    return (said == batch.labels[:, batch.support :]).double().mean().item()


METHODS = [
    ("prototype", "resnet_fewshot"),
    ("diffusion", "resnet_fewshot"),
    ("convection", "resnet_fewshot"),
    ("external", "resnet_fewshot"),
    ("internal", "diff_resnet_fewshot"),
]


@pytest.mark.parametrize("method", ["prototype", "diffusion"])
@pytest.mark.parametrize("offset", [100, 5000])
def test_features_far_from_the_origin_are_classified_as_near_ones(method, offset):
    batch = episodes(noise=3.0, tasks=20)
    points = (batch.points + offset).float()
    far, near = (batch._replace(points=moved) for moved in (points, points.double() - offset))
    expected = Classifier(method).classify(near, network("resnet_fewshot"), Descent([0.1]))
    assert torch.equal(Classifier(method).classify(far, network("resnet_fewshot"), Descent([0.1])), expected)


@pytest.mark.parametrize(("method", "name"), METHODS)
@pytest.mark.parametrize("reading", ["paper", "code"])
def test_every_method_separates_what_is_apart(method, name, reading):
    assert accuracy(Classifier(method, reading=reading), episodes(), name) == 1.0


def test_diffusion_helps_where_classes_are_curves():
    """Two half circles: the nearest prototype of one point fails, diffusion follows the curve."""
    angle = torch.linspace(0, torch.pi, 40, dtype=torch.float64)
    upper = torch.stack((angle.cos(), angle.sin()), 1)
    lower = torch.stack((1 - angle.cos(), 0.5 - angle.sin()), 1)
    x = torch.cat((upper[:1], lower[-1:], upper[1:], lower[:-1]))[None]
    labels = torch.tensor([[0, 1] + [0] * 39 + [1] * 39])
    batch = EpisodeBatch(x, labels, 2, 1)
    found = {}
    for method, steps in (("convection", 0), ("internal", 4000)):
        net = create_model(
            "diff_resnet_fewshot", in_features=2, num_classes=2, n_top=4, sigma_neighbour=2, diffusion_steps=steps
        ).double()
        assert isinstance(net, FewShotNetwork)
        said = Classifier(method).classify(batch, net, Descent([0.5] * 100))
        found[method] = (said == labels[:, 2:]).double().mean().item()
    assert found["internal"] == 1.0 > found["convection"] + 0.1


def test_external_term_is_halved_in_the_paper():
    batch, net = episodes(), network("resnet_fewshot")
    weights = [
        Classifier("external", mu=0.2, reading=r).objective(batch, net).laplacian_weight for r in ("paper", "code")
    ]
    assert weights == [0.1, 0.2]


def test_prototypical_loss_sees_the_query():
    batch, net = episodes(noise=4.0), network("resnet_fewshot")
    objective = Classifier("internal", prototype_weight=0.5).objective(batch, net)
    assert not objective.sees_support_alone
    assert objective.distances is not None
    expected = torch.cdist(batch.points[:, 8:], prototypes(batch.points, 4, 2))
    torch.testing.assert_close(objective.distances, expected)
    assert Classifier("internal").objective(batch, net).sees_support_alone


# -- label propagation


def test_labels_without_neighbours_are_those_of_the_nearest_prototype():
    away = torch.rand(3, 7, 4)
    assert torch.equal(propagate_labels(away, torch.zeros(3, 7, 7), 0.5).argmax(-1), away.argmin(-1))


@given(st.integers(0, 999), st.floats(0.05, 2.0))
def test_each_step_lowers_the_energy(seed, lam):
    """For positive semidefinite weights, whose part of the energy lies below its tangents."""
    draw = torch.Generator().manual_seed(seed)
    factor = torch.rand(1, 9, 9, generator=draw, dtype=torch.float64)
    w, away = factor @ factor.mT / 9, 3 * torch.rand(1, 9, 3, generator=draw, dtype=torch.float64)

    def energy(y):
        return (y * (y.log() + away)).sum() - lam / 2 * (y * (w @ y)).sum()

    values = [energy(propagate_labels(away, w, lam, steps)) for steps in range(8)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))


def test_neighbours_exclude_the_point_itself():
    x = torch.tensor([[[0.0], [0.0], [1.0], [5.0]]])
    w = neighbour_matrix(x, 1)
    assert w.diagonal(dim1=1, dim2=2).sum() == 0
    assert w.sum(-1).tolist() == [[1.0] * 4]
    assert w[0, 3, 2] == 1


# -- transformations


def test_centred_features_have_norm_one():
    x = centre_and_normalise(torch.randn(3, 5, 4) + 3, torch.full((4,), 3.0))
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(3, 5))


def test_shifted_query_has_the_mean_of_the_support():
    x = torch.randn(3, 9, 4)
    moved = shift_query(x, 3)
    torch.testing.assert_close(moved[:, 3:].mean(1), x[:, :3].mean(1))
    assert torch.equal(moved[:, :3], x[:, :3])


@pytest.mark.parametrize("reading", ["paper", "code"])
def test_rectified_prototypes_come_nearer_to_the_class_means(reading):
    batch = episodes(noise=1.5, shot=1, tasks=40)
    x = centre_and_normalise(batch.points, batch.points.mean((0, 1)))
    true = torch.stack([x[batch.labels == c].view(40, 9, 16).mean(1) for c in range(4)], 1)
    angle = torch.nn.functional.cosine_similarity
    plain = angle(prototypes(x, 4, 1), true, dim=-1).mean()
    assert angle(rectified_prototypes(x, 4, 1, reading), true, dim=-1).mean() > plain


def test_rectified_prototypes_by_hand():
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1e-3]]], dtype=torch.float64)
    cosines = torch.nn.functional.normalize(x[0], dim=-1)[[0, 2]] @ x[0, :2].T  # of the two points of class 0
    weights = cosines[:, 0].exp() / cosines[:, 0].exp().sum()
    torch.testing.assert_close(rectified_prototypes(x, 2, 1, "paper")[0, 0], weights @ x[0, [0, 2]])
    weights = (10 * cosines).softmax(1)[:, 0] / 2
    torch.testing.assert_close(rectified_prototypes(x, 2, 1, "code")[0, 0], weights @ x[0, [0, 2]])


@pytest.mark.parametrize("options", [{"method": "external-internal"}, {"method": "diffusion", "reading": "papr"}])
def test_unknown_methods_and_readings_are_refused(options):
    with pytest.raises(KeyError, match="unknown"):
        Classifier(**options)


def test_a_method_takes_its_own_network_alone():
    batch = episodes()
    network = create_model("diff_resnet_fewshot", in_features=16, num_classes=4).double()
    with pytest.raises(ConfigError, match="without diffusion"):
        Classifier("convection").classify(batch, network, Descent([0.1]))


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int64), ShapeError, "each of 2 episodes"),
        (torch.full((6, 3), 4), DataError, "classes 0 to 3, got 4"),
        (torch.zeros(6, 3), ShapeError, "whole"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, error, message):
    network = create_model("resnet_fewshot", in_features=16, num_classes=4).double()
    with pytest.raises(error, match=message):
        train_episodes(network, episodes().points, EpisodeObjective(labels), Descent([0.1]))
