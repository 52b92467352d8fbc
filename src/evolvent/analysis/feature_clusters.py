"""Do the features of a class lie together? A map of them in the plane, and how well classes are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from evolvent._core.errors import ConfigError, ShapeError

_FEWEST = 5


@dataclass(frozen=True)
class FeatureClusters:
    r"""A map of features, and silhouette scores.

    The silhouette of a point is :math:`(b - a) / \max(a, b)`, with :math:`a` the mean distance to its own class and
    :math:`b` that to the nearest other one (Rousseeuw 1987); a score is the mean over points, 1 at best.

    Attributes:
        points: t-SNE of the features, (N, 2).
        labels: the class of each point.
        silhouette_map: the score on the map, as in Table 7 of the PR-Net paper.
        silhouette_features: the score on the features themselves, which t-SNE does not distort.
        dimension: of the features.
        perplexity: of t-SNE.
        classes: names of the classes, or their numbers.
        layer: whose output the features are; empty for what the last layer reads.
    """

    points: Tensor
    labels: list[int]
    silhouette_map: float
    silhouette_features: float
    dimension: int
    perplexity: float
    classes: list[str] = field(default_factory=list)
    layer: str = ""


def feature_clusters(
    features: Tensor, labels: Tensor, *, perplexity: float = 30.0, classes: Sequence[str] = (), seed: int = 0
) -> FeatureClusters:
    """Map features to the plane by t-SNE (van der Maaten and Hinton 2008), and score how classes cluster.

    Args:
        features: (N, d); :func:`features_at` takes them from a network.
        labels: (N,), classes by number.
        perplexity: about how many neighbours a point has; at most (N - 1) / 3 is used.
        classes: names of the classes.
        seed: of t-SNE. The map begins with the principal components.

    >>> import torch
    >>> corners = torch.eye(3).repeat_interleave(10, 0) + 0.01 * torch.randn(30, 3)
    >>> found = feature_clusters(corners, torch.arange(3).repeat_interleave(10))
    >>> found.points.shape, found.silhouette_features > 0.9
    (torch.Size([30, 2]), True)
    """
    import torch
    from sklearn.manifold import TSNE
    from sklearn.metrics import silhouette_score

    if features.ndim != 2 or labels.shape != (len(features),):
        raise ShapeError(
            f"features (N, d) and one class for each, (N,), are expected, got {tuple(features.shape)} and "
            f"{tuple(labels.shape)}."
        )
    count, distinct = len(features), len(labels.unique())
    if count < _FEWEST or not 1 < distinct < count:
        raise ConfigError(
            f"clusters need at least {_FEWEST} points of two or more classes, some of which have several, got {count} "
            f"points of {distinct}."
        )
    used = min(perplexity, (count - 1) / 3)
    values, own = features.detach().double().cpu().numpy(), labels.cpu().numpy()
    points = TSNE(2, perplexity=used, init="pca", learning_rate="auto", random_state=seed).fit_transform(values)
    return FeatureClusters(
        torch.from_numpy(points),
        own.tolist(),
        float(silhouette_score(points, own)),
        float(silhouette_score(values, own)),
        features.shape[1],
        used,
        list(classes) or [str(k) for k in range(int(own.max()) + 1)],
    )
