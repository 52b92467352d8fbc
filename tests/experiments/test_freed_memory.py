"""Freed memory that is kept is not handed out anew."""

import os
import subprocess
import sys

import pytest

USES = """
import resource, sys
from evolvent.experiments.freed_memory import keep_freed_memory
if sys.argv[1] == "keep" and not keep_freed_memory():
    sys.exit(3)
def use():
    b"1" * (48 << 20)  # freed at once; glibc itself never keeps more than 32 MiB
use(), use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
MALLOC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def run(how: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in MALLOC}
    return subprocess.run([sys.executable, "-c", USES, how], capture_output=True, text=True, env=environment | more)


def test_pages_are_not_handed_out_anew():
    kept, plain = run("keep"), run("plain")
    if kept.returncode == 3:
        pytest.skip("the C library is not glibc")
    assert int(kept.stdout) < int(plain.stdout) / 3


@pytest.mark.parametrize("name", MALLOC)
def test_settings_of_the_user_are_left_alone(name):
    value = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    assert run("keep", **{name: value}).returncode == 3
