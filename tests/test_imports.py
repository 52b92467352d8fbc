"""The rooms of the package: who may import whom, and what an import costs."""

import ast
import json
import resource
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from warm_interpreter import Program

import evolvent

ROOT = Path(evolvent.__file__).parent
ROOMS = [
    "_core",
    "groups",
    "graphs",
    "operators",
    "dynamics",
    "integrators",
    "gradients",
    "evolution",
    "networks",
    "equations",
    "data",
    "tasks",
    "analysis",
    "estimators",
    "experiments",
    "report",
    "solving",
    "cli",
    "testing",
]
EXEMPT = ("__init__", "__main__", "errors")
SOURCES = sorted(path for path in ROOT.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = ["evolvent", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of everything a file imports, inside functions too; for ``from a import b`` it is ``a.b``."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                base = f"{above}.{base}" if base else above
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def room_of(name: str) -> str | None:
    """The room a full name lies in; the package's own lazy names lie where they are made."""
    parts = name.split(".")
    if parts[0] != "evolvent" or len(parts) < 2:
        return None
    if parts[1] in ROOMS or parts[1] in EXEMPT or parts[1].startswith("__"):
        return parts[1]
    return room_of(getattr(evolvent, parts[1]).__module__)


def upward(path: Path) -> list[str]:
    own = room_of(module_name(path))
    assert own in ROOMS, f"{path} is in no room of DESIGN.md"
    found = []
    for line, name in imports(path):
        room = room_of(name)
        whole_package = name == "evolvent"
        if whole_package or (room in ROOMS and ROOMS.index(room) > ROOMS.index(own)):
            found.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_up_the_list_only(path):
    if path.parent == ROOT and path.stem in EXEMPT:
        pytest.skip("the package's own face")
    assert upward(path) == []


def test_an_upward_import_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    path = tmp_path / "operators" / "bad.py"
    path.parent.mkdir()
    path.write_text(
        "from evolvent._core.state import State\n"
        "from evolvent import create_model\n"
        "from ..dynamics import Residual\n"
        "def f():\n    import evolvent.networks.resnet\n    import evolvent\n"
    )
    assert [fault.split(" imports ")[1] for fault in upward(path)] == [
        "evolvent.create_model",
        "evolvent.dynamics.Residual",
        "evolvent.networks.resnet",
        "evolvent",
    ]


def test_only_the_report_imports_matplotlib():
    guilty = {
        str(path.relative_to(ROOT))
        for path in SOURCES
        for _, name in imports(path)
        if name.split(".")[0] == "matplotlib" and room_of(module_name(path)) != "report"
    }
    assert guilty == set()


SHOW_LOADED = "\nimport json, sys\nprint(json.dumps([name.split('.')[0] for name in sys.modules]))"


def loaded_by(program: str) -> set[str]:
    command = [sys.executable, "-c", program + SHOW_LOADED]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def run_after_torch(warm_interpreter, tmp_path):
    """Run a program in a new process that has imported torch and nothing else; what it prints."""

    def run(program: str) -> str:
        script = tmp_path / "program.py"
        script.write_text(program)
        done = warm_interpreter("torch").run(Program(str(script), str(tmp_path), [str(ROOT.parent)]))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_networks_load_no_heavy_package(run_after_torch):
    heavy = {"lightning_fabric", "matplotlib", "sklearn", "scipy", "pandas", "torchdiffeq"}
    shown = run_after_torch("import evolvent; evolvent.create_model" + SHOW_LOADED)
    assert set(json.loads(shown)) & heavy == set()


def test_command_line_starts_without_torch():
    assert loaded_by("import evolvent.cli") & {"torch", "lightning_fabric", "matplotlib", "scipy", "sklearn"} == set()


def test_bare_import_loads_nothing_else():
    assert loaded_by("import evolvent") & {"torch", "numpy", "pydantic", "yaml"} == set()


@pytest.mark.parametrize("name", ["analysis", "data", "equations", "graphs", "groups", "networks", "operators"])
def test_rooms_are_attributes_without_an_import_of_their_own(name, run_after_torch):
    heavy = {"lightning_fabric", "matplotlib", "sklearn", "scipy", "pandas", "torchdiffeq"}
    shown = run_after_torch(f"import evolvent as ev; assert ev.{name}.__name__ == 'evolvent.{name}'" + SHOW_LOADED)
    assert set(json.loads(shown)) & heavy == set()


def test_import_costs_little_over_torch(run_after_torch):
    """CPU seconds, not wall-clock, and the least of three: the machine may be slow and busy."""
    program = """
import time
start = time.process_time()
import evolvent
evolvent.create_model
print(time.process_time() - start)
"""
    assert min(float(run_after_torch(program)) for _ in range(3)) <= 0.5


@pytest.mark.parametrize(
    ("name", "old", "needed"), [("lightning-fabric", "2.5.6", "2.6.0"), ("torch", "2.5.1", "2.6.0")]
)
def test_versions_that_are_too_old_are_not_allowed(name, old, needed):
    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]["dependencies"]
    [allowed] = [one.specifier for one in map(Requirement, declared) if one.name == name]
    assert (old in allowed, needed in allowed) == (False, True)


def help_seconds() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "evolvent.cli", "--help"], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_costs_little():
    assert min(help_seconds() for _ in range(3)) < 0.8
