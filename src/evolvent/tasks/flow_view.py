"""How the paths of points through a network are seen in the plane."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent.networks import PointNetwork
from evolvent.tasks.task import evaluating


class FeatureRecord(nn.Module):
    """The features of some points before a training and after each of its first epochs.

    What is recorded lies in buffers, so that checkpoints keep it; the points do not.

    Args:
        model: the network as it is initialised.
        x: all points, since networks may couple them.
        rows: which of them are recorded.
        epochs: how many epochs are recorded.
    """

    frames: Tensor
    count: Tensor

    def __init__(self, model: PointNetwork, x: Tensor, rows: Tensor, epochs: int) -> None:
        super().__init__()
        self.x, self.rows = x, rows
        first = self._features(model)
        self.register_buffer("frames", torch.cat([first[None], first.new_zeros(epochs, *first.shape)]))
        self.register_buffer("count", torch.ones((), dtype=torch.int64))

    def add(self, model: PointNetwork) -> None:
        """Record the present features, unless all epochs are recorded."""
        if self.count < len(self.frames):
            self.frames[int(self.count)] = self._features(model)
            self.count += 1

    def _features(self, model: PointNetwork) -> Tensor:
        with evaluating(model):
            features = model.forward_features(self.x.to(next(model.parameters())))
        return features[self.rows.to(features.device)]

    def path(self) -> Tensor:
        """What is recorded, (times, rows, width)."""
        return self.frames[: int(self.count)].float().cpu()


def feature_path(model: PointNetwork, x: Tensor) -> Tensor:
    """Features (T, N, width) of all points through time; a learnt lift is preceded by the points themselves."""
    with evaluating(model):
        path = torch.stack(model.trajectories(x.to(next(model.parameters())))[0]).float().cpu()
    path = F.pad(path, (0, max(0, 2 - path.shape[2])))
    if path.shape[2] < x.shape[1]:
        return path
    start = F.pad(x, (0, path.shape[2] - x.shape[1]))[None]
    return path if torch.allclose(path[:1], start) else torch.cat((start, path))


def decision_regions(
    model: PointNetwork, reach: float, pixels: int
) -> tuple[np.ndarray | None, tuple[float, float, float, float]]:
    """The class that a network gives to each point of a square, and where that lies.

    None for the classes if an answer depends on the points beside it, or points do not lie in a plane.
    """
    extent = (-reach, reach, -reach, reach)
    if model.couples_batch or model.in_features != 2:
        return None, extent
    line = torch.linspace(-reach, reach, pixels)
    plane = torch.cartesian_prod(line, line).flip(1)  # rows go up, columns to the right
    with evaluating(model):
        regions = model(plane.to(next(model.parameters()))).argmax(dim=1).view(pixels, pixels)
    return regions.cpu().numpy(), extent


def evenly_chosen(count: int, most: int) -> Tensor:
    """At most so many of ``0 ... count - 1``, evenly."""
    return torch.linspace(0, count - 1, min(most, count)).long()


def turning_view(path: Tensor) -> Tensor:
    """A plane that turns, from that of the first two features to the one in which the points differ most at the end.

    Shape: (T, N, width) to (T, N, 2).
    """
    first = torch.eye(path.shape[2])[:, :2]
    last = torch.linalg.svd(path[-1] - path[-1].mean(dim=0), full_matrices=False).Vh[:2].T
    last = last @ _nearest_rotation(last.T @ first)
    planes = [_nearest_rotation((1 - s) * first + s * last) for s in torch.linspace(0, 1, len(path))]
    return torch.stack([u @ plane for u, plane in zip(path, planes, strict=True)])


def _nearest_rotation(matrix: Tensor) -> Tensor:
    """The matrix with orthonormal columns that is nearest to a given one."""
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vh
