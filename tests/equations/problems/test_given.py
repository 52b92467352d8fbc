"""Problems that are given as objects, references that are stored, and references that take too long."""

import pytest
import torch

from evolvent.equations.problems import (
    Invariant,
    Problem,
    create_problem,
    given,
    with_stored_reference,
)
from evolvent.equations.problems.stored import stored_path
from evolvent.equations.references import PeriodicSolution, ReferenceTimeError, within
from evolvent.errors import UnknownNameError


def test_a_given_problem_answers_to_its_name():
    mine = Problem(name="mine", domain={"x": (0.0, 1.0)}, equation=lambda u: u["xx"])
    with given(mine):
        assert create_problem("mine") is mine
        other = Problem(name="mine", domain={"x": (0.0, 2.0)}, equation=lambda u: u["xx"])
        with given(other), given(mine, {"size": 2}):
            assert create_problem("mine") is other
            assert create_problem("mine", size=2) is mine
        assert create_problem("mine") is mine
        assert with_stored_reference(mine, {}) is mine
    with pytest.raises(UnknownNameError):
        create_problem("mine")


def test_references_are_stored_and_read(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path))
    options = {"until": 0.01}
    first = with_stored_reference(create_problem("kdv", **options), options)
    points = first.grid(16, 3)
    values = first.solution(points)
    path = stored_path("kdv", options)
    assert path.is_file()
    again = with_stored_reference(create_problem("kdv", **options), options)
    assert isinstance(again.solution, PeriodicSolution)
    assert torch.equal(again.solution(points), values)
    assert stored_path("kdv", {"until": 0.02}) != path
    path.write_bytes(b"damaged")
    mended = with_stored_reference(create_problem("kdv", **options), options)
    assert torch.equal(mended.solution(points), values)
    closed = with_stored_reference(create_problem("heat"), {})
    assert closed.solution(points[:2]).shape == (2, 1)
    assert not stored_path("heat", {}).exists()


def test_a_reference_is_given_up_when_its_time_is_over():
    with pytest.raises(ReferenceTimeError), within(0.0):
        assert create_problem("kdv", until=0.01).solution
    assert create_problem("kdv", until=0.01).solution is not None


def test_easier_coefficients_must_be_there():
    assert create_problem("allen-cahn").easier == {"reaction": 1.0}
    assert create_problem("allen-cahn", reaction=0.5).easier == {"reaction": 0.5}
    with pytest.raises(UnknownNameError, match="speed"):
        Problem(name="p", domain={"x": (0.0, 1.0)}, equation=lambda u: u["x"], easier={"speed": 1.0})
    assert Invariant(lambda u: u.value).kind == "conserved"
