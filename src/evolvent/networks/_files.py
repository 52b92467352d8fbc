"""Saved models: a folder with ``config.yaml`` and ``model.safetensors``. Nothing here reads a pickle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from evolvent._core.checks import check_path
from evolvent._core.errors import ConfigError, EvolventError, ModelFileError, shortened
from evolvent._core.files import write_bytes, write_text
from evolvent._core.seals import fits_seal, sealed, tensor_seal, unsealed
from evolvent._core.yaml_text import parse_yaml
from evolvent.networks._registry import ModelSpec, create_model

CONFIG, WEIGHTS = "config.yaml", "model.safetensors"
MODEL = "model"  # where a run folder has its saved model
_FORMAT = 1  # changes when older files can no longer be read


def save(model: nn.Module, folder: str | os.PathLike[str]) -> None:
    """Save a registered network as a folder with ``config.yaml`` and ``model.safetensors``.

    Each file appears whole or not at all, and ``config.yaml`` last.

    >>> import tempfile, evolvent as ev
    >>> path = tempfile.mkdtemp()
    >>> ev.save(ev.create_model("hamiltonian", channels=(4,), blocks=1), path)
    >>> type(ev.load(path)).__name__
    'ImageNetwork'
    """
    import yaml  # here, because it would slow down every import of the package
    from safetensors.torch import save as serialise

    spec = getattr(model, "spec", None)
    if not isinstance(spec, ModelSpec):
        raise ConfigError("ev.save takes networks made by ev.create_model, which know how to be built again.")
    folder = check_path(folder, "ev.save")
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    # safetensors' own writer hides a full disk
    write_bytes(folder / WEIGHTS, serialise(tensors, tensor_seal(tensors)))
    config = sealed({"format": _FORMAT, "network": spec.name, "options": _plain(spec.options)})
    write_text(folder / CONFIG, yaml.safe_dump(config, sort_keys=False))


def load(folder: str | os.PathLike[str]) -> nn.Module:
    """Rebuild a network that :func:`save` wrote, in evaluation mode.

    Args:
        folder: the saved model, or a run folder with one training.

    Raises:
        ModelFileError: if the folder is not a saved model, or its files are foreign or truncated. Pickled models are
            refused.
    """
    folder = check_path(folder, "ev.load")
    if folder.is_file():
        raise ModelFileError(
            f"{folder} is a file; a model is a folder with {CONFIG} and {WEIGHTS}, written by ev.save. "
            "Pickled models (.pt, .pth, .ckpt, .pkl) are refused, because reading one can run any code."
        )
    folder = model_folder(folder)
    model = _rebuild(folder / CONFIG)
    tensors = read_tensors(folder / WEIGHTS)
    check_tensors(tensors, model.state_dict(), folder / WEIGHTS)
    # clones lie where PyTorch's tensors lie, not at any byte of the file: else matrix products may round differently
    aligned = {name: tensor.clone() for name, tensor in tensors.items()}
    model.load_state_dict(aligned, assign=True)  # keeps the saved dtype
    return model.eval()


def model_folder(folder: Path) -> Path:
    """The folder of the saved model: the given one, or that of the only training of a run folder.

    Raises:
        ModelFileError: if there is no such folder, or a run folder has several trainings; the message names them.
    """
    if not folder.exists():
        raise ModelFileError(f"there is no folder {folder}. Give the folder of a run or of a saved model.")
    if (folder / WEIGHTS).is_file():
        return folder
    if (folder / MODEL / WEIGHTS).is_file():
        return folder / MODEL
    found = sorted(folder.glob(f"cells/*/{MODEL}/{WEIGHTS}"))
    if len(found) == 1:
        return found[0].parent
    if found:
        names = ", ".join(str(path.parents[1].relative_to(folder)) for path in found[:6])
        raise ModelFileError(f"{folder} has {len(found)} trained networks. Give the folder of one of them: {names}.")
    return folder


def _rebuild(path: Path) -> nn.Module:
    name, options = read_config(path.parent)
    try:
        return create_model(name, **options)
    except EvolventError as error:
        raise ModelFileError(f"{path} does not describe a network: {shortened(str(error), 150)}") from error


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """Name and options of a saved network."""
    path = folder / CONFIG
    if not path.is_file():
        raise ModelFileError(f"{folder} is not a saved model: it has no {CONFIG}. Save one with ev.save.")
    try:
        config: Any = parse_yaml(path.read_text(encoding="utf-8"), str(path))
        if isinstance(config, dict) and config.get("format", _FORMAT) == _FORMAT:
            config = unsealed(config, str(path))
    except ConfigError as error:
        raise ModelFileError(str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} is truncated or not YAML: {shortened(str(error))}.") from None
    match config:
        case {"format": found} if found != _FORMAT:
            raise ModelFileError(
                f"{path} has format {found}, this version reads {_FORMAT}. Use the version that wrote it."
            )
        case {"network": str(name), "options": dict(options)} if all(isinstance(key, str) for key in options):
            return name, options
    raise ModelFileError(f"{path} does not describe a network: it must have a name as 'network' and named 'options'.")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    from safetensors import safe_open

    if not path.is_file():
        raise ModelFileError(f"{path} is missing. Save the model again with ev.save.")
    try:
        with safe_open(path, "pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except Exception as error:  # a damaged header fails in many ways
        raise ModelFileError(_why_unreadable(path, error)) from None
    if not fits_seal(tensors, metadata):
        raise ModelFileError(f"{path} is damaged: its checksum differs. Save the model again with ev.save.")
    return tensors


def _why_unreadable(path: Path, error: Exception) -> str:
    with path.open("rb") as file:
        head = file.read(2)
    if head[:1] == b"\x80" or head == b"PK":  # asked only now: a good file's header length may begin so, too
        return f"{path} is a pickle, not safetensors; it is refused, because reading one can run any code."
    return f"{path} ({path.stat().st_size:,} bytes) is truncated or not a safetensors file: {shortened(str(error))}."


def check_tensors(found: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    """Refuse tensors of other names, shapes or kinds of numbers than expected."""
    for name, tensor in expected.items():
        if name not in found:
            raise ModelFileError(f"{path} belongs to another network: it has no {name!r}.")
        if found[name].shape != tensor.shape:
            shapes = f"{tuple(found[name].shape)}, where the network has {tuple(tensor.shape)}"
            raise ModelFileError(f"{path} belongs to another network: {name!r} is {shapes}.")
        if found[name].is_floating_point() != tensor.is_floating_point():
            raise ModelFileError(f"{path} belongs to another network: {name!r} holds {found[name].dtype} numbers.")
    if extra := sorted(set(found) - set(expected)):
        raise ModelFileError(f"{path} belongs to another network: it also has {extra[0]!r}.")


def _plain(value: Any) -> Any:
    """Tuples as lists, so that YAML needs no tags."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value
