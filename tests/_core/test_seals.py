"""Checksums inside files notice every change, of their own name too."""

import pytest
import torch

from evolvent._core.seals import KEY, fits_seal, read_sealed, sealed, tensor_seal, unsealed, why_unfit, write_sealed
from evolvent.errors import ConfigError

VALUES = {"silhouette": 0.25, "fingerprint": "0" * 64}


def test_what_was_sealed_is_read():
    assert unsealed(sealed(VALUES), "file") == VALUES


def test_files_without_a_checksum_are_read():
    assert unsealed(VALUES, "file") == VALUES
    assert unsealed({}, "file") == {}


@pytest.mark.parametrize("name", ["sha257", "rha256", ""])
def test_a_checksum_under_a_damaged_name_is_noticed(name):
    with pytest.raises(ConfigError, match="file is damaged"):
        unsealed({name if key == KEY else key: value for key, value in sealed(VALUES).items()}, "file")


def test_a_changed_value_is_noticed():
    with pytest.raises(ConfigError, match="file is damaged"):
        unsealed({**sealed(VALUES), "silhouette": 0.5}, "file")


def test_tensors_fit_their_own_checksum_alone():
    tensors = {"weight": torch.ones(2)}
    assert fits_seal(tensors, tensor_seal(tensors))
    assert fits_seal(tensors, {"format": "pt"})
    assert not fits_seal({"weight": torch.zeros(2)}, tensor_seal(tensors))
    assert not fits_seal(tensors, {"sha257": next(iter(tensor_seal(tensors).values()))})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "{path} has no size: there is no such file. Train again."),
        ("{}", "{path} has no size: it has no key 'size'. Train again."),
        ('{"size": "x"}', "{path} has no size: could not convert string to float: 'x'. Train again."),
        ("[]", "{path} is not a mapping of keys to values. Put back a copy of it. Or train again."),
    ],
)
def test_why_a_file_does_not_serve_is_said_with_its_path_once(tmp_path, text, message):
    path = tmp_path / "kept.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises((OSError, KeyError, ValueError)) as error:
        float(read_sealed(path)["size"])
    assert why_unfit(path, error.value, "has no size", "train again") == message.format(path=path)


def test_the_advice_on_a_checksum_is_kept_whole(tmp_path):
    path = tmp_path / "kept.json"
    write_sealed(path, VALUES)
    path.write_text(path.read_text().replace("0.25", "0.5"))
    with pytest.raises(ConfigError) as error:
        read_sealed(path)
    said = why_unfit(path, error.value, "has no size", "train again")
    assert said.count(str(path)) == 1
    assert said.endswith("If you changed it, delete its line 'sha256' as well. Or train again.")
