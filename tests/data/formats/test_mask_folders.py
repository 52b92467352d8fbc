"""Folders of images and masks in the layouts of CamVid and BDD100K, written small and read back."""

import numpy as np
import pytest
from PIL import Image

from evolvent.data import check, load
from evolvent.errors import DataError


def write_pair(images, masks, name, rng, size, mask, suffix="png"):
    """An image of equal squares and its mask, both twice as large as they are read."""
    small = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    for folder, pixels, ending in ((images, small, suffix), (masks, mask, "png")):
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(folder / f"{name}.{ending}")
    return small


@pytest.fixture
def camvid(tmp_path, rng):
    """Two images a part; returns the folder and the pixels of the first training image."""
    first, mask = None, rng.integers(0, 12, (120, 160), dtype=np.uint8)
    for part in ("train", "val", "test"):
        for name in "ab":
            small = write_pair(
                tmp_path / "CamVid" / part, tmp_path / "CamVid" / f"{part}annot", name, rng, (120, 160), mask
            )
            first = small if first is None else first
    return tmp_path, first, mask


def test_camvid_folders_are_read_and_reduced(camvid):
    folder, first, mask = camvid
    data = load("camvid", folder)
    assert data.val is not None
    assert [len(part) for part in (data.train, data.val, data.test)] == [2, 2, 2]
    np.testing.assert_array_equal(data.train.images[0].permute(1, 2, 0), first)
    np.testing.assert_array_equal(data.train.labels[0], mask)
    assert data.source.startswith("CamVid folders of the SegNet tutorial")


def test_the_check_counts_pixels_of_all_parts(camvid):
    report = check("camvid", camvid[0])
    assert report.ok
    assert report.val is not None
    assert report.val.counted == "pixels"
    assert dict(report.val.per_class)["sky"] == 2 * int((camvid[2] == 0).sum())


def test_bdd100k_folders_are_read(tmp_path, rng):
    mask = rng.integers(0, 19, (90, 160), dtype=np.uint8)
    mask[:3] = 255
    root = tmp_path / "bdd100k"
    for part in ("train", "val"):
        write_pair(root / "images/10k" / part, root / "labels/sem_seg/masks" / part, "0", rng, (90, 160), mask, "jpg")
    (root / "images/10k/train/without_mask.jpg").write_bytes(b"never opened")
    data = load("bdd100k", tmp_path)
    assert (len(data.train), len(data.test), data.val) == (1, 1, None)
    np.testing.assert_array_equal(data.test.labels[0], mask)
    assert data.classes[13] == "car"


def test_a_missing_folder_is_named(camvid):
    folder, *_ = camvid
    (folder / "CamVid/valannot").rename(folder / "elsewhere")
    with pytest.raises(
        DataError, match=r"camvid is incomplete: .*CamVid lacks valannot\. Place CamVid/train \+ trainannot"
    ):
        load("camvid", folder)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda at: (at / "train/a.png").write_bytes(b"not a picture"), r"train/a.png .* damaged or unreadable"),
        (lambda at: Image.new("RGB", (330, 240)).save(at / "train/a.png"), "a multiple of 160 x 120"),
        (lambda at: Image.new("L", (32, 24)).save(at / "trainannot/a.png"), "32 x 24, a multiple"),
        (lambda at: Image.new("RGB", (320, 240)).save(at / "trainannot/a.png"), "is a colour image"),
        (lambda at: Image.new("L", (320, 240), 12).save(at / "trainannot/a.png"), "labels 0 ... 10 are expected"),
        (lambda at: [path.unlink() for path in at.glob("testannot/*")], "has no images with a mask in"),
    ],
)  # fmt: skip
def test_bad_files_are_named(camvid, craft, spoil, message):
    spoil(camvid[0] / "CamVid")
    with pytest.raises(DataError, match=message) as caught:
        load("camvid", camvid[0])
    craft.one_line(caught)


def fields(rng, **changes):
    found = {}
    for part, count in (("train", 3), ("val", 2), ("test", 2)):
        found[f"x_{part}"] = rng.integers(0, 256, (count, 120, 160, 3), dtype=np.uint8)
        found[f"y_{part}"] = rng.integers(0, 12, (count, 120, 160), dtype=np.uint8)
    return found | changes


def test_an_npz_archive_with_validation_images(tmp_path, rng):
    content = fields(rng)
    np.savez(tmp_path / "camvid_small.npz", **content)
    data = load("camvid", tmp_path)
    assert data.val is not None
    np.testing.assert_array_equal(data.val.labels, content["y_val"])
    np.testing.assert_array_equal(data.val.images.permute(0, 2, 3, 1), content["x_val"])


def test_an_npz_archive_without(tmp_path, rng):
    np.savez(tmp_path / "camvid.npz", **{k: v for k, v in fields(rng).items() if "val" not in k})
    assert load("camvid", tmp_path).val is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.zeros(3, np.uint8)}, r"'y_train' must be integer \(N, H, W\)"),
        ({"y_train": np.zeros((3, 60, 80), np.uint8)}, r"labels of shape .120, 160. per image are expected"),
        ({"y_test": np.full((2, 120, 160), 11, np.uint8)}, "no pixel has a class"),
    ],
)
def test_masks_of_another_form_are_refused(tmp_path, rng, changes, message):
    np.savez(tmp_path / "camvid.npz", **fields(rng, **changes))
    with pytest.raises(DataError, match=message):
        load("camvid", tmp_path)
