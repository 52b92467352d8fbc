"""Eigenvalues of learned linear maps: of convolutions on a grid, and of the 1x1 maps of nonlocal blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent._core.modes import evaluation_mode
from evolvent.networks.nonlocal_block import NonlocalBlock
from evolvent.operators import Convolution


@dataclass(frozen=True)
class WeightSpectrum:
    r"""Eigenvalues of a map :math:`K` and of its symmetric part :math:`(K + K^\top) / 2`.

    The quadratic form :math:`x^\top K x` is that of the symmetric part, so its eigenvalues say what amplifies and what
    damps (Bohn, Griebel, Kannan 2021, section 6.2, figures 7 and 8).
    """

    real_parts: Tensor  # (n,), of the eigenvalues, ascending; float64
    symmetric: Tensor  # (n,), eigenvalues of the symmetric part, ascending; float64

    @property
    def positive_share(self) -> float:
        """The share of eigenvalues with a positive real part; NaN if the map is not finite."""
        return _positive_share(self.real_parts)

    @property
    def positive_share_symmetric(self) -> float:
        """The share of positive eigenvalues of the symmetric part."""
        return _positive_share(self.symmetric)


@dataclass(frozen=True)
class MapSpectrum:
    """The spectrum of one of a network's maps in a few numbers."""

    name: str
    kind: str  # "nonlocal" or "convolution"
    grid: tuple[int, int]
    count: int
    real_parts: tuple[float, ...]  # minimum, quartiles, maximum
    positive_share: float
    symmetric: tuple[float, ...]
    positive_share_symmetric: float


