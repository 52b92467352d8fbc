from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolvent._core.slugs import slug

AWKWARD = [
    "", ".", "..", "../../etc", "/etc/passwd", "C:\\Windows", "\\\\server\\share", "a/b", "a\\b", "a:b", "con", "NUL",
    "com1.txt", "aux.tar.gz", "lpt9", "trailing.", "trailing ", " leading", "-rf", ".hidden", "_private", "a\0b",
    "a\nb", "x" * 300, "x" * 301, "ResNet", "RESNET", "resnet", "größe", "gro\u0308ße", "🙂", "🙃", "\ud800", "a*b?",
    "a-b",
    "etc-passwd-7fef78", "resnet-c7e2cc", "ResNet-c7e2cc",
]  # fmt: skip
DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}
names = st.text(max_size=90) | st.sampled_from(AWKWARD) | st.text("aAbB/\\.-_ :0c", max_size=8)


SAFE = ["resnet44", "hamiltonian_h=0.1", "a+b", "v1.2-cpu", "lr=1e-3,wd=0", "x" * 64, "c", "console"]


@pytest.mark.parametrize("name", SAFE)
def test_safe_names_stay(name):
    assert slug(name) == name


@given(names)
def test_a_slug_is_one_valid_component_on_every_system(name):
    found = slug(name)
    assert 0 < len(found) <= 64
    assert found.isascii()
    assert not set(found) & set('/\\:*?"<>|\0 ')
    assert found[0].isalnum()
    assert found[-1] != "."
    assert PurePosixPath(found).parts == (found,)
    assert PureWindowsPath(found).parts == (found,)
    assert found.split(".")[0].lower() not in DEVICES


@given(names)
def test_a_slug_never_leaves_its_folder(name):
    folder = Path("/runs").resolve()
    assert (folder / slug(name)).resolve().parent == folder


@given(names, names)
def test_distinct_names_have_distinct_slugs_whatever_the_case(one, other):
    assert (slug(one).lower() == slug(other).lower()) == (one == other)


@given(names)
def test_a_name_that_looks_like_the_slug_of_another_gets_its_own(name):
    if slug(name) != name:
        assert slug(slug(name)).lower() != slug(name).lower()


def test_awkward_names_are_all_distinct():
    assert len({slug(name).lower() for name in AWKWARD}) == len(AWKWARD)


def test_slugs_are_readable():
    assert slug("Hamiltonian, h = 0.1").startswith("Hamiltonian,-h-=-0.1-")
    assert slug("größe").startswith("groe-")
