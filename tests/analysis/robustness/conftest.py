"""A small network that knows real digits, and a linear one whose robust accuracy is known."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evolvent import data


@pytest.fixture(scope="session")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Sixty test digits of 8x8 pixels, as bytes, and their classes."""
    test = data.load("digits").test
    return test.images[:60], test.labels[:60]


@pytest.fixture(scope="session")
def convnet() -> nn.Module:
    """An ordinary convolutional network of images in [0, 1]; right on 19 of 20 test digits."""
    torch.manual_seed(0)
    train = data.load("digits").train
    images, labels = train.images.float() / 255, train.labels
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(16 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), 5e-3)
    for _ in range(4):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net.eval()


class Linear(nn.Module):
    r"""Scores :math:`W x`; class :math:`t` wins where the margin is below :math:`\varepsilon |w_y - w_t|_1`."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1) @ self.weight.T

    def distances(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Of each image to the nearest that is misclassified, in the maximum norm and without bounds of pixels."""
        with torch.no_grad():
            scores = self(images)
            gaps = scores.gather(1, labels[:, None]) - scores
            reach = (self.weight[labels][:, None] - self.weight).abs().sum(2)
            ratio = (gaps / reach).scatter(1, labels[:, None], float("inf"))
        return ratio.min(1).values


@pytest.fixture
def linear() -> tuple[Linear, torch.Tensor, torch.Tensor]:
    """A linear classifier of four classes in float64, 40 grey images far from black and white, and its own answers."""
    generator = torch.Generator().manual_seed(3)
    model = Linear(torch.randn(4, 18, generator=generator, dtype=torch.float64))
    images = 0.5 + 0.1 * torch.randn(40, 2, 3, 3, generator=generator, dtype=torch.float64).clamp(-2, 2)
    return model.eval(), images, model(images).argmax(1)
