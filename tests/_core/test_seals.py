"""Checksums inside files notice every change, of their own name too."""

import pytest
import torch

from evolvent._core.seals import KEY, fits_seal, sealed, tensor_seal, unsealed
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
