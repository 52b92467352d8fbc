"""Whether PyTorch's tracers take a network: torch.export, torch.compile and ONNX."""

from __future__ import annotations

import copy
import tempfile
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from evolvent.testing._claims import claim, distance, finite_gradient

_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}


def check_exports(model: nn.Module, *x: Tensor) -> None:
    """The program that ``torch.export`` makes of a model in evaluation mode answers as the model does.

    Args:
        model: any module; a copy is used.
        x: its arguments.

    >>> check_exports(nn.Linear(2, 1), torch.ones(3, 2))
    """
    twin = copy.deepcopy(model).eval()
    with torch.no_grad():
        try:
            program = torch.export.export(twin, x)
        except Exception as error:
            raise AssertionError(f"torch.export does not take the model: {str(error).splitlines()[0]}") from error
        _check_same("exported model's answer", program.module()(*x), twin(*x))


def check_onnx(model: nn.Module, *x: Tensor) -> None:
    """The ONNX file of a model in evaluation mode, run by onnxruntime, answers as the model does, to 1e-4.

    Needs the extra ``export``.

    Args:
        model: any module; a copy is used.
        x: its arguments, in float32.
    """
    import onnxruntime

    twin = copy.deepcopy(model).eval()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        _write_onnx(twin, x, path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [given.name for given in session.get_inputs()]
        found = session.run(None, {name: part.numpy() for name, part in zip(names, x, strict=True)})[0]
        _check_same("ONNX file's answer", torch.as_tensor(found), twin(*x))


def _write_onnx(model: nn.Module, x: tuple[Tensor, ...], path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own future
        try:
            torch.onnx.export(model, x, path, dynamo=True, verbose=False)
        except Exception as error:
            raise AssertionError(f"torch.onnx.export does not take the model: {str(error).splitlines()[0]}") from error


def check_compiles(model: nn.Module, *x: Tensor, backend: str = "inductor", fullgraph: bool = True) -> None:
    """A compiled model answers, and hands back gradients, as the eager one does.

    Args:
        model: any module; copies are used, in evaluation mode, so that random layers stand still.
        x: its arguments.
        backend: of ``torch.compile``; the default needs a C++ compiler.
        fullgraph: insist on one graph; models whose steps depend on values cannot have it.
    """
    eager, twin = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
    torch.compiler.reset()  # what was compiled before counts towards the limit of recompilations
    compiled = torch.compile(twin, backend=backend, fullgraph=fullgraph)
    expected, found = eager(*x), compiled(*x)
    _check_same("compiled model's answer", found, expected)
    expected.square().mean().backward()
    found.square().mean().backward()
    for (name, p), q in zip(eager.named_parameters(), twin.parameters(), strict=True):
        if p.grad is not None:
            gradient = finite_gradient(q.grad, f"the compiled model's parameter {name!r}")
            _check_same(f"compiled model's gradient of {name!r}", gradient, p.grad)


def _check_same(kind: str, found: Tensor, expected: Tensor) -> None:
    off, allowed = distance(found, expected), _TOLERANCE.get(expected.dtype, 1e-2)
    claim(off <= allowed, f"the {kind} is {off:.1e} from the eager one, at most {allowed:g} is rounding.")
