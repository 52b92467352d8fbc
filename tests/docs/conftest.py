"""The pages a reader sees, and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from warm_interpreter import Program, WarmInterpreter

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(`{3,}|:{3,})\s*(\S*)")
_BUILT = {"_build", "gallery"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the number of its first line, its text."""

    language: str
    first_line: int
    text: str


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self, *languages: str) -> list[Block]:
        found, fence, begun = [], None, 0
        for number, line in enumerate(self.text.splitlines(), start=1):
            match = _FENCE.match(line)
            if fence is None and match:
                fence, begun = (match[1], match[2]), number
            elif fence is not None and line.strip() == fence[0]:
                lines = self.text.splitlines()[begun : number - 1]
                found.append(Block(fence[1], begun + 1, "\n".join(lines)))
                fence = None
        assert fence is None, f"{self.name}: the block in line {begun} does not end"
        return [block for block in found if block.language in languages]


def all_pages() -> list[Page]:
    paths = [*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if not _BUILT & set(p.parts))]
    return [Page(path) for path in sorted(paths)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``page`` is every page; ``code_page`` every page with Python; ``example`` every script."""
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", all_pages(), ids=lambda page: page.name)
    if "code_page" in metafunc.fixturenames:
        pages = [page for page in all_pages() if page.blocks("python")]
        metafunc.parametrize("code_page", pages, ids=lambda page: page.name)
    if "example" in metafunc.fixturenames:
        scripts = sorted((ROOT / "examples" / "gallery").glob("*.py"))
        metafunc.parametrize("example", scripts, ids=lambda path: path.stem)


@pytest.fixture
def run_script(tmp_path: Path, interpreter: WarmInterpreter) -> Callable[..., str]:
    """Run a script as a user would, in a folder of its own, on one thread, with warnings as errors; what it prints."""

    def run(script: Path, ignored: Sequence[str] = ()) -> str:
        folder = tmp_path / "here"
        folder.mkdir()
        done = interpreter.run(Program(str(script), str(folder), filters=[f"ignore:{message}" for message in ignored]))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
