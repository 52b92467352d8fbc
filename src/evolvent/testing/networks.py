"""Whether a network keeps the contract of all networks."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import ShapeError
from evolvent.evolution import evolutions
from evolvent.networks import PAPERS, ImageNetwork, create_model, model_entry
from evolvent.testing._claims import claim, finite_gradient
from evolvent.testing.compilation import check_exports
from evolvent.testing.persistence import check_buffers_are_true, check_copies, check_saved, check_state_dict


def check_network(
    network: str | nn.Module,
    x: Tensor,
    *,
    extra: Sequence[Any] = (),
    refused: Sequence[Tensor] | None = None,
    **options: Any,
) -> None:
    """Run a network through everything that networks promise.

    Forward and backward with a finite gradient for every parameter; ``forward_features``; float64; a state_dict of
    parameters and true buffers, the same in training and evaluation; bitwise the same answers after saving and loading,
    pickling and copying; ``torch.export``, where no step size depends on values; and a
    :class:`~evolvent.errors.ShapeError` for inputs that do not fit. An answer must not depend on the others of its
    batch, unless the network says ``couples_batch = True``; such networks make graphs of values and are not exported
    either.

    Args:
        network: a registered name, or a module. Modules are copied.
        x: a batch of at least two inputs.
        extra: what the network takes besides, such as the graph whose nodes the inputs are. Then answers may depend on
            other inputs and their order, and ``torch.export`` is not tried.
        refused: inputs that must be refused; by default ``x`` with one channel or feature more and, for networks made
            for one image size, with one row of pixels more.
        options: of the registered network.

    >>> check_network("resnet", torch.randn(2, 1, 8, 8), in_channels=1, channels=(2, 4), blocks=1)
    """
    model = create_model(network, **options) if isinstance(network, str) else copy.deepcopy(network)
    adaptive = any(evolution.integrator.adaptive for _, evolution in evolutions(model))
    coupled = getattr(model, "couples_batch", False)
    check_state_dict(model, x, *extra)
    _check_forward(model, x, extra)
    if coupled:
        _check_order(model, x)
    elif not extra:
        _check_alone(model, x, tolerance=0.1 if adaptive else 1e-4)
    _check_backward(model, x, extra)
    _check_float64(model, x, extra)
    check_copies(model, x, *extra)
    check_saved(model, x, *extra)
    if not (adaptive or coupled or extra):
        check_exports(model, x)
    for wrong in _misfits(model, x) if refused is None else refused:
        _check_refused(model, wrong, extra)
    if isinstance(network, str):
        for key in model_entry(network).papers:
            PAPERS.get(key)  # else there is nothing to cite
        check_buffers_are_true(model, create_model(network, **options), x, *extra)


def _check_forward(model: nn.Module, x: Tensor, extra: Sequence[Any]) -> None:
    model.eval()
    claim(hasattr(model, "forward_features"), "the network has no forward_features, which networks promise.")
    with torch.no_grad():
        y, features = model(x, *extra), model.forward_features(x, *extra)  # pyright: ignore[reportCallIssue]
    claim(len(y) == len(features) == len(x), f"{len(x)} inputs give {len(y)} answers and {len(features)} features.")
    claim(y.dtype == x.dtype, f"{x.dtype} inputs give {y.dtype} answers.")
    claim(y.isfinite().all(), "the answers are not finite.")


@torch.no_grad()
def _check_alone(model: nn.Module, x: Tensor, tolerance: float) -> None:
    alone = torch.allclose(model(x)[:1], model(x[:1]), atol=tolerance, rtol=tolerance)
    claim(alone, "in evaluation, an answer depends on the other inputs of the batch.")


@torch.no_grad()
def _check_order(model: nn.Module, x: Tensor) -> None:
    turned = torch.allclose(model(x.flip(0)), model(x).flip(0), atol=1e-4, rtol=1e-4)
    claim(turned, "in evaluation, answers depend on the order of the batch.")


def _check_backward(model: nn.Module, x: Tensor, extra: Sequence[Any]) -> None:
    model.train().zero_grad()
    model(x, *extra).square().mean().backward()
    for name, p in model.named_parameters():
        if p.requires_grad:
            finite_gradient(p.grad, f"the parameter {name!r}")
    model.zero_grad()


def _check_float64(model: nn.Module, x: Tensor, extra: Sequence[Any]) -> None:
    with torch.no_grad():
        y = copy.deepcopy(model).double().eval()(x.double(), *extra)
    claim(y.dtype == torch.float64, f"in float64 the answers are {y.dtype}.")


def _misfits(model: nn.Module, x: Tensor) -> list[Tensor]:
    channels = 2 if x.ndim == 3 else 1  # points of several sets have their features last
    wrong = [torch.cat([x, x.narrow(channels, 0, 1)], dim=channels)]
    if isinstance(model, ImageNetwork):
        wrong.append(x[0])
        if model.image_size is not None:
            wrong.append(torch.cat([x, x[:, :, :1]], dim=2))
    return wrong


def _check_refused(model: nn.Module, wrong: Tensor, extra: Sequence[Any]) -> None:
    try:
        model.eval()(wrong, *extra)
    except ShapeError as error:
        given = str(tuple(wrong.shape))
        claim(given in str(error), f"the ShapeError does not say which shape was given, {given}: {error}")
        return
    except Exception as error:
        raise AssertionError(
            f"an input of shape {tuple(wrong.shape)} raises {type(error).__name__}, must be ShapeError."
        ) from error
    raise AssertionError(f"an input of shape {tuple(wrong.shape)} is taken, must raise ShapeError.")
