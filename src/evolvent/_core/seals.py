"""Checksums inside the files that hold them: what was damaged after it was written is not taken for what was written.

A mapping is sealed by the sha256 of its content under the key ``sha256``, tensors by one in the metadata of their
safetensors file. Files that were never sealed, such as older ones, are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolvent._core.errors import ConfigError, shortened
from evolvent._core.files import write_json
from evolvent._core.plain import plain

if TYPE_CHECKING:
    from torch import Tensor

KEY = "sha256"
_RESTORE = "Put back a copy of it."
_TENSOR_KEY = "evolvent.sha256"  # the only metadata: safetensors writes several in any order


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping of plain values with its checksum before them, so that a file that ends too early shows.

    >>> unsealed(sealed({"lr": 0.1}), "config.yaml")
    {'lr': 0.1}
    """
    return {KEY: _digest(values), **values}


def unsealed(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The mapping without its checksum.

    Raises:
        ConfigError: if the content is not that which was sealed.
    """
    rest = {key: value for key, value in values.items() if key != KEY}
    first = next(iter(values.values()), None)
    if _is_digest(first) if KEY not in values else values[KEY] != _digest(rest):
        raise ConfigError(
            f"{source} is damaged, or was changed by hand: its checksum differs. If you changed it, delete its "
            f"line {KEY!r} as well."
        )
    return rest


def write_sealed(path: Path, values: Mapping[str, Any]) -> None:
    """Write a mapping as JSON with its checksum."""
    write_json(path, sealed(plain(values)))


def read_sealed(path: Path) -> dict[str, Any]:
    """What :func:`write_sealed` wrote.

    Raises:
        ConfigError: if the file is damaged.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {shortened(str(error), 100)}. {_RESTORE}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a mapping of keys to values. {_RESTORE}")
    return unsealed(values, str(path))


def why_unfit(path: Path, error: Exception, lack: str, advice: str) -> str:
    """Why what :func:`read_sealed` gave, or could not give, does not serve; in one line.

    Args:
        path: of the file.
        error: raised by reading it or by looking into it.
        lack: what the file does not do.
        advice: what to do instead of mending it.

    >>> why_unfit(Path("solution.json"), KeyError("initial"), "does not say how it begins", "solve again")
    "solution.json does not say how it begins: it has no key 'initial'. Solve again."
    """
    if isinstance(error, ConfigError):  # it names the file, and says what to do about it
        return f"{error} Or {advice}."
    return f"{path} {lack}: {_reason(error)}. {advice.capitalize()}."


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no key {shortened(str(error))}"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return shortened(str(error)).rstrip(".")


def _is_digest(value: Any) -> bool:
    """Whether this is a checksum, whatever the damaged name that it goes by."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def tensor_seal(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Metadata of a safetensors file that holds these tensors, which lie on the CPU or are copied there."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_bytes(tensor))
    return {_TENSOR_KEY: digest.hexdigest()}


def fits_seal(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> bool:
    """Whether the tensors are those of the metadata; True if there is no checksum in it, by any name."""
    has_one = metadata and (_TENSOR_KEY in metadata or any(map(_is_digest, metadata.values())))
    return not has_one or metadata == tensor_seal(tensors)


def _bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor, which are not copied if it lies on the CPU."""
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if flat.numel() else b""
