"""Layers solved together against layers one after another."""

import copy
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing import assert_close

from evolvent import Evolution
from evolvent.dynamics import Dynamics, Hamiltonian, Residual, SecondOrder, time_varying
from evolvent.errors import ConfigError
from evolvent.gradients import (
    Backprop,
    LayerParallel,
    LayerParallelWarning,
    SimultaneousLayerParallel,
    make_strategy,
)
from evolvent.integrators import RK4, Euler, ImplicitMidpoint, Leapfrog, Verlet
from evolvent.testing import check_gradient


def hamiltonians(steps: int, **options) -> list[Hamiltonian]:
    return [Hamiltonian(2, **options) for _ in range(steps)]


EVOLUTIONS = {
    "list": lambda: Evolution(hamiltonians(16, bias=True), Verlet(), step_size=0.1),
    "ragged": lambda: Evolution(hamiltonians(13), Verlet(), step_size=0.1),
    "fewer steps than c": lambda: Evolution(hamiltonians(2), Verlet(), step_size=0.1),
    "shared": lambda: Evolution(Hamiltonian(2), Verlet(), steps=9, step_size=0.1),
    "statistics": lambda: Evolution([Residual(4) for _ in range(7)], Euler(), step_size=0.2),
    "shared statistics": lambda: Evolution(Residual(4, "pre"), Euler(), steps=7, step_size=0.2),
    "fourth order": lambda: Evolution([Residual(4) for _ in range(6)], RK4(), step_size=0.2),
    "history": lambda: Evolution([SecondOrder(4) for _ in range(10)], Leapfrog(), step_size=0.1),
    "time-varying": lambda: Evolution(time_varying(hamiltonians(3), end_time=0.8), Verlet(), steps=8, step_size=0.1),
}
STRATEGIES = {"c=2": (2, 2), "c=4": (4, 2), "three levels": (2, 3), "five levels": (2, 5)}


@pytest.mark.parametrize(("coarsening", "levels"), STRATEGIES.values(), ids=STRATEGIES)
@pytest.mark.parametrize("made", EVOLUTIONS.values(), ids=EVOLUTIONS)
def test_value_gradients_and_statistics_are_those_of_the_steps(made, coarsening, levels):
    strategy, evolution = LayerParallel(coarsening, levels), made()
    check_gradient(strategy, evolution, torch.randn(2, 4, 3, 5))
    intervals = -(-evolution.steps // coarsening)
    for history in (strategy.forward_residuals, strategy.backward_residuals):
        assert 1 <= len(history) <= intervals // 2 + 1
        assert history[-1] < 1e-13


def test_smooth_weights_converge_before_they_must():
    torch.manual_seed(0)
    f = time_varying([Hamiltonian(2, activation="tanh") for _ in range(2)], end_time=1.0)
    strategy = LayerParallel(coarsening=4, tolerance=1e-8)
    evolution = Evolution(f, Verlet(), steps=128, step_size=1 / 128, gradient=strategy).double()
    u0 = torch.randn(2, 4, 4, 4, dtype=torch.float64)
    value = evolution(u0)
    assert len(strategy.forward_residuals) <= 8
    evolution.gradient = Backprop()
    assert_close(value, evolution(u0), rtol=1e-7, atol=1e-7)


def test_single_precision_ends_at_its_own_rounding():
    evolution = Evolution(hamiltonians(16), Verlet(), step_size=0.05, gradient=LayerParallel())
    u0 = torch.randn(2, 4, 4, 4)
    value = evolution(u0)
    evolution.gradient = Backprop()
    assert_close(value, evolution(u0), rtol=1e-4, atol=1e-4)


def test_without_gradient_statistics_still_move_once():
    def run(strategy):
        torch.manual_seed(0)
        evolution = Evolution([Residual(4) for _ in range(6)], Euler(), step_size=0.2, gradient=strategy)
        with torch.no_grad():
            value = evolution(torch.randn(2, 4, 3, 3))
        return value, evolution.state_dict()

    (a, left), (b, right) = run(LayerParallel(2)), run(Backprop())
    assert_close(a, b)
    for name, value in left.items():
        assert_close(value, right[name])


def test_gradient_of_the_input_alone_and_of_a_second_backward():
    evolution = Evolution(hamiltonians(6), Verlet(), step_size=0.1, gradient=LayerParallel(2)).double()
    for p in evolution.parameters():
        p.requires_grad_(False)
    u0 = torch.randn(1, 4, 3, 3, dtype=torch.float64, requires_grad=True)
    value = evolution(u0).square().sum()
    value.backward(retain_graph=True)
    first = u0.grad.clone()
    value.backward()
    assert_close(u0.grad, 2 * first)


def test_imaginary_parts_count():
    evolution, x = Evolution(Linear(-1.0), Euler(), 8, 0.3), 1j * torch.ones(3, dtype=torch.complex128)
    expected = evolution(x)
    evolution.gradient = LayerParallel(2)
    assert_close(evolution(x), expected)


class Explosive(Dynamics):
    def __init__(self) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(3.0))

    def forward(self, t, u):
        return self.rate * u.pow(3)


