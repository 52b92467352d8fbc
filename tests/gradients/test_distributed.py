"""Two processes that share a batch against one."""

import os
import socket
import subprocess
import sys

import pytest
import torch

from evolvent import create_model, set_gradient

STRATEGIES = ("reversible", "checkpoint:binomial:2")
SCRIPT = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from evolvent import create_model, set_gradient

rank, port, target, texts = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
found = {}
for text in texts:
    torch.manual_seed(0)
    model = create_model("hamiltonian", channels=(4, 8), blocks=3, in_channels=1, image_size=8)
    set_gradient(model, text)
    x = torch.randn(4, 1, 8, 8)
    parallel = DistributedDataParallel(model)
    for _ in range(2):
        parallel.zero_grad()
        parallel(x[2 * rank : 2 * rank + 2]).square().mean().backward()
    found[text] = [p.grad for p in model.parameters()]
if rank == 0:
    torch.save(found, target)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # gloo's threads may outlive the interpreter and end the process with an error
"""


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture(scope="module")
def gradients(tmp_path_factory) -> dict[str, list[torch.Tensor]]:
    """The gradients of two processes, by strategy."""
    folder, port = tmp_path_factory.mktemp("two"), free_port()
    script, target = folder / "two.py", folder / "grads.pt"
    script.write_text(SCRIPT)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOCAL_", "NODE_", "RANK", "WORLD"))}
    env = {**kept, "OMP_NUM_THREADS": "1"}
    runs = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), port, str(target), *STRATEGIES],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    assert all(run.returncode == 0 for run in runs), errors
    return torch.load(target, weights_only=True)


@pytest.mark.parametrize("text", STRATEGIES)
def test_two_processes_have_the_gradient_of_one(gradients, text):
    torch.manual_seed(0)
    model = create_model("hamiltonian", channels=(4, 8), blocks=3, in_channels=1, image_size=8)
    set_gradient(model, "backprop")
    model(torch.randn(4, 1, 8, 8)).square().mean().backward()
    for p, gradient in zip(model.parameters(), gradients[text], strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-4, atol=1e-6)