def weight_spectrum(weight: Tensor, grid: tuple[int, int] = (1, 1)) -> WeightSpectrum:
    r"""Eigenvalues of a square matrix, or of a convolution on a periodic grid.

    The matrix of a periodic convolution is block-circulant. Its eigenvalues are those of its symbol at all frequencies,

    .. math:: \hat K(\xi) = \sum_d k(d)\, e^{2 \pi i\, \xi \cdot d}, \qquad
              \xi \in \{0, \tfrac1H, \dots\} \times \{0, \tfrac1W, \dots\},

    and those of its symmetric part are the eigenvalues of :math:`(\hat K + \hat K^*) / 2`. A 1x1 convolution
    is its matrix at every frequency, so one is enough.

    Args:
        weight: (C, C), or (C, C, k, k) with k odd.
        grid: height and width; not used by matrices and 1x1 convolutions.

    >>> found = weight_spectrum(torch.tensor([[1.0, 2.0], [-2.0, 1.0]]))
    >>> found.real_parts.tolist(), found.symmetric.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    symbol = _symbol(weight.detach().double().cpu(), grid)
    if not bool(symbol.isfinite().all()):
        void = torch.full((symbol.shape[0] * symbol.shape[1],), float("nan"), dtype=torch.float64)
        return WeightSpectrum(void, void)
    real_parts = torch.linalg.eigvals(symbol).real.flatten().sort().values
    symmetric = torch.linalg.eigvalsh((symbol + symbol.mH) / 2).flatten().sort().values
    return WeightSpectrum(real_parts, symmetric)


def nonlocal_spectra(model: nn.Module) -> dict[tuple[int, int], WeightSpectrum]:
    r"""Spectra of the maps :math:`\mathcal K_k` of all nonlocal blocks, by number of the block and of the stage.

    >>> import evolvent as ev
    >>> model = ev.create_model("nonlocal_hamiltonian", channels=(4, 8), blocks=2, image_size=8)
    >>> {place: len(found.symmetric) for place, found in nonlocal_spectra(model).items()}
    {(1, 1): 4, (1, 2): 4, (2, 1): 8, (2, 2): 8}
    """
    return {place: weight_spectrum(weight) for place, weight in nonlocal_maps(model).items()}


def nonlocal_maps(model: nn.Module) -> dict[tuple[int, int], Tensor]:
    r"""The weights of :math:`\mathcal K_k`, (C, C, 1, 1), by number of the block and of the stage."""
    blocks = [module for module in model.modules() if isinstance(module, NonlocalBlock)]
    return {(b, k): weight for b, block in enumerate(blocks, 1) for k, weight in enumerate(_outer_weights(block), 1)}


def map_spectra(model: nn.Module, images: Tensor) -> list[MapSpectrum]:
    r"""Spectra of all maps of a network: convolutions of evolutions on their grid, and those of nonlocal blocks.

    Args:
        model: a network, left as it was. Convolutions between different numbers of channels have no eigenvalues and
            are left out.
        images: what it takes; only the shape counts.

    >>> import evolvent as ev
    >>> model = ev.create_model("nonlocal_hamiltonian", channels=(4,), blocks=1, image_size=8)
    >>> [(found.name, found.grid, found.count) for found in map_spectra(model, torch.zeros(1, 3, 8, 8))][1:]
    [('body.0.dynamics.0.layer2.operator', (8, 8), 128), ('block 1, K1', (1, 1), 4), ('block 1, K2', (1, 1), 4)]
    """
    grids = _grids(model, images)
    operators = {name: module for name, module in model.named_modules() if name in grids}
    found = [
        _summary(name, "convolution", grids[name], weight_spectrum(operator.weight, grids[name]))
        for name, operator in operators.items()
        if isinstance(operator, Convolution) and operator.weight.shape[0] == operator.weight.shape[1]
    ]
    within = nonlocal_spectra(model).items()
    return found + [_summary(f"block {b}, K{k}", "nonlocal", (1, 1), spectrum) for (b, k), spectrum in within]


def _symbol(weight: Tensor, grid: tuple[int, int]) -> Tensor:
    """(frequencies, C, C)."""
    if weight.ndim == 2:
        weight = weight[:, :, None, None]
    if weight.ndim != 4 or weight.shape[0] != weight.shape[1] or weight.shape[2] % 2 == 0:
        raise ShapeError(
            f"eigenvalues are those of a square matrix, (C, C), or of a convolution of odd width, (C, C, k, k); got "
            f"{tuple(weight.shape)}."
        )
    if weight.shape[2:] == (1, 1):
        return weight[None, :, :, 0, 0]
    phases = []
    for size, width in zip(grid, weight.shape[2:], strict=True):
        frequencies = torch.arange(size, dtype=weight.dtype) / size
        offsets = torch.arange(width, dtype=weight.dtype) - width // 2
        phases.append(torch.exp(2j * torch.pi * frequencies[:, None] * offsets))  # (size, k)
    symbol = torch.einsum("oiyx,hy,wx->hwoi", weight.to(phases[0].dtype), *phases)
    return symbol.flatten(0, 1)


def _outer_weights(block: NonlocalBlock) -> list[Tensor]:
    return [next(layer.weight for layer in stage.modules() if isinstance(layer, nn.Conv2d)) for stage in block.outer]


def _grids(model: nn.Module, images: Tensor) -> dict[str, tuple[int, int]]:
    """Height and width of what each convolution of an evolution is given."""
    grids: dict[str, tuple[int, int]] = {}

    def watch(name: str, operator: Convolution):
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            grids[name] = (inputs[0].shape[-2], inputs[0].shape[-1])

        return operator.register_forward_pre_hook(hook)

    handles = [watch(name, module) for name, module in model.named_modules() if isinstance(module, Convolution)]
    try:
        with evaluation_mode(model), torch.no_grad():
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return grids


def _summary(name: str, kind: str, grid: tuple[int, int], found: WeightSpectrum) -> MapSpectrum:
    levels = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0], dtype=torch.float64)
    return MapSpectrum(
        name=name,
        kind=kind,
        grid=grid,
        count=found.symmetric.numel(),
        real_parts=tuple(found.real_parts.quantile(levels).tolist()),
        positive_share=found.positive_share,
        symmetric=tuple(found.symmetric.quantile(levels).tolist()),
        positive_share_symmetric=found.positive_share_symmetric,
    )


def _positive_share(values: Tensor) -> float:
    return (values > 0).double().mean().item() if bool(values.isfinite().all()) else float("nan")
