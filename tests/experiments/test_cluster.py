"""Cells as Ray tasks: the same weights, also when a worker is killed; a cluster that does not answer is told in a line.

Ray is started once for all tests of this file.
"""

import builtins
import os
import signal
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from evolvent._core.errors import ConfigError
from evolvent.experiments import cluster
from evolvent.experiments.engine import Resources
from evolvent.experiments.grid import CellsFailedError, run_grid

from .test_workers import EXPLODES, Notes, assert_same_weights


@pytest.fixture(scope="module")
def ray():
    """A Ray of two CPUs on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def is_ours(process: int) -> bool:
    """Whether a process descends from this one; others on the machine may use Ray as well."""
    while process > 1:
        if process == os.getpid():
            return True
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return False


class RayKiller(Notes):
    """Kills the processes that train, once, when a cell is some steps into its training."""

    interval, hit = 0.02, False

    def cell_progresses(self, cell, progress):
        super().cell_progresses(cell, progress)
        if progress.step > 6 and not self.hit:  # a checkpoint is written
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                process = int(path.parent.name)
                with suppress(OSError):  # processes end while one looks at them
                    if b"ray::_carry_out" in path.read_bytes() and is_ours(process):
                        os.kill(process, signal.SIGKILL)
                        self.hit = True


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="finds the processes to kill in /proc")
def test_the_weights_are_bitwise_those_of_one_process_although_workers_are_killed(ray, tiny, tmp_path):
    recipe = tiny(seeds=[0, 1], training={"epochs": 12, "checkpoint_steps": 5})  # long beside Ray's messages
    killer = RayKiller()
    run_grid(recipe, tmp_path / "turn")
    results = run_grid(recipe, tmp_path / "ray", ray="local", observer=killer)
    assert killer.hit
    assert any(resumed for _, resumed in killer.of("starts"))
    assert len(killer.of("measured")) == 1
    assert list(results) == ["hamiltonian-seed0", "hamiltonian-seed1"]
    assert_same_weights(tmp_path / "turn", tmp_path / "ray")
    assert ray.is_initialized()  # it was there before


@pytest.mark.slow
def test_undisturbed_the_weights_are_those_of_one_process_and_a_failure_stays_alone(ray, tiny, tmp_path):
    training = {"training": {"epochs": 1}}
    run_grid(tiny(seeds=[0, 1], variants={"good": {}}, **training), tmp_path / "turn")
    notes = Notes()
    with pytest.raises(CellsFailedError, match=r"^1 of 2 cells failed\. bad-seed0: .* --resume"):
        run_grid(
            tiny(variants={"good": {}, "bad": EXPLODES}, **training), tmp_path / "bad", ray="local", observer=notes
        )
    assert notes.of("ends") == [("good-seed0",)]
    run_grid(tiny(seeds=[0, 1], variants={"good": {}}, **training), tmp_path / "ray", ray="local", workers=2)
    assert_same_weights(tmp_path / "turn", tmp_path / "ray")


@pytest.mark.slow
def test_a_cell_that_fits_on_no_node_is_refused_before_anything_is_written(ray, tiny, tmp_path):
    with pytest.raises(ConfigError, match="no node of the Ray cluster has 64 CPUs"):
        run_grid(tiny(), tmp_path / "run", ray="local", resources=Resources(devices=64))
    with pytest.raises(ConfigError, match="Leave out --nodes"):
        run_grid(tiny(), tmp_path / "run", ray="local", resources=Resources(nodes=2))
    assert not (tmp_path / "run").exists()


def no_cluster(**options):
    raise ConnectionError("Could not find any running Ray instance. Set the `--address` flag.")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: .* Start one with: ray start --head"),
        ("ray://127.0.0.1:1", "no Ray cluster answers at ray://127.0.0.1:1: .* Start one with: ray start --head"),
        ("nowhere", "--ray takes local, auto, host:port or ray://host:port, got 'nowhere'"),
        ("auto", "no Ray cluster runs on this machine. Start one with: ray start --head, or give the address of one"),
    ],
)
def test_a_cluster_that_does_not_answer_is_told_in_one_line(tiny, tmp_path, monkeypatch, address, said):
    """Ray's part in it is to find nothing, for which it need not be imported."""
    ray = SimpleNamespace(is_initialized=lambda: False, init=no_cluster)
    monkeypatch.setattr(cluster, "_import_ray", lambda: ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=said) as caught:
        run_grid(tiny(), tmp_path / "run", ray=address)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_ray_the_extra_is_named(tiny, tmp_path, monkeypatch):
    real = builtins.__import__

    def without_ray(name, *args, **kwargs):
        if name == "ray":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(ConfigError, match=r"pip install 'evolvent\[cluster\]'"):
        run_grid(tiny(), tmp_path / "run", ray="local")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_ray_of_its_own_ends_with_the_run(tiny, tmp_path):
    ray = pytest.importorskip("ray")
    if ray.is_initialized():
        ray.shutdown()
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run", ray="local")
    assert not ray.is_initialized()
