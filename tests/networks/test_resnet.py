"""The residual networks against plain PyTorch, written after He et al. without this package."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from evolvent import create_model


class BasicBlock(nn.Module):
    def __init__(self, before: int, after: int, pre: bool) -> None:
        super().__init__()
        self.pre, self.stride = pre, 1 if before == after else 2
        self.conv1 = nn.Conv2d(before, after, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(before if pre else after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)

    def shortcut(self, x):
        if self.stride == 1:
            return x
        missing = self.conv1.out_channels - self.conv1.in_channels
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, missing // 2, missing - missing // 2))

    def forward(self, x):
        if self.pre:
            return self.shortcut(x) + self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class CifarResNet(nn.Module):
    def __init__(self, widths: tuple[int, ...], blocks: int, pre: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, widths[0], 3, 1, 1, bias=False)
        self.pre = pre
        first = None if pre else nn.BatchNorm2d(widths[0])
        if first is not None:
            self.bn = first
        layers, before = [], widths[0]
        for width in widths:
            for _ in range(blocks):
                layers.append(BasicBlock(before, width, pre))
                before = width
        self.layers = nn.Sequential(*layers)
        if pre:
            self.bn = nn.BatchNorm2d(before)
        self.fc = nn.Linear(before, 10)

    def forward(self, x):
        x = self.conv(x)
        x = self.layers(x) if self.pre else self.layers(F.relu(self.bn(x)))
        x = F.relu(self.bn(x)) if self.pre else x
        return self.fc(x.mean((2, 3)))


@pytest.mark.parametrize(
    ("name", "widths", "blocks", "pre"),
    [("resnet44", (16, 32, 64), 7, False), ("preresnet20", (24, 48, 92), 3, True)],
)
def test_same_answers_as_plain_pytorch(name, widths, blocks, pre, dtype, tolerance):
    ours, theirs = create_model(name).to(dtype), CifarResNet(widths, blocks, pre).to(dtype)
    for p in ours.parameters():
        if p.ndim == 1:
            nn.init.uniform_(p, 0.5, 1.5)
    source, target = ours.state_dict(), theirs.state_dict()
    assert [tuple(t.shape) for t in source.values()] == [tuple(t.shape) for t in target.values()]
    theirs.load_state_dict(dict(zip(target, source.values(), strict=True)))
    x = torch.randn(3, 3, 32, 32, dtype=dtype)
    loose = {key: 10 * value for key, value in tolerance.items()}
    torch.testing.assert_close(ours(x), theirs(x), **loose)  # with batch statistics, and updating them
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), **loose)  # with running ones


def test_narrowing_units_work():
    assert create_model("resnet", channels=(8, 4), blocks=1)(torch.randn(2, 3, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize("family", ["resnet", "preresnet", "lm_resnet"])
def test_segmentation_keeps_every_pixel(family):
    model = create_model(family, channels=(4, 8), blocks=2, num_classes=5, readout="segmentation")
    assert model(torch.randn(2, 3, 7, 10)).shape == (2, 5, 7, 10)
