"""IDX, SVHN and STL-10: what is read is what was written, and everything else is refused in one line."""

import gzip

import numpy as np
import pytest
from scipy.io import savemat

from evolvent.data import load
from evolvent.data.formats.binary import read_idx
from evolvent.errors import DataError


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("place", ["MNIST/raw", "mnist", "."])
def test_a_set_is_read_back(tmp_path, rng, craft, zipped, place):
    x_train, y_train, x_test, y_test = craft.idx_set(tmp_path / place, rng, zipped)
    data = load("mnist", tmp_path)
    np.testing.assert_array_equal(data.train.images[:, 0], x_train)
    np.testing.assert_array_equal(data.train.labels, y_train)
    np.testing.assert_array_equal(data.test.images[:, 0], x_test)
    np.testing.assert_array_equal(data.test.labels, y_test)
    assert "20 / 10 images (a subset of 60,000 / 10,000)" in data.source


def _damage(content: bytes, kind: str) -> bytes:
    return {
        "empty": b"",
        "wrong magic": b"\x00\x00\x0d\x03" + content[4:],
        "labels for images": b"\x00\x00\x08\x01" + content[4:],
        "cut in the header": content[:10],
        "cut in the content": content[:-7],
        "too long": content + b"x",
        "dimensions beyond all memory": content[:4] + b"\xff" * 12 + content[16:],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "wrong magic",
        "labels for images",
        "cut in the header",
        "cut in the content",
        "too long",
        "dimensions beyond all memory",
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_damaged_file_is_refused(tmp_path, rng, craft, kind, zipped):
    craft.idx_set(tmp_path, rng, zipped)
    path = tmp_path / (craft.IDX_STEMS[0] + (".gz" if zipped else ""))
    content = _damage(craft.idx_bytes(np.zeros((20, 28, 28), np.uint8)), kind)
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(DataError, match="train-images") as error:
        load("mnist", tmp_path)
    assert "evolvent data fetch mnist" in craft.one_line(error)


@pytest.mark.parametrize("kept", [0, 1, 9, 200, -4])
def test_a_truncated_gzip_is_refused(tmp_path, rng, craft, kept):
    craft.idx_set(tmp_path, rng)
    path = tmp_path / f"{craft.IDX_STEMS[2]}.gz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="t10k-images") as error:
        load("mnist", tmp_path)
    craft.one_line(error)


def test_size_is_said(tmp_path, craft):
    path = tmp_path / "labels"
    path.write_bytes(craft.idx_bytes(np.zeros(10, np.uint8))[:-3])
    with pytest.raises(DataError, match=r"requires 10 bytes, found 7"):
        read_idx(path, 1)


def test_label_out_of_range(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    path = tmp_path / f"{craft.IDX_STEMS[1]}.gz"
    path.write_bytes(gzip.compress(craft.idx_bytes(np.full(20, 10, np.uint8))))
    with pytest.raises(DataError, match=r"labels 0 \.\.\. 9 are expected, found 10"):
        load("mnist", tmp_path)


def test_count_mismatch(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    path = tmp_path / f"{craft.IDX_STEMS[1]}.gz"
    path.write_bytes(gzip.compress(craft.idx_bytes(np.zeros(19, np.uint8))))
    with pytest.raises(DataError, match="20 images but 19 labels"):
        load("mnist", tmp_path)


def test_wrong_image_size(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    path = tmp_path / f"{craft.IDX_STEMS[0]}.gz"
    path.write_bytes(gzip.compress(craft.idx_bytes(np.zeros((20, 27, 28), np.uint8))))
    with pytest.raises(DataError, match=r"\(1, 28, 28\) are expected, found \(1, 27, 28\)"):
        load("mnist", tmp_path)


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