class Linear(Dynamics):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, t, u):
        return self.rate * u


class Noisy(Dynamics):
    def forward(self, t, u):
        return nn.functional.dropout(u)


def test_too_few_cycles_are_said():
    evolution = Evolution(hamiltonians(16), Verlet(), step_size=0.1, gradient=LayerParallel(2, max_iterations=1))
    with pytest.warns(LayerParallelWarning, match=r"forward solve .* after 1 cycles, asked for .*Raise max_iterations"):
        evolution(torch.randn(1, 4, 3, 3))


def test_divergence_is_said_with_what_to_do():
    evolution = Evolution(Explosive(), Euler(), steps=32, step_size=0.5, gradient=LayerParallel(8))
    with pytest.warns(LayerParallelWarning, match=r"diverged.*unstable: use a smaller coarsening"):
        evolution(torch.ones(1, 1))


def test_random_dynamics_are_refused():
    with pytest.raises(ConfigError, match="draw random numbers"):
        Evolution(Noisy(), Euler(), steps=4, gradient=LayerParallel(2))(torch.ones(2, 2))


def test_a_coarse_step_that_fails_is_said_to_be_one():
    flow = Evolution(Linear(-3.0), ImplicitMidpoint(), steps=8, step_size=0.2, gradient=LayerParallel(8))
    with pytest.raises(ConfigError, match=r"does not converge.*8 steps are one on a coarse level: use a smaller"):
        flow(torch.ones(1, 2))
    flow.step_size = 1.0
    with pytest.raises(ConfigError, match=r"smaller step size than h=1, with more steps\.$"):
        flow(torch.ones(1, 2))


@pytest.mark.parametrize("options", [{"coarsening": 1}, {"levels": 1}, {"max_iterations": 0}])
def test_settings_are_checked(options):
    with pytest.raises(ConfigError, match="must be a whole number of at least"):
        LayerParallel(**options)


def test_recipes_can_write_it_and_copies_keep_the_settings():
    assert make_strategy("layer_parallel").text == "layer_parallel:4:2"
    assert make_strategy("layer_parallel:8").text == "layer_parallel:8:2"
    assert repr(make_strategy("layer_parallel:2:3")) == "LayerParallel(coarsening=2, levels=3)"
    with pytest.raises(ConfigError, match="coarsening and levels"):
        make_strategy("layer_parallel:2:3:4")
    for one in (LayerParallel(2, 3, 1e-5, 7), SimultaneousLayerParallel(2, 3, 5)):
        for twin in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            assert type(twin) is type(one)
            for name in ("coarsening", "levels", "tolerance", "max_iterations"):
                assert getattr(twin, name) == getattr(one, name)


