"""Features of a layer, their map and silhouettes: against what is known, and what is refused."""

import pytest
import torch
from sklearn.metrics import silhouette_score
from torch import nn

from evolvent import create_model
from evolvent.analysis import feature_clusters, features_at, find_layer
from evolvent.errors import ConfigError, ShapeError, UnknownNameError


def clusters(spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.arange(3).repeat_interleave(15)
    return 5 * torch.eye(6)[labels] + spread * torch.randn(45, 6), labels


def test_classes_that_are_apart_score_high_and_mixed_ones_low():
    apart, mixed = feature_clusters(*clusters(0.1)), feature_clusters(*clusters(20.0))
    assert apart.silhouette_features > 0.9
    assert apart.silhouette_map > 0.7
    assert mixed.silhouette_features < 0.1
    assert mixed.silhouette_map < 0.2


def test_scores_are_scikit_learns_and_the_seed_decides_the_map():
    features, labels = clusters(2.0)
    found = feature_clusters(features, labels, classes=["a", "b", "c"])
    assert found.silhouette_features == pytest.approx(silhouette_score(features.numpy(), labels.numpy()), abs=1e-5)
    assert found.silhouette_map == pytest.approx(silhouette_score(found.points.numpy(), labels.numpy()), abs=1e-5)
    assert torch.equal(found.points, feature_clusters(features, labels).points)
    assert (found.dimension, found.labels, found.classes) == (6, labels.tolist(), ["a", "b", "c"])
    assert found.perplexity == pytest.approx(44 / 3)


def test_features_are_what_the_last_affine_layer_reads():
    model = create_model("resnet", channels=(4, 8), blocks=1, in_channels=1)
    images = torch.rand(7, 1, 8, 8)
    found = features_at(model, images, batch_size=3)
    assert model.training
    model.eval()
    torch.testing.assert_close(model.head.linear(found), model(images), rtol=1e-4, atol=1e-5)
    inner = features_at(model, images, find_layer(model, "body.0"))
    torch.testing.assert_close(inner, model.body[0](model.stem(images)).flatten(1), rtol=1e-4, atol=1e-5)
    assert not inner.requires_grad


def test_what_has_no_clusters_is_refused():
    with pytest.raises(ShapeError, match=r"features \(N, d\)"):
        feature_clusters(torch.rand(4, 2, 2), torch.arange(4))
    for labels in (torch.zeros(9, dtype=torch.int64), torch.arange(9)):
        with pytest.raises(ConfigError, match="clusters need at least 5 points of two or more classes"):
            feature_clusters(torch.rand(9, 3), labels)


def test_layers_are_found_by_name():
    model = nn.ModuleDict({"stem": nn.Flatten(), "head": nn.ReLU()})
    with pytest.raises(UnknownNameError, match="unknown layer 'haed'. Did you mean 'head'"):  # noqa: RUF043
        find_layer(model, "haed")
    with pytest.raises(UnknownNameError, match="There are stem, head and what is inside"):
        find_layer(model, "")
    with pytest.raises(ConfigError, match="no affine layer"):
        features_at(model, torch.rand(2, 3))
    used = nn.Sequential(nn.Flatten())
    with pytest.raises(ConfigError, match="ReLU is not used"):
        features_at(used, torch.rand(2, 3), nn.ReLU())
