import gzip

import numpy as np
import pytest
import torch

from evolvent.data import check
from evolvent.errors import DataError


def test_report_counts_and_measures(tmp_path, rng):
    images = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(20) % 10
    np.savez(tmp_path / "cifar10.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    report = check("cifar10", tmp_path)
    assert report.ok
    assert report.train is not None
    assert report.train.per_class[3] == ("cat", 2)
    scaled = torch.from_numpy(images).double() / 255
    assert report.train.mean == pytest.approx(scaled.mean((0, 1, 2)).tolist())
    assert report.train.std == pytest.approx(scaled.std((0, 1, 2), correction=0).tolist())
    assert (report.files[0].ok, report.files[0].published) == (True, None)
    assert len(report.files[0].sha256) == 64


def test_another_content_than_published_is_a_fault(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    report = check("mnist", tmp_path)
    assert not report.ok
    assert "is published, found" in report.fault
    assert report.files[0].published is False
    assert report.train is not None


def test_an_unreadable_set_is_reported_not_raised(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    path = tmp_path / f"{craft.IDX_STEMS[0]}.gz"
    path.write_bytes(gzip.compress(b"x" * 99)[:-9])
    report = check("mnist", tmp_path)
    assert report.train is None
    assert "train-images" in report.fault
    assert report.files[0].fault


def test_a_missing_set_is_raised(tmp_path):
    with pytest.raises(DataError, match="was not found"):
        check("svhn", tmp_path)


def test_folders_are_measured_whole(tmp_path):
    root = tmp_path / "tiny-imagenet-200"
    (root / "train" / "n1").mkdir(parents=True)
    (root / "train" / "n1" / "a").write_bytes(b"12345")
    (root / "val").mkdir()
    for name in ("wnids.txt", "words.txt", "val/val_annotations.txt"):
        (root / name).write_text("")
    report = check("tiny-imagenet", tmp_path)
    assert report.files[2].size == 5
    assert not report.ok
