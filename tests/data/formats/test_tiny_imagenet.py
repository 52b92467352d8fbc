"""Tiny ImageNet, as a folder of JPEGs and as one archive of JPEG bytes."""

import io

import numpy as np
import pytest
from PIL import Image

from evolvent.data import load
from evolvent.errors import DataError

WNIDS = [f"n{number:08d}" for number in range(200)]


@pytest.fixture
def folder(tmp_path, rng, craft):
    """Two training images and one validation image per class; one image is grey, as some of the real ones are."""
    root = tmp_path / "tiny-imagenet-200"
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(reversed(WNIDS)))
    (root / "words.txt").write_text("\n".join(f"{wnid}\tthing {number}" for number, wnid in enumerate(WNIDS)))
    picture, grey = craft.jpeg(rng, 64), craft.jpeg(rng, 64, "L")
    for wnid in WNIDS:
        (root / "train" / wnid / "images").mkdir(parents=True)
        for number in range(2):
            (root / "train" / wnid / "images" / f"{wnid}_{number}.JPEG").write_bytes(grey if number else picture)
    lines = [f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t57" for number, wnid in enumerate(WNIDS)]
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines))
    for number in range(200):
        (root / "val" / "images" / f"val_{number}.JPEG").write_bytes(picture)
    return root


@pytest.mark.parametrize("inside", [True, False])
def test_the_folder_is_read(folder, inside):
    data = load("tiny-imagenet", folder if inside else folder.parent)
    assert data.train.images.shape == (400, 3, 64, 64)
    assert data.train.labels.tolist() == [label for label in range(200) for _ in range(2)]
    assert data.test.labels.tolist() == list(range(200))
    assert data.classes[7] == "thing 7"
    picture = np.asarray(Image.open(io.BytesIO(next(folder.rglob("*_0.JPEG")).read_bytes())))
    np.testing.assert_array_equal(data.train.images[0].permute(1, 2, 0), picture)


def _empty_class(root):
    for path in (root / "train" / WNIDS[3] / "images").iterdir():
        path.unlink()


def _unknown_annotation(root):
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99999999\t0\t0\t1\t1")


def _missing_image(root):
    (root / "val" / "images" / "val_5.JPEG").unlink()


def _cut_image(root):
    path = root / "val" / "images" / "val_5.JPEG"
    path.write_bytes(path.read_bytes()[:300])


def _no_image(root):
    (root / "val" / "images" / "val_5.JPEG").write_bytes(b"hello")


def _fewer_classes(root):
    (root / "wnids.txt").write_text("\n".join(WNIDS[:199]))
    lines = (root / "val" / "val_annotations.txt").read_text().splitlines()
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines[:199]))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (_empty_class, "no images of 1 of its 200 classes"),
        (_unknown_annotation, "line 1: 'n99999999' is not in"),
        (_missing_image, r"val_5\.JPEG"),
        (_cut_image, r"val_5\.JPEG"),
        (_no_image, r"val_5\.JPEG"),
        (_fewer_classes, "200 classes are expected, found 199"),
        (lambda root: (root / "words.txt").unlink(), r"lacks words\.txt"),
    ],
)
def test_a_damaged_folder_is_refused(folder, craft, damage, complaint):
    damage(folder)
    with pytest.raises(DataError, match=complaint) as error:
        load("tiny-imagenet", folder.parent)
    assert "evolvent data fetch tiny-imagenet" in craft.one_line(error)


def _archive(rng, craft, **changes):
    pictures = [craft.jpeg(rng, 32) for _ in range(4)]
    content = np.frombuffer(b"".join(pictures), np.uint8)
    offset = np.cumsum([0, *map(len, pictures)])
    labels = np.array([0, 5, 199, 5], np.uint8)
    fields = {"train_jpeg": content, "train_offset": offset, "y_train": labels}
    fields |= {"val_jpeg": content, "val_offset": offset, "y_val": labels}
    fields["words"] = np.array([f"w{number}" for number in range(200)])
    return fields | changes


def test_the_archive_is_read(tmp_path, rng, craft):
    np.savez(tmp_path / "tiny_imagenet_few.npz", **_archive(rng, craft))
    data = load("tiny-imagenet", tmp_path)
    assert data.test.images.shape == (4, 3, 32, 32)
    assert data.train.labels.tolist() == [0, 5, 199, 5]
    assert "32 x 32 instead of 64 x 64" in data.source
    assert data.classes[199] == "w199"


@pytest.mark.parametrize(
    "changes",
    [
        {"train_offset": np.array([0])},
        {"train_offset": np.array([0, 100, 50, 60, 70])},
        {"train_jpeg": np.zeros(10)},
        {"train_jpeg": np.zeros(10, np.uint8), "train_offset": np.array([0, 10])},
    ],
)
def test_a_wrong_archive_is_refused(tmp_path, rng, craft, changes):
    np.savez(tmp_path / "tiny_imagenet.npz", **_archive(rng, craft, **changes))
    with pytest.raises(DataError, match=r"tiny_imagenet\.npz") as error:
        load("tiny-imagenet", tmp_path)
    craft.one_line(error)


def test_images_of_several_sizes_are_refused(tmp_path, rng, craft):
    pictures = [craft.jpeg(rng, 32), craft.jpeg(rng, 48)]
    changes = {
        "train_jpeg": np.frombuffer(b"".join(pictures), np.uint8),
        "train_offset": np.cumsum([0, *map(len, pictures)]),
        "y_train": np.zeros(2, np.uint8),
    }
    np.savez(tmp_path / "tiny_imagenet.npz", **_archive(rng, craft, **changes))
    with pytest.raises(DataError, match="image 1 is 48 x 48, 32 x 32 is expected"):
        load("tiny-imagenet", tmp_path)


def test_huge_images_are_refused_undecoded(tmp_path, rng, craft):
    picture = craft.jpeg(rng, 300)
    changes = {"train_jpeg": np.frombuffer(picture, np.uint8), "train_offset": np.array([0, len(picture)])}
    np.savez(tmp_path / "tiny_imagenet.npz", **_archive(rng, craft, **changes))
    with pytest.raises(DataError, match="at most 256 is expected"):
        load("tiny-imagenet", tmp_path)
