"""SVHN, STL-10, Larochelle's text and tables: read back, and refused when they are something else."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat

from evolvent.data import load
from evolvent.data.formats.table import read_table
from evolvent.errors import DataError


def _write_svhn(folder, rng, **changes):
    folder.mkdir(parents=True, exist_ok=True)
    images = rng.integers(0, 256, (32, 32, 3, 11), dtype=np.uint8)
    labels = np.arange(11, dtype=np.uint8)[:, None] % 10 + 1
    savemat(folder / "train_32x32.mat", {"X": images, "y": labels} | changes)
    savemat(folder / "test_32x32.mat", {"X": images, "y": labels})
    return images


@pytest.mark.parametrize("place", ["svhn", "SVHN", "."])
def test_svhn_is_read_back(tmp_path, rng, place):
    images = _write_svhn(tmp_path / place, rng)
    data = load("svhn", tmp_path)
    np.testing.assert_array_equal(data.train.images[4, 1], images[:, :, 1, 4])
    assert data.train.labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]


@pytest.mark.parametrize(
    "changes",
    [{"X": np.zeros((2, 2, 3, 11))}, {"y": np.zeros((11, 1), np.uint8)}, {"y": np.ones((4, 1), np.uint8)}],
    ids=["images", "labels", "count"],
)
def test_wrong_svhn_is_refused(tmp_path, rng, craft, changes):
    _write_svhn(tmp_path, rng, **changes)
    with pytest.raises(DataError) as error:
        load("svhn", tmp_path)
    assert "evolvent data fetch svhn" in craft.one_line(error)


@pytest.mark.parametrize("kept", [0, 50, 127, 200, 1000, -9])
def test_truncated_svhn_is_refused(tmp_path, rng, craft, kept):
    _write_svhn(tmp_path, rng)
    path = tmp_path / "train_32x32.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"train_32x32\.mat") as error:
        load("svhn", tmp_path)
    craft.one_line(error)


def _write_stl10(folder, rng):
    folder.mkdir(parents=True, exist_ok=True)
    images = rng.integers(0, 256, (10, 3, 96, 96), dtype=np.uint8)
    for part in ("train", "test"):
        images.swapaxes(2, 3).tofile(folder / f"{part}_X.bin")
        np.arange(1, 11, dtype=np.uint8).tofile(folder / f"{part}_y.bin")
    return images


@pytest.mark.parametrize("place", ["stl10_binary", "stl10/stl10_binary", "."])
def test_stl10_is_read_back(tmp_path, rng, place):
    images = _write_stl10(tmp_path / place, rng)
    data = load("stl10", tmp_path)
    np.testing.assert_array_equal(data.test.images, images)
    assert data.test.labels.tolist() == list(range(10))


@pytest.mark.parametrize(
    ("file", "content"), [("train_X.bin", b"x" * 100), ("train_X.bin", b""), ("test_y.bin", b"\0")]
)
def test_wrong_stl10_is_refused(tmp_path, rng, craft, file, content):
    _write_stl10(tmp_path, rng)
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=file.replace(".", r"\.")) as error:
        load("stl10", tmp_path)
    craft.one_line(error)


def _write_amat(folder, rows):
    for part in ("train_valid", "test"):
        np.savetxt(folder / f"mnist_all_rotation_normalized_float_{part}.amat", rows)


def test_amat_is_read_back(tmp_path, rng):
    pixels = rng.integers(0, 256, (5, 784))
    _write_amat(tmp_path, np.column_stack([pixels / 255, np.arange(5)]))
    data = load("mnist-rot", tmp_path)
    np.testing.assert_array_equal(data.train.images.reshape(5, 784), pixels)
    assert data.test.labels.tolist() == [0, 1, 2, 3, 4]
    assert "original of Larochelle" in data.source


@pytest.mark.parametrize("rows", [np.zeros((3, 10)), np.full((3, 785), 2.0), np.full((3, 785), 0.5)])
def test_wrong_amat_is_refused(tmp_path, craft, rows):
    _write_amat(tmp_path, rows)
    with pytest.raises(DataError, match=r"train_valid\.amat") as error:
        load("mnist-rot", tmp_path)
    craft.one_line(error)


@pytest.mark.parametrize("text", ["1,2,3\n", "0,0,0,17,1\n" * 9, "0,0,0,1,1\n", "a,b\n", "0,0,0,0,1\n0,0\n"])
def test_wrong_tables_are_refused(tmp_path, craft, text):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=r"table\.csv\.gz") as error:
        read_table(path, top=16, test_count=4)
    craft.one_line(error)