def train(strategy, steps: int = 150) -> tuple[list[float], Evolution]:
    """Gradient descent on one batch: learn what another evolution does."""
    torch.manual_seed(0)
    flow, teacher = (
        Evolution([Hamiltonian(2, activation="tanh") for _ in range(16)], Verlet(), step_size=0.05).double()
        for _ in range(2)
    )
    flow.gradient = strategy
    x = torch.randn(4, 4, 4, 4, dtype=torch.float64)
    target = teacher(x).detach()
    optimizer = torch.optim.SGD(flow.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = (flow(x) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    flow.gradient = Backprop()
    losses.append((flow(x) - target).square().mean().item())
    return losses, flow


def test_simultaneous_optimisation_converges_with_one_cycle_per_step():
    strategy = SimultaneousLayerParallel(coarsening=2)
    (together, _), (exact, _) = train(strategy), train(Backprop())
    assert exact[-1] < 0.05 * exact[0]
    assert together[-1] == pytest.approx(exact[-1], rel=0.02)
    assert together[-2] == pytest.approx(together[-1], rel=0.05)
    assert len(strategy.forward_residuals) == len(strategy.backward_residuals) == 1
    assert strategy.forward_residuals[0] < 1e-2


def test_simultaneous_solves_forget_states_of_another_shape():
    flow = Evolution(hamiltonians(8), Verlet(), step_size=0.1, gradient=SimultaneousLayerParallel(2))
    for batch in (2, 3, 3):
        flow(torch.ones(batch, 4, 3, 3)).sum().backward()
    assert not SimultaneousLayerParallel.exact


SCRIPT = """
import os, sys, torch
import torch.distributed as dist
from evolvent import create_model, set_gradient
from evolvent.gradients import LayerParallel
sys.path.insert(0, sys.argv[3])
from training import trained, refused

rank, port = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3)
groups = {2: dist.new_group([0, 1]), 3: dist.group.WORLD}
for size, group in groups.items():
    if rank < size:
        for case, options in enumerate(((4, 2), (2, 3))):
            strategy = LayerParallel(*options, group=group)
            torch.save(trained(strategy), f"{sys.argv[3]}/{size}-{rank}-{case}.pt")
        refused(strategy)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # gloo's threads may outlive the interpreter and end the process with an error
"""

TRAINING = """
import torch
from torch.nn import functional as F
from evolvent import Evolution, create_model, set_gradient
from evolvent.dynamics import Residual
from evolvent.errors import ConfigError
from evolvent.integrators import Euler

def trained(strategy):
    torch.manual_seed(0)
    model = create_model("hamiltonian", channels=(4, 8), blocks=(9, 3), in_channels=1, image_size=8, norm="batch")
    set_gradient(model.double(), strategy)
    x, y = torch.randn(6, 1, 8, 8, dtype=torch.float64), torch.arange(6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.state_dict()

def refused(strategy):
    try:
        Evolution(Residual(2), Euler(), steps=4, gradient=strategy)(torch.randn(2, 2, 3, 3))
    except ConfigError as error:
        assert "running statistics" in str(error)
    else:
        raise AssertionError("shared statistics were taken")
"""


@pytest.fixture
def group_of_one(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_a_group_of_one_process_is_that_process(group_of_one):
    strategy = LayerParallel(2, 3, group=group_of_one)
    assert copy.deepcopy(strategy).group is group_of_one
    evolution = Evolution([Residual(4) for _ in range(7)], Euler(), step_size=0.2)
    check_gradient(strategy, evolution, torch.randn(2, 4, 3, 5))
    with pytest.raises(ConfigError, match="running statistics"):
        Evolution(Residual(4), Euler(), steps=4, gradient=strategy)(torch.randn(2, 4, 3, 3))
    evolution = Evolution([Noisy() for _ in range(3)], Euler(), step_size=0.2, gradient=strategy).eval()
    with pytest.raises(ConfigError, match="random"):
        evolution(torch.ones(1, 2, requires_grad=True))


def free_port() -> str:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture(scope="module")
def trained_by_processes(tmp_path_factory) -> Path:
    """A folder with the weights of every process of a group of two and of one of three."""
    folder = tmp_path_factory.mktemp("processes")
    (folder / "training.py").write_text(TRAINING)
    (folder / "run.py").write_text(SCRIPT)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOCAL_", "NODE_", "RANK", "WORLD"))}
    command, port = [sys.executable, "-W", "error::UserWarning", str(folder / "run.py")], free_port()
    runs = [
        subprocess.Popen(
            [*command, str(rank), port, str(folder)],
            env={**kept, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    assert all(run.returncode == 0 for run in runs), errors
    return folder


@pytest.mark.parametrize("size", [2, 3])
def test_processes_end_with_the_weights_of_one(trained_by_processes, size):
    """With three processes some idle: the second evolution has one or two intervals."""
    scope: dict = {}
    exec(TRAINING, scope)
    expected = scope["trained"](Backprop())
    for rank in range(size):
        for case in range(2):
            found = torch.load(trained_by_processes / f"{size}-{rank}-{case}.pt")
            for name, value in expected.items():
                assert_close(found[name], value, rtol=1e-8, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")
