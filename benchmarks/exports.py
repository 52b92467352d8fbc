"""Every registered network as a compiled training and as files: the largest difference, or the reason why not.

Networks are small, for compilers of one block where they can be. ``compile`` trains two steps by stochastic gradient
descent with ``torch.compile`` and without, and compares the weights, relative to how far they went, in float64, since
batch normalisation of few images makes much of rounding. The other columns write a file with ``export_network``, run it
and compare the answers, relative to the largest. Networks of the same form are measured once. Results are stored as
``results/exports.json`` after each network, and a second call goes on where the first one ended.

    python benchmarks/exports.py [NAME ...]
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from results import store
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from small_networks import least_options, same_form, small_network

import evolvent as ev
from evolvent.errors import ConfigError
from evolvent.networks.exporting import export_network, exportable
from evolvent.networks.fixed_steps import is_adaptive

FILE = Path(__file__).parent / "results" / "exports.json"
COLUMNS = ("torch-export", "onnx", "compile", "aot")
FIXED_STEPS = 8


def trained(network: nn.Module, x: Tensor, compiled: bool) -> Tensor:
    """The weights after two steps of training."""
    twin = copy.deepcopy(network).train()
    for part in twin.modules():
        if hasattr(part, "dropout") and isinstance(part.dropout, float):
            part.dropout = 0.0  # which would draw otherwise when compiled
    torch.compiler.reset()
    run = torch.compile(twin) if compiled else twin
    optimiser = torch.optim.SGD(twin.parameters(), lr=1e-3)
    for _ in range(2):
        optimiser.zero_grad()
        run(x).square().mean().backward()
        optimiser.step()
    return nn.utils.parameters_to_vector(twin.parameters()).detach()


def compile_difference(network: nn.Module, x: Tensor) -> float:
    start = nn.utils.parameters_to_vector(network.parameters()).detach()
    expected = trained(network, x, compiled=False)
    off = trained(network, x, compiled=True) - expected
    return (off.abs().max() / (expected - start).abs().max()).item()


def file_difference(network: nn.Module, x: Tensor, to: Any) -> dict[str, Any]:
    steps = FIXED_STEPS if is_adaptive(network) else None
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        found = export_network(network, x, Path(folder) / "file", to, fixed_steps=steps)
        largest = exportable(network, steps)(x).abs().max().item()
    return {"difference": found.difference / max(largest, 1e-6), "any batch": found.any_batch} | (
        {"fixed steps": steps} if steps else {}
    )


def measured(name: str, column: str) -> dict[str, Any]:
    network, x = small_network(name, **(least_options(name) if column in ("compile", "aot") else {}))
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = {"difference": compile_difference(network.double(), x.double())} if column == "compile" else (
                file_difference(network, x, column))  # fmt: skip
        except ConfigError as error:
            found = {"reason": str(error)}
        except Exception as error:  # of compilers
            found = {"reason": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"}
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    torch.set_num_threads(1)
    torch._inductor.config.compile_threads = 1
    rows = json.loads(FILE.read_text())["networks"] if FILE.is_file() else {}
    names = sys.argv[1:] or ev.list_models()
    rows = {name: {} if name in sys.argv[1:] else rows.get(name, {}) for name in ev.list_models()}
    for column in COLUMNS:
        for name in names:
            if column not in rows[name]:
                known = rows[same_form(name)].get(column)
                rows[name][column] = known or measured(name, column)
                print(name, column, rows[name][column], flush=True)
                store("exports", {"asked": "largest relative difference, or the reason", "networks": rows})


if __name__ == "__main__":
    main()
