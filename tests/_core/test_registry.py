import copy
import pickle

import pytest

from evolvent._core.errors import EvolventError, UnknownNameError, close_matches
from evolvent._core.registry import Registry


@pytest.fixture
def colours() -> Registry[int]:
    found = Registry[int]("colour", advice="`palette` lists all of them.")
    for number, name in enumerate(["red", "green", "blue", "dark-red"]):
        found.add(name, number)
    return found


def test_entries_are_found_by_name(colours):
    assert colours.get("green") == 1
    assert "green" in colours
    assert "grey" not in colours
    assert len(colours) == 4
    assert list(colours) == ["red", "green", "blue", "dark-red"]


def test_names_are_sorted_and_filtered_by_shell_pattern(colours):
    assert colours.names() == ["blue", "dark-red", "green", "red"]
    assert colours.names("*red") == ["dark-red", "red"]
    assert colours.names("x*") == []


def test_a_name_is_registered_once(colours):
    with pytest.raises(ValueError, match="'red' is registered twice"):
        colours.add("red", 7)
    assert colours.get("red") == 0


def test_wrong_name_is_answered_with_the_nearest(colours):
    with pytest.raises(UnknownNameError) as error:
        colours.get("Greem")
    assert str(error.value) == "unknown colour 'Greem'. Did you mean 'green'? `palette` lists all of them."


def test_name_far_from_all_gets_no_guess(colours):
    with pytest.raises(UnknownNameError) as error:
        colours.get("zzzzzz")
    assert "Did you mean" not in str(error.value)


def test_unknown_name_is_a_key_error_and_the_users(colours):
    for kind in (KeyError, EvolventError):
        with pytest.raises(kind):
            colours.get("")


@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))], ids=["copy", "pickle"])
def test_unknown_name_survives_a_process_boundary(again):
    error = UnknownNameError("network", "resnet4", ["resnet44"], "Look.")
    assert type(again(error)) is UnknownNameError
    assert str(again(error)) == str(error)


def test_close_matches_ignore_case_and_keep_the_known_spelling():
    assert close_matches("HAMILTONIAN", ["Hamiltonian74", "resnet"]) == ["Hamiltonian74"]
    assert close_matches("resnet", []) == []


def test_close_matches_are_few_and_best_first():
    known = ["resnet44", "resnet", "preresnet", "resnet32", "resnet56"]
    assert close_matches("resnet", known)[0] == "resnet"
    assert len(close_matches("resnet", known)) == 3
