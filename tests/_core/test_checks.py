import numpy as np
import pytest
import torch

from evolvent._core.checks import (
    check_choice,
    check_even,
    check_images,
    check_not_negative,
    check_path,
    check_positive,
    check_share,
    check_whole,
    described,
    told,
)
from evolvent.errors import ConfigError, ShapeError, UnknownNameError

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_positive, [1, 0.5], [0, -1.0, NAN, INF]),
        (check_not_negative, [0, 2.5], [-0.1, NAN, INF]),
        (check_whole, [1, 7], [0, 1.5, True, "3", None]),
        (check_even, [2, 4], [0, 3, -2]),
        (check_share, [0, 0.99], [1, -0.1, NAN]),
    ],
)
def test_numbers_are_named_with_what_was_given(check, good, bad):
    check(**{f"n{k}": number for k, number in enumerate(good)})
    for number in bad:
        with pytest.raises(ConfigError, match=rf"^width must be .*, got {number!r}\.$"):
            check(width=number)


def test_whole_numbers_have_a_least():
    check_whole(0, steps=0)
    with pytest.raises(ConfigError, match="at least 2, got 1"):
        check_whole(2, levels=1)


def test_choices_are_answered_with_the_nearest():
    assert check_choice("norm", "batch", ("batch", "group")) == "batch"
    with pytest.raises(UnknownNameError, match=r"unknown norm 'bach'\. Did you mean 'batch'\? Choose one of batch"):
        check_choice("norm", "bach", ("batch", "group"))


def test_images_are_checked_by_shape():
    check_images(torch.zeros(2, 3, 4, 5), "this", channels=3, size=(4, 5))
    for options in ({"channels": 1}, {"size": (4, 4)}):
        with pytest.raises(ShapeError, match=r"^this takes images .* got shape \(2, 3, 4, 5\)\. Resize\.$"):
            check_images(torch.zeros(2, 3, 4, 5), "this", **options, advice="Resize.")
    with pytest.raises(ShapeError, match=r"got shape \(3, 4, 5\)"):
        check_images(torch.zeros(3, 4, 5), "this")


@pytest.mark.parametrize("path", ["x" * 5000, 5, None])
def test_paths_that_no_system_can_look_for_are_refused(path):
    with pytest.raises(ConfigError) as error:
        check_path(path, "ev.load")
    assert len(str(error.value)) < 300
    assert check_path("nowhere", "ev.load").name == "nowhere"


def test_homes_are_found(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert check_path("~/model", "ev.load") == tmp_path / "model"


@pytest.mark.parametrize("value", [np.full(3, 0.123), [torch.full((3,), 0.123)], (np.full(3, 0.123), 5)])
def test_messages_do_not_print_numbers_of_arrays(value):
    for text in (told(value), described(value)):
        assert "of shape (3,)" in text
        assert "0.123" not in text
