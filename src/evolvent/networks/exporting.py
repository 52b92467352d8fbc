"""Networks as files that run without this library: ONNX, PyTorch programs, compiled packages."""

from __future__ import annotations

import copy
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

from evolvent._core.checks import check_choice, check_path
from evolvent._core.errors import ConfigError, shortened
from evolvent._core.extras import import_extra
from evolvent._core.files import storing
from evolvent.networks.fixed_steps import is_adaptive, with_fixed_steps
from evolvent.operators.differential import dense
from evolvent.operators.integral.pair_sum import whole_pair_sum

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
        off_adaptive: for networks with adaptive steps, the largest difference between its answers and theirs.
    """

    path: Path
    difference: float
    any_batch: bool
    off_adaptive: float | None = None


def export_network(
    network: nn.Module,
    example: Tensor,
    path: str | os.PathLike[str],
    to: ExportFormat = "onnx",
    *,
    notes: Mapping[str, Any] | None = None,
    fixed_steps: int | None = None,
) -> Exported:
    """Write a network in evaluation mode as a file, run the file, and compare the answers.

    Files hold operations of their format alone, so that they run where this library is not installed.

    Args:
        network: a module that maps one tensor to one tensor.
        example: at least two inputs, in the dtype that the file is to take.
        path: the file; it appears whole or not at all.
        to: ``"onnx"``, which needs the extra ``export``; ``"torch-export"``, a program for ``torch.export.load``; or
            ``"aot"``, a package compiled for this kind of machine, for ``torch._inductor.aoti_load_package``.
        notes: what a file says besides, such as the names of classes; a compiled package says nothing.
        fixed_steps: for networks that choose their steps by values: how many steps of fixed size the file makes, see
            :func:`~evolvent.networks.with_fixed_steps`.

    Raises:
        ConfigError: if the format cannot express the network; the message gives the reason.
    """
    check_choice("to", to, get_args(ExportFormat))
    if to == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            import_extra(package, "export", "ONNX files")
    target = check_path(path, "an export", "a file")
    if target.is_dir():
        named = target / f"model{SUFFIXES[to]}"
        raise ConfigError(f"{target} is a folder. Name the file to write in it, such as {named}.")
    twin = exportable(network, fixed_steps)
    with storing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        drafts = tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-")
    with torch.no_grad(), drafts as folder:
        expected = twin(example)
        draft = Path(folder) / f"draft{SUFFIXES[to]}"
        any_batch = _write(twin, example, draft, to, notes or {})
        answer = _answer(draft, example, to)
        difference = (answer - expected).abs().max().item()
        if not difference <= _TOLERANCE * max(1.0, expected.abs().max().item()):
            raise ConfigError(f"the answers of the {to} file differ by {difference:.1e}; it was not kept.")
        off = None
        if is_adaptive(network):
            off = (answer - copy.deepcopy(network).eval()(example)).abs().max().item()
        os.replace(draft, target)
    return Exported(target, difference, any_batch, off)


def exportable(network: nn.Module, fixed_steps: int | None = None) -> nn.Module:
    """A copy in evaluation mode that exporters can follow: its steps are fixed, equivariant layers are ordinary ones,
    and parts that offer another form of themselves by a method ``prepare_for_export`` take it.

    Raises:
        ConfigError: if the network chooses its steps by values, and ``fixed_steps`` is not given.
    """
    if is_adaptive(network) and fixed_steps is None:
        raise ConfigError(
            "this network chooses its steps by values, which no file can do. Write its fixed-step form: --fixed-steps "
            "8, or fixed_steps=8 in Python (of odenet that is rknet with the same weights)."
        )
    twin = dense(copy.deepcopy(network) if fixed_steps is None else with_fixed_steps(network, fixed_steps))
    for part in twin.modules():
        if callable(prepare := getattr(part, "prepare_for_export", None)):
            prepare()
    return twin.eval()


def _write(network: nn.Module, example: Tensor, path: Path, to: ExportFormat, notes: Mapping[str, Any]) -> bool:
    """Write the file, for any number of inputs if that can be; whether it can."""
    reason = None
    for any_batch in (True, False):
        shapes = ({0: torch.export.Dim("batch", min=1)},) if any_batch else None
        try:
            with _quiet():
                program = _standard(torch.export.export(network, (example,), dynamic_shapes=shapes))
                _WRITERS[to](program, example, path, notes)
        except Exception as error:  # exporters fail in as many ways as networks differ
            reason = error
            continue
        return any_batch
    raise ConfigError(
        f"{to} cannot express this network: {_first_cause(reason)} Try another format with --to."
    ) from reason


def _first_cause(error: BaseException | None) -> str:
    """What an exporter failed at, without what it says about itself."""
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()] or ["no reason given"]
    return shortened(f"{type(error).__name__}: {lines[0]}", 160)


def _standard(program: Any) -> Any:
    """The same program without operations of this library."""
    own = {torch.ops.evolvent.pair_sum.default: whole_pair_sum}
    graphs = (part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule))
    if any(node.target in own for graph in graphs for node in graph.nodes):
        return program.run_decompositions(own)
    return program


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what exporters warn of: their own future, and packages that networks here do not need."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.fx.experimental")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
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
