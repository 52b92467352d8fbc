"""Files of features: what is written is read, and what does not fit is refused in one line."""

import numpy as np
import pytest
import torch

from evolvent.data import FeatureSet, read_features, write_features
from evolvent.errors import ConfigError, DataError

GOOD = {"features": np.zeros((6, 4), np.float32), "labels": np.array([3, 3, 9, 9, 4, 4])}


def test_what_is_written_is_read(tmp_path):
    given = FeatureSet(torch.randn(6, 4), torch.tensor([1, 0, 1, 2, 0, 2]), torch.randn(4))
    write_features(tmp_path / "a.npz", given)
    found = read_features(tmp_path / "a.npz")
    assert torch.equal(found.features, given.features)
    assert torch.equal(found.labels, given.labels)
    assert given.base_mean is not None
    assert found.base_mean is not None
    assert torch.equal(found.base_mean, given.base_mean)


def test_labels_are_numbered_in_ascending_order(tmp_path):
    np.savez(tmp_path / "a.npz", **GOOD)
    found = read_features(tmp_path / "a.npz")
    assert found.labels.tolist() == [0, 0, 2, 2, 1, 1]
    assert found.sizes.tolist() == [2, 2, 2]
    assert found.base_mean is None


def test_half_precision_becomes_single(tmp_path):
    np.savez(tmp_path / "a.npz", **GOOD | {"features": np.ones((6, 4), np.float16)})
    assert read_features(tmp_path / "a.npz").features.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"features": np.zeros((6, 4, 2), np.float32)}, r"\(N, d\)"),
        ({"features": np.zeros((6, 0), np.float32)}, r"\(N, d\)"),
        ({"features": np.zeros((6, 4), np.int64)}, "floating-point"),
        ({"features": np.full((6, 4), np.nan)}, "NaN"),
        ({"features": np.array([["a"]])}, "must be numbers"),
        ({"labels": np.zeros(6)}, "integers"),
        ({"labels": np.zeros((6, 1), np.int64)}, "integers"),
        ({"labels": np.ones(6, bool)}, "integers"),
        ({"labels": np.zeros(5, np.int64)}, "6 vectors and 5 labels"),
        ({"base_mean": np.zeros(3)}, r"shape \(4,\)"),
        ({"base_mean": np.full(4, np.inf)}, "base_mean are NaN"),
        ({"labels": np.array([print] * 6, dtype=object)}, "pickled objects are not read"),
    ],
)
def test_wrong_fields_are_refused(tmp_path, changes, complaint):
    np.savez(tmp_path / "a.npz", **GOOD | changes)
    with pytest.raises(DataError, match=complaint) as error:
        read_features(tmp_path / "a.npz")
    assert "a.npz" in str(error.value)
    assert len(str(error.value)) < 300 + len(str(tmp_path))


def test_missing_fields_and_files_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="read_features takes the path of a file, got None"):
        read_features(None)
    np.savez(tmp_path / "a.npz", features=GOOD["features"])
    with pytest.raises(DataError, match="no field 'labels'"):
        read_features(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(b"text")
    with pytest.raises(DataError, match="not an npz archive"):
        read_features(tmp_path / "b.npz")
    with pytest.raises(DataError, match="evolvent features"):
        read_features(tmp_path / "c.npz")
