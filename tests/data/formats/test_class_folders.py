"""Photographs with a folder for each class, which stay in their files until a batch asks for them."""

import numpy as np
import pytest
import torch
from PIL import Image

from evolvent.data import Batches, ImageFiles, ImageSource, check, load, mean_image, reduced, split
from evolvent.data.formats.image_folders import read_class_folders
from evolvent.data.picture_readers import CentredSquare
from evolvent.errors import DataError

SIZES = {"train": ((40, 30), (31, 57), (64, 64)), "val": ((50, 20),)}  # width, height


@pytest.fixture
def folder(tmp_path, rng):
    """Three training images and one test image of each of two classes, JPEG and PNG, coloured and grey."""
    for part, sizes in SIZES.items():
        for name in ("zebra", "ant"):
            (tmp_path / part / name).mkdir(parents=True)
            for number, (width, height) in enumerate(sizes):
                pixels = rng.integers(0, 256, (height, width) if number == 1 else (height, width, 3), dtype=np.uint8)
                suffix = "png" if number == 2 else "JPEG"
                Image.fromarray(pixels).save(tmp_path / part / name / f"{number}.{suffix}")
            (tmp_path / part / name / "notes.txt").write_text("not an image")
    return tmp_path


@pytest.fixture
def hundred(tmp_path):
    """The set imagenet100 with one grey image in each folder."""
    for part in ("train", "val"):
        for number in range(100):
            (tmp_path / "imagenet100" / part / f"n{number:03d}").mkdir(parents=True)
            image = Image.new("RGB", (16, 20), (2 * number, 7, 9))
            image.save(tmp_path / "imagenet100" / part / f"n{number:03d}" / "1.png")
    return tmp_path


def test_folders_are_classes_in_the_order_of_their_names(folder):
    arrays = read_class_folders((folder / "train", folder / "val"), side=8)
    assert arrays.classes == ("ant", "zebra")
    assert arrays.x_train.shape == (6, 3, 8, 8)
    assert arrays.y_train.tolist() == [0, 0, 0, 1, 1, 1]
    assert arrays.y_test.tolist() == [0, 1]
    assert arrays.x_test[:].shape == (2, 3, 8, 8)


def test_the_middle_of_an_image_is_cut_out(tmp_path):
    pixels = np.zeros((32, 64, 3), np.uint8)
    pixels[2:30, 18:46] = 200  # the centred square without its margin of 2 pixels
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    image = ImageFiles(tmp_path, ["wide.png"], CentredSquare(28))[0]
    assert image.eq(200).all()


def test_rows_are_decoded_alike_whatever_the_batch(folder):
    files = read_class_folders((folder / "train", folder / "val"), side=16).x_train
    every = torch.cat(list(files.split(4)))
    assert every.dtype == torch.uint8
    for rows in (torch.tensor([5, 0, 3]), torch.tensor([], dtype=torch.int64)):
        assert torch.equal(files[rows], every[rows])
        assert torch.equal(files.index_select(0, rows), every[rows])
        assert torch.equal(files.subset(rows)[:], every[rows])
    assert torch.equal(files[2], every[2])
    assert torch.equal(files[4:], every[4:])


def test_the_set_is_found_and_served(hundred):
    data = load("imagenet100", hundred)
    assert data.train.shape == (3, 224, 224)
    assert "100 / 100 images (a subset of 129,395 / 5,000)" in data.source
    small = reduced(data, 28)
    batch = next(Batches(ImageSource(small.train), 7, seed=3).epoch(0))
    assert batch.images.shape == (7, 3, 8, 8)
    assert torch.equal(batch.images[:, 0, 0, 0].long(), 2 * batch.labels)
    mean = mean_image(small.train.images)
    torch.testing.assert_close(mean, torch.tensor([99.0, 7, 9])[:, None, None] / 255)
    held, rest = split(small.train, 0.1, seed=0)
    assert (len(held), len(rest)) == (10, 90)
    with pytest.raises(DataError, match="read file by file"):
        _ = held.tensor


def test_the_set_is_checked_file_by_file(hundred):
    report = check("imagenet100", hundred)
    assert report.ok
    assert report.train.mean == pytest.approx((99 / 255, 7 / 255, 9 / 255))


def test_classes_must_be_the_same_in_both_parts(folder):
    (folder / "val" / "zebra").rename(folder / "val" / "yak")
    with pytest.raises(DataError, match="2 are in one of them alone, such as 'yak'"):
        read_class_folders((folder / "train", folder / "val"), side=8)


def test_too_few_classes_are_refused(folder):
    with pytest.raises(DataError, match="1000 classes are expected, found 2"):
        load("imagenet", folder)


@pytest.mark.parametrize("content", [b"", b"\xff\xd8\xff\xe0 truncated", b"GIF89a"])
def test_a_damaged_file_is_named(folder, content):
    (folder / "train" / "ant" / "0.JPEG").write_bytes(content)
    files = read_class_folders((folder / "train", folder / "val"), side=8).x_train
    with pytest.raises(DataError, match=r"ant/0\.JPEG.* is damaged or unreadable"):
        files[:2]
