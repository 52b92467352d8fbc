"""Numpy archives are recognised by their fields and never unpickled."""

import numpy as np
import pytest

from evolvent.data import describe, load
from evolvent.errors import DataError


def _fields(rng, shape=(32, 32, 3), **changes):
    x_train, x_test = (rng.integers(0, 256, (count, *shape), dtype=np.uint8) for count in (20, 10))
    y_train, y_test = (np.arange(count, dtype=np.uint8) % 10 for count in (20, 10))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test} | changes


def test_channels_last_is_turned(tmp_path, rng):
    fields = _fields(rng)
    np.savez_compressed(tmp_path / "cifar10_small.npz", **fields)
    data = load("cifar10", tmp_path)
    np.testing.assert_array_equal(data.train.images.permute(0, 2, 3, 1), fields["x_train"])
    assert data.source.startswith("cifar10_small.npz")
    assert "a subset of 50,000 / 10,000" in data.source


def test_channels_first_and_column_labels_are_taken(tmp_path, rng):
    fields = _fields(rng, (3, 32, 32))
    fields["y_train"] = fields["y_train"][:, None].astype(np.int32)
    np.savez(tmp_path / "cifar10.npz", **fields)
    data = load("cifar10", tmp_path)
    np.testing.assert_array_equal(data.train.images, fields["x_train"])
    assert data.train.labels.tolist() == [*range(10), *range(10)]


def test_rebuilt_sets_are_called_so(tmp_path, rng):
    np.savez(tmp_path / "mnist_rot_mine.npz", angle=np.zeros(30), **_fields(rng, (28, 28)))
    assert "rebuilt from MNIST" in load("mnist-rot", tmp_path).source
    assert "rebuilt draw" in describe("mnist-rot").title


def test_other_archives_are_passed_by(tmp_path, rng):
    np.savez(tmp_path / "cifar10_a.npz", weights=np.zeros(3))
    np.savez(tmp_path / "cifar10_b.npz", **_fields(rng))
    np.savez(tmp_path / "cifar100.npz", weights=np.zeros(3))
    assert load("cifar10", tmp_path).source.startswith("cifar10_b.npz")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"x_train": np.zeros((20, 32, 32, 3))}, "must be uint8"),
        ({"x_train": np.zeros((20, 16, 16, 3), np.uint8)}, r"found \(3, 16, 16\)"),
        ({"x_train": np.zeros((0, 32, 32, 3), np.uint8), "y_train": np.zeros(0, np.uint8)}, "there are no images"),
        ({"y_train": np.zeros(20)}, "one integer per image"),
        ({"y_train": np.zeros((20, 10), np.uint8)}, "one integer per image"),
        ({"y_train": np.full(20, -1)}, "found -1"),
        ({"y_test": np.zeros(7, np.uint8)}, "10 images but 7 labels"),
        ({"x_train": np.array([len], dtype=object)}, "damaged or unreadable"),
    ],
)
def test_wrong_fields_are_refused(tmp_path, rng, craft, changes, complaint):
    np.savez(tmp_path / "cifar10.npz", **_fields(rng, **changes))
    with pytest.raises(DataError, match=complaint) as error:
        load("cifar10", tmp_path)
    craft.one_line(error)


@pytest.mark.parametrize("kept", [0, 5, 500, 30000, -30])
def test_truncated_archives_are_refused(tmp_path, rng, craft, kept):
    path = tmp_path / "cifar10.npz"
    np.savez(path, **_fields(rng))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"cifar10\.npz") as error:
        load("cifar10", tmp_path)
    craft.one_line(error)


def test_a_flipped_byte_is_noticed(tmp_path, rng, craft):
    path = tmp_path / "cifar10.npz"
    np.savez(path, **_fields(rng))
    content = bytearray(path.read_bytes())
    content[20000] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="damaged or unreadable") as error:
        load("cifar10", tmp_path)
    craft.one_line(error)


def _drawings(rng, **changes):
    labels = np.repeat(np.arange(242, dtype=np.int16), 20)
    x = rng.integers(0, 256, (4840, 28, 28), dtype=np.uint8)
    return {"x": x, "y": labels, "alphabet": labels // 40} | changes


def test_drawings_of_the_last_drawers_are_test_images(tmp_path, rng):
    fields = _drawings(rng)
    np.savez(tmp_path / "omniglot_small.npz", **fields)
    data = load("omniglot", tmp_path)
    assert (len(data.train), len(data.test), data.train.shape) == (3630, 1210, (1, 28, 28))
    assert set(data.train.class_counts()) == {15}
    assert set(data.test.class_counts()) == {5}
    np.testing.assert_array_equal(data.train.images[:15, 0], fields["x"][:15])
    np.testing.assert_array_equal(data.test.images[:5, 0], fields["x"][15:20])


def test_drawings_without_labels_are_refused(tmp_path, rng):
    np.savez(tmp_path / "omniglot.npz", **_drawings(rng, y=np.arange(7)))
    with pytest.raises(DataError, match="4,840 drawings but 7 labels"):
        load("omniglot", tmp_path)
