"""The real sets, where EVOLVENT_DATA leads to them."""

import pytest
import torch

from evolvent.data import check, load
from evolvent.errors import DataError


def _load(name, folder):
    try:
        return load(name, folder)
    except DataError as error:
        pytest.skip(str(error))


def test_mnist(data_folder):
    data = _load("mnist", data_folder)
    assert data.train.class_counts() == (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    report = check("mnist", data_folder)
    assert report.ok
    assert [file.published for file in report.files] == [True] * 4
    assert report.train is not None
    assert report.train.mean[0] == pytest.approx(0.1307, abs=1e-4)
    assert report.train.std[0] == pytest.approx(0.3081, abs=1e-4)


def test_cifar10(data_folder):
    data = _load("cifar10", data_folder)
    assert len(set(data.train.class_counts())) == 1
    assert data.train.labels[:5].tolist() == [6, 9, 9, 4, 1]
    mean = data.train.images.double().mean((0, 2, 3)) / 255
    torch.testing.assert_close(mean, torch.tensor([0.4914, 0.4822, 0.4465], dtype=torch.float64), rtol=0, atol=0.01)


def test_mnist_rot(data_folder):
    data = _load("mnist-rot", data_folder)
    assert (len(data.train), len(data.test)) == (12000, 50000)
    report = check("mnist-rot", data_folder)
    assert report.ok
    assert report.train is not None
    assert 0.12 < report.train.mean[0] < 0.14  # rotation keeps the ink
    if "rebuilt" in data.source:
        assert data.train.class_counts() == (1213, 1368, 1182, 1238, 1194, 1056, 1181, 1238, 1132, 1198)
        assert data.test.class_counts() == (4903, 5586, 5027, 5130, 4857, 4530, 4927, 5180, 4910, 4950)


@pytest.mark.slow
def test_tiny_imagenet(data_folder):
    data = _load("tiny-imagenet", data_folder)
    assert len(set(data.train.class_counts())) == 1
    assert len(data.classes) == 200


def test_camvid(data_folder):
    data = _load("camvid", data_folder)
    assert data.val is not None
    assert [len(part) for part in (data.train, data.val, data.test)] == [367, 101, 233]
    assert (data.train.shape, data.train.ignore) == ((3, 120, 160), 11)
    shares = torch.tensor(data.train.class_counts()) / data.train.labels.numel()
    torch.testing.assert_close(shares[[0, 3, 10]], torch.tensor([0.171, 0.317, 0.003]), rtol=0, atol=6e-4)
    report = check("camvid", data_folder)
    assert report.ok
    assert report.val is not None
    assert report.val.counted == "pixels"


def test_omniglot(data_folder):
    data = _load("omniglot", data_folder)
    assert (len(data.train), len(data.test)) == (3630, 1210)
    assert len(data.classes) == 242
    assert check("omniglot", data_folder).ok
