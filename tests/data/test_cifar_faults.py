"""CIFAR files whose keys or lengths are not those of a CIFAR file."""

import pickle

import numpy as np
import pytest

from evolvent._core.errors import DataError
from evolvent.data.formats.cifar import read_cifar100

IMAGES = np.zeros((3, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({b"data": IMAGES, b"fine_labels": [0, 1]}, "found 3 images and 2 labels"),
        ({b"data": IMAGES[:0], b"fine_labels": []}, "found 0 images and 0 labels"),
        ({b"data": IMAGES, b"fine_labels": [0, 1, 2], 7: 1}, "keys must be different texts"),
        ({b"data": IMAGES, b"fine_labels": [0, 1, 2], None: 1}, "keys must be different texts"),
        ({b"data": IMAGES, "data": IMAGES, b"fine_labels": [0, 1, 2]}, "keys must be different texts"),
        ({"data": IMAGES, "fine_labels": [0, 1, 2], "\udc80": 1, "?": 2}, "keys must be different texts"),
    ],
)
def test_odd_keys_and_unequal_lengths_are_refused(tmp_path, content, said):
    path = tmp_path / "train"
    path.write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=said) as caught:
        read_cifar100([path, path])
    assert str(path) in str(caught.value)
