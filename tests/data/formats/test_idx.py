"""IDX: what is read is what was written, and everything else is refused in one line."""

import gzip

import numpy as np
import pytest

from evolvent.data import load
from evolvent.data.formats.idx import read_idx
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
    with pytest.raises(DataError, match=r"asks for 10 bytes, found 7"):
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
