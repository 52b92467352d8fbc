"""Transfer learning: a trained network with a new last layer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import nn

from evolvent._core.checks import check_path
from evolvent.networks._files import WEIGHTS, check_tensors, model_folder, read_config, read_tensors
from evolvent.networks._registry import create_model


def transfer(folder: str | os.PathLike[str], **options: Any) -> nn.Module:
    """A saved network with the same weights but a new last layer, to be trained on other classes.

    The last layer is the last linear map or convolution with whatever follows it; it is initialised anew, even if it
    has the old size. Everything else must fit.

    Args:
        folder: of a saved model, or of a run with one training.
        options: of the network that change, such as ``num_classes``.

    >>> import tempfile, evolvent as ev
    >>> path = tempfile.mkdtemp()
    >>> ev.save(ev.create_model("hamiltonian", channels=(4,), blocks=1, num_classes=10), path)
    >>> ev.networks.transfer(path, num_classes=3).head.linear.out_features
    3
    """
    folder = model_folder(check_path(folder, "ev.networks.transfer"))
    name, saved = read_config(folder)
    model = create_model(name, **{**saved, **options})
    take_weights(model, folder)
    return model


def take_weights(model: nn.Module, folder: Path) -> None:
    """Give a network the saved weights of another, but for the last layer."""
    fresh = last_layer(model)
    kept = {name: tensor for name, tensor in model.state_dict().items() if name not in fresh}
    found = {name: tensor for name, tensor in read_tensors(folder / WEIGHTS).items() if name not in fresh}
    check_tensors(found, kept, folder / WEIGHTS)
    model.load_state_dict(found, strict=False)


def last_layer(model: nn.Module) -> set[str]:
    """Names of the parameters and buffers of the last linear map or convolution, and of what follows it.

    >>> sorted(last_layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), nn.PReLU())))
    ['2.bias', '2.weight', '3.weight']
    """
    modules = list(model.named_modules())
    affine = (nn.Linear, nn.modules.conv._ConvNd)
    last = max((i for i, (_, module) in enumerate(modules) if isinstance(module, affine)), default=len(modules))
    return {f"{prefix}.{name}" if prefix else name for prefix, module in modules[last:] for name in module.state_dict()}
