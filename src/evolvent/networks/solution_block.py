"""Blocks that are the solution of an equation: features asked for at coordinates, not computed step by step."""

from __future__ import annotations

import warnings
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_whole, explaining_misfits
from evolvent._core.errors import ShapeError
from evolvent._core.modes import evaluation_mode

COORDINATES: tuple[str, str, str] = ("x", "y", "t")
"""Names of the coordinates :math:`d_1` (down), :math:`d_2` (across) and :math:`t`, in this order."""


class ExtrapolationWarning(UserWarning):
    """A block was asked for features at coordinates that it was not trained for."""


class CoordinateConvolution(nn.Conv2d):
    r"""A convolution of features with their coordinates as further channels, :math:`K [h, d_1, d_2, t] + b`.

    It is computed as :math:`K_h h + b + K_c [d_1, d_2, t]`. Coordinates are the same for all images, so they cost
    nothing, and neither do their derivatives.

    Args:
        channels: of the features.
        coordinates: how many coordinates there are.
        out_channels, kernel_size, bias, padding_mode: as of ``torch.nn.Conv2d``; the size of the image is kept.

    Shape: (B, channels, H, W) and, for each coordinate, (1, 1, H, W) to (B, out_channels, H, W).
    """

    def __init__(
        self, channels: int, coordinates: int, out_channels: int, kernel_size: int, bias: bool = True,
        padding_mode: Literal["zeros", "circular"] = "zeros",
    ) -> None:  # fmt: skip
        super().__init__(
            channels + coordinates, out_channels, kernel_size, padding=kernel_size // 2, bias=bias,
            padding_mode=padding_mode,
        )  # fmt: skip

    def forward(self, h: Tensor, *coordinates: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        count = h.shape[1]
        features = self._conv_forward(h, self.weight[:, :count], self.bias)
        if not coordinates:
            return features
        return features + self._conv_forward(torch.cat(coordinates, dim=1), self.weight[:, count:], None)


class SolutionBlock(nn.Module):
    r"""Features as a function of place and time, :math:`h(d, t) = f(h(0), d, t; \theta)`, asked for at learned points.

    A network :math:`f` that sees the first features and the coordinates gives the features at any coordinates at once;
    no equation is solved. The points :math:`H`, one :math:`(d_1, d_2, t)` for each pixel and shared by all channels,
    are learned. They begin as a regular lattice over the unit square with :math:`t = 1`. Kim et al. 2022, Section 3
    and Appendix J.

    Args:
        field: :math:`f`, a module of the features (B, C, H, W) and of three coordinates (1, 1, H, W).
        size: height and width of the lattice of points.

    Attributes:
        points: the points :math:`H`, (3, height, width).

    Shape: (B, C, H, W) to what ``field`` makes of them. Where H and W differ from those of the lattice, the points are
    interpolated.
    """

    def __init__(self, field: nn.Module, size: tuple[int, int]) -> None:
        super().__init__()
        self.field = field
        down, across, t = lattice(size, torch.get_default_dtype())
        self.points = nn.Parameter(torch.cat([down, across, t + 1.0], dim=1)[0])

    def forward(self, h0: Tensor) -> Tensor:
        return self.field(h0, *self.coordinates(h0.shape[-2:]))

    def coordinates(self, size: tuple[int, int] | torch.Size | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The learned points as three images (1, 1, height, width), interpolated if another size is given."""
        # views of a parameter want gradients even where none are recorded
        points = (self.points if torch.is_grad_enabled() else self.points.detach())[None]
        if size is not None and tuple(size) != tuple(points.shape[-2:]):
            points = F.interpolate(points, tuple(size), mode="bilinear", align_corners=True)
        x, y, t = points.split(1, dim=1)
        return x, y, t

    def initial(self, h0: Tensor) -> Tensor:
        """:math:`f(h(0), d, 0)` on the regular lattice, which should be :math:`h(0)`."""
        x, y, t = (c.to(h0.device) for c in lattice(h0.shape[-2:], h0.dtype))
        return self.field(h0, x, y, t)

    def query(self, h0: Tensor, d: Tensor, t: Tensor | float) -> Tensor:
        """Features at coordinates of your own, in any resolution.

        Coordinates are continuous, so there may be more or fewer of them than pixels of ``h0``, which is interpolated
        then. Coordinates outside of those that the block was trained for give an :class:`ExtrapolationWarning`.

        Args:
            h0: the features at time 0, (B, C, H, W).
            d: places, down and across, (2, height, width); the image is the unit square.
            t: time, one for all places or (height, width).

        Shape: (B, C, H, W) to (B, C', height, width).

        >>> import torch
        >>> import evolvent as ev
        >>> block = ev.create_model("prnet_mnist").body[0]
        >>> fine = torch.stack(torch.meshgrid(torch.linspace(0, 1, 12), torch.linspace(0, 1, 9), indexing="ij"))
        >>> block.query(torch.randn(1, 64, 6, 6), fine, t=0.5).shape
        torch.Size([1, 64, 12, 9])
        """
        if d.ndim != 3 or len(d) != 2:
            raise ShapeError(f"places must have the shape (2, height, width), got {tuple(d.shape)}.")
        d, size = d.to(h0), d.shape[1:]
        times = torch.as_tensor(t).to(h0).expand(size)
        self._warn_outside(d, times)
        if h0.shape[-2:] != size:
            h0 = F.interpolate(h0, tuple(size), mode="bilinear", align_corners=True)
        with explaining_misfits("a block of this network", h0):
            return self.field(h0, d[None, :1], d[None, 1:], times[None, None])

    def resample(self, h0: Tensor, size: tuple[int, int]) -> Tensor:
        """The features at the learned points, in another resolution: (B, C, H, W) to (B, C', \\*size)."""
        check_whole(1, height=size[0], width=size[1])
        x, y, t = self.coordinates(size)
        return self.query(h0, torch.cat([x[0], y[0]]), t[0, 0])

    @torch.no_grad()
    def _warn_outside(self, d: Tensor, t: Tensor) -> None:
        outside = []
        for name, asked, known in zip(COORDINATES, (*d, t), self.points, strict=True):
            low, high = min(0.0, known.min().item()), max(1.0, known.max().item())
            first, last, slack = asked.min().item(), asked.max().item(), 1e-6 * (high - low)
            if not (first >= low - slack and last <= high + slack):  # NaN counts as outside
                outside.append(f"{name} from {first:.3g} to {last:.3g} (trained for {low:.3g} to {high:.3g})")
        if outside:
            warnings.warn(
                f"Outside of the range that the block was trained for: {', '.join(outside)}. What it gives there was "
                "never learned.",
                ExtrapolationWarning,
                stacklevel=3,
            )


def lattice(size: tuple[int, int] | torch.Size, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Regular places over the unit square, down and across, and time 0: three images (1, 1, height, width)."""
    down, across = (torch.linspace(0, 1, count, dtype=dtype) for count in size)
    x, y = torch.meshgrid(down, across, indexing="ij")
    return x[None, None], y[None, None], torch.zeros_like(x)[None, None]


def solution_blocks(model: nn.Module) -> list[SolutionBlock]:
    """All blocks of a network that are solutions of equations, in order."""
    return [module for module in model.modules() if isinstance(module, SolutionBlock)]


@torch.no_grad()
def feature_size(stem: nn.Module, in_channels: int, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of what a stem makes of images of a size."""
    with evaluation_mode(stem):
        height, width = stem(torch.zeros(1, in_channels, *size)).shape[-2:]
    return height, width
