"""CIFAR pickles: Python 2's bytes are read, and no foreign name is ever looked up."""

import pickle

import numpy as np
import pytest

from evolvent.data import load
from evolvent.data.formats.cifar import unpickle
from evolvent.errors import DataError

BATCHES = [f"data_batch_{number}" for number in range(1, 6)]


def _write_cifar10(folder, rng, craft):
    return [craft.cifar_batch(folder / name, rng, 4, b"labels") for name in [*BATCHES, "test_batch"]]


@pytest.mark.parametrize("place", ["cifar-10-batches-py", "cifar10/cifar-10-batches-py", "."])
def test_cifar10_is_read_back(tmp_path, rng, craft, place):
    parts = _write_cifar10(tmp_path / place, rng, craft)
    data = load("cifar10", tmp_path)
    expected = np.concatenate([x for x, _ in parts[:5]]).reshape(20, 3, 32, 32)
    np.testing.assert_array_equal(data.train.images, expected)
    assert data.train.labels.tolist() == [label for _, y in parts[:5] for label in y]
    np.testing.assert_array_equal(data.test.images, parts[5][0].reshape(4, 3, 32, 32))
    assert data.classes[6] == "frog"


@pytest.mark.parametrize("place", ["cifar-100-python", "."])
def test_cifar100_is_read_back(tmp_path, rng, craft, place):
    _, labels = craft.cifar_batch(tmp_path / place / "train", rng, 6, b"fine_labels", 100)
    craft.cifar_batch(tmp_path / place / "test", rng, 3, b"fine_labels", 100)
    data = load("cifar100", tmp_path)
    assert data.train.labels.tolist() == labels
    assert len(data.classes) == 100
    assert (data.classes[0], data.classes[99]) == ("apple", "worm")


def test_a_pickle_of_today_is_read_too(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({"data": np.ones((2, 3072), np.uint8), "labels": [1, 2]}, protocol=3))
    assert unpickle(path)[b"labels"] == [1, 2]


def test_foreign_names_are_refused_unrun(tmp_path, rng, craft):
    _write_cifar10(tmp_path, rng, craft)
    (tmp_path / "data_batch_3").write_bytes(craft.malicious_pickle())
    with pytest.raises(DataError, match=r"data_batch_3 refers to (posix|nt)\.system") as error:
        load("cifar10", tmp_path)
    craft.one_line(error)


@pytest.mark.parametrize("name", [("builtins", "eval"), ("numpy", "load"), ("_codecs", "encode"), ("os", "system")])
def test_only_array_reconstruction_is_admitted(tmp_path, name):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02c%b\n%b\n." % (name[0].encode(), name[1].encode()))
    with pytest.raises(DataError, match=r"no CIFAR file needs"):
        unpickle(path)


def test_every_truncation_is_refused(tmp_path, rng, craft):
    path = tmp_path / "batch"
    craft.cifar_batch(path, rng, 2, b"labels")
    content = path.read_bytes()
    for kept in [0, 1, 2, 3, 10, 50, 100, 180, 1000, len(content) - 1]:
        path.write_bytes(content[:kept])
        with pytest.raises(DataError) as error:
            unpickle(path)
        craft.one_line(error)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([1, 2], "a dictionary is expected"),
        ({"labels": [0]}, "'data' must be uint8"),
        ({"data": np.zeros((1, 3072)), "labels": [0]}, "found float64"),
        ({"data": np.zeros((1, 100), np.uint8), "labels": [0]}, r"found uint8 \(1, 100\)"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, "list of integers"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "'labels' must be a list"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [0, 1]}, "every image has one label"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [11]}, "labels 0 ... 9 are expected"),
    ],
)
def test_wrong_content_is_refused(tmp_path, rng, craft, content, complaint):
    _write_cifar10(tmp_path, rng, craft)
    (tmp_path / "data_batch_1").write_bytes(pickle.dumps(content, protocol=3))
    with pytest.raises(DataError, match=complaint) as error:
        load("cifar10", tmp_path)
    craft.one_line(error)
