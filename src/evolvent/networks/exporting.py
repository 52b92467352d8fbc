"""Networks as files that run without this library: ONNX, PyTorch programs, compiled packages."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_choice
from evolvent._core.errors import ConfigError, shortened
from evolvent._core.extras import import_extra

ExportFormat: TypeAlias = Literal["onnx", "torch-export", "aot"]
SUFFIXES = {"onnx": ".onnx", "torch-export": ".pt2", "aot": ".aot.pt2"}
_TOLERANCE = 1e-4  # largest difference of an answer that counts as rounding


@dataclass(frozen=True)
class Exported:
    """A written file.

    Attributes:
        path: where it lies.
        difference: the largest difference between its answers and the network's, on the example.
        any_batch: whether it takes any number of inputs at once, or only as many as the example.
    """

    path: Path
    difference: float
    any_batch: bool


def export_network(
    network: nn.Module,
    example: Tensor,
    path: str | os.PathLike[str],
    to: ExportFormat = "onnx",
    *,
    notes: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a network in evaluation mode as a file, run the file, and compare the answers.

    Args:
        network: a module that maps one tensor to one tensor.
        example: at least two inputs, in the dtype that the file is to take.
        path: the file; it appears whole or not at all.
        to: ``"onnx"``, which needs the extra ``export``; ``"torch-export"``, a program for ``torch.export.load``; or
            ``"aot"``, a package compiled for this kind of machine, for ``torch._inductor.aoti_load_package``.
        notes: what an ONNX file says besides, such as the names of classes.

    Raises:
        ConfigError: if the format cannot express the network; the message gives the reason.
    """
    check_choice("to", to, get_args(ExportFormat))
    if to == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_extra(package, "export", "ONNX files")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    was_training = network.training
    network.eval()
    try:
        with torch.no_grad(), tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as folder:
            expected = network(example)
            draft = Path(folder) / f"draft{SUFFIXES[to]}"
            any_batch = _write(network, example, draft, to, notes or {})
            difference = (_answer(draft, example, to) - expected).abs().max().item()
            if not difference <= _TOLERANCE * max(1.0, expected.abs().max().item()):
                raise ConfigError(f"the answers of the {to} file differ by {difference:.1e}; it was not kept.")
            os.replace(draft, target)
    finally:
        network.train(was_training)
    return Exported(target, difference, any_batch)


def _write(network: nn.Module, example: Tensor, path: Path, to: ExportFormat, notes: Mapping[str, Any]) -> bool:
    """Write the file, for any number of inputs if that can be; whether it can."""
    reason = None
    for any_batch in (True, False):
        shapes = ({0: torch.export.Dim("batch", min=1)},) if any_batch else None
        try:
            with _quiet():
                program = torch.export.export(network, (example,), dynamic_shapes=shapes)
                _WRITERS[to](program, example, path, notes)
        except Exception as error:  # exporters fail in as many ways as networks differ
            reason = error
            continue
        return any_batch
    lines = [line for line in str(reason).splitlines() if line.strip()] or ["no reason given"]
    text = shortened(f"{type(reason).__name__}: {lines[0]}", 160)
    raise ConfigError(f"{to} cannot express this network: {text} Try another format with --to.") from reason


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters warn of: their own future, and packages that networks here do not need."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _write_onnx(program: Any, example: Tensor, path: Path, notes: Mapping[str, Any]) -> None:
    written: Any = torch.onnx.export(
        program, (example,), input_names=["input"], output_names=["output"], dynamo=True, verbose=False
    )
    for key, value in notes.items():
        written.model.metadata_props[key] = json.dumps(value)
    written.save(path, external_data=False)


def _write_program(program: Any, example: Tensor, path: Path, notes: Mapping[str, Any]) -> None:
    torch.export.save(program, path, extra_files={"notes.json": json.dumps(dict(notes))})


def _write_package(program: Any, example: Tensor, path: Path, notes: Mapping[str, Any]) -> None:
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))


_WRITERS = {"onnx": _write_onnx, "torch-export": _write_program, "aot": _write_package}


def _answer(path: Path, example: Tensor, to: ExportFormat) -> Tensor:
    """What the written file answers."""
    if to == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return torch.as_tensor(session.run(None, {"input": example.cpu().numpy()})[0])
    if to == "torch-export":
        return torch.export.load(path).module()(example)
    return torch._inductor.aoti_load_package(str(path))(example)
