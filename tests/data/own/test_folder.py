"""Folders of the user's own images: what is read, how it is divided, and what faults are called."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from evolvent.data import ImageFiles, OwnDataWarning, Stretched, check_own, from_folder, picture_reader, write_example
from evolvent.data.own import folder as folders
from evolvent.data.picture_readers import read_mask
from evolvent.errors import ConfigError, DataError, ModelFileError


def save(path: Path, pixels: np.ndarray, **more) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **more)
    return path


def grey(value: int, height: int = 4, width: int = 6) -> np.ndarray:
    return np.full((height, width), value, np.uint8)


@pytest.fixture
def classes(tmp_path):
    """Five cats, bright, and five dogs, dark; pixels number the images."""
    for k in range(5):
        save(tmp_path / "pets" / "cat" / f"{k}.png", grey(200 + k))
        save(tmp_path / "pets" / "dog" / f"{k}.png", grey(10 + k))
    return tmp_path / "pets"


def test_a_folder_for_each_class_is_divided_by_the_stated_share(classes):
    found = from_folder(classes, test=0.4)
    assert found.classes == ("cat", "dog")
    assert found.train.shape == (1, 4, 6)
    assert found.train.class_counts() == (3, 3)
    assert found.test.class_counts() == (2, 2)
    assert ((found.train.images[:, 0, 0, 0] >= 200) == (found.train.labels == 0)).all()
    assert found.section == {"folder": str(classes), "test": 0.4}
    assert "40% of them drawn for testing" in found.source
    every = torch.cat([found.train.images, found.test.images])[:, 0, 0, 0]
    assert sorted(every.tolist()) == [*range(10, 15), *range(200, 205)]


def test_a_fifth_tests_unless_told_and_the_draw_repeats(classes):
    one, two = from_folder(classes), from_folder(classes)
    assert len(one.test) == 2
    assert torch.equal(one.test.images, two.test.images)
    assert one.fingerprint == two.fingerprint


def test_pictures_that_are_not_read_are_named(classes):
    save(classes / "cat" / "scan.tif", grey(3))
    save(classes / "cat" / "more" / "0.png", grey(3))
    (classes / "dog" / "Thumbs.db").touch()
    (classes / "dog" / "._1.tif").touch()
    with pytest.warns(OwnDataWarning, match=r"cat also has 1 \.tif, 1 folder, which are not read"):
        assert from_folder(classes, test=0.4).train.class_counts() == (3, 3)


@pytest.mark.parametrize("names", [("train", "test"), ("training", "val"), ("Train", "Test")])
def test_parts_in_folders_of_their_own(tmp_path, names):
    for part, count in zip(names, (3, 2), strict=True):
        for name in ("a", "b"):
            for k in range(count):
                save(tmp_path / part / name / f"{k}.png", grey(k))
    found = from_folder(tmp_path)
    assert (len(found.train), len(found.test), found.val) == (6, 4, None)
    with pytest.raises(ConfigError, match=r"has a test part of its own; leave data.test out"):
        from_folder(tmp_path, test=0.2)


def test_validation_images_are_kept_apart(tmp_path):
    for part in ("train", "valid", "test"):
        for name in ("a", "b"):
            save(tmp_path / part / name / "0.png", grey(0))
    found = from_folder(tmp_path)
    assert found.val is not None
    assert len(found.val) == 2


def test_any_change_changes_the_fingerprint(classes):
    before = from_folder(classes).fingerprint
    save(classes / "cat" / "0.png", np.where(np.eye(4, 6) > 0, 201, 200).astype(np.uint8))
    pixel = from_folder(classes).fingerprint
    (classes / "dog").rename(classes / "hound")
    assert len({before, pixel, from_folder(classes).fingerprint}) == 3


def test_one_colour_image_makes_all_of_them_colour(classes):
    save(classes / "cat" / "colour.png", np.zeros((4, 6, 3), np.uint8))
    assert from_folder(classes).train.shape == (3, 4, 6)


def test_images_of_unequal_size_are_resized_as_stated(classes):
    odd = save(classes / "dog" / "odd.png", grey(9, 8, 8))
    with pytest.raises(DataError, match=r"2 sizes: .*odd.png is 8 x 8, most are 4 x 6. .*data.resize=\[4, 6\]"):
        from_folder(classes)
    found = from_folder(classes, resize=[6, 3])
    assert found.train.shape == (1, 6, 3)
    assert found.section["resize"] == [6, 3]
    assert (Stretched(1, 2, 2).decode(odd) == 9).all()
    for wrong in ([4], [0, 3], 4, "ab", [4.5, 2]):
        with pytest.raises(ConfigError, match="resize must be"):
            from_folder(classes, resize=wrong)


def test_photographs_are_turned_as_their_exif_data_say(tmp_path):
    picture = Image.fromarray(np.repeat(np.arange(40, dtype=np.uint8)[:, None], 24, axis=1))
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned by 90 degrees: 40 x 24 is seen as 24 x 40
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for k in range(3):
            picture.save(tmp_path / name / f"{k}.jpg", exif=exif, quality=95)
    found = from_folder(tmp_path)
    assert found.train.shape == (1, 24, 40)
    row = found.train.tensor[0, 0, 12].int()
    assert abs(row - torch.arange(39, -1, -1)).max() <= 3


def test_large_sets_stay_in_their_files(classes, monkeypatch):
    loaded = from_folder(classes)
    monkeypatch.setattr(folders, "_MOST_BYTES", 10)
    found = from_folder(classes)
    assert isinstance(found.train.images, ImageFiles)
    assert torch.equal(found.train.images[:], loaded.train.tensor)
    assert found.fingerprint != loaded.fingerprint  # of names and sizes
    assert found.fingerprint == from_folder(classes).fingerprint


def save_png(path: Path, rows: list[bytes], width: int, bits: int, colour: int) -> Path:
    """A PNG of a depth that Pillow does not write."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, len(rows), bits, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
    return path


@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_deep_images_of_any_colour_are_refused(classes, colour, channels):
    save_png(classes / "cat" / "deep.png", [bytes(2 * channels * 6)] * 4, 6, 16, colour)
    with pytest.raises(DataError, match=r"deep\.png has more than 8 bits a channel"):
        from_folder(classes)


@pytest.mark.parametrize(
    ("bits", "rows", "labels"),
    [
        (2, [b"\x1b", b"\xe4"], [[0, 1, 2, 3], [3, 2, 1, 0]]),
        (4, [b"\x01\x23", b"\xf0\x21"], [[0, 1, 2, 3], [15, 0, 2, 1]]),
    ],
)
def test_masks_of_few_bits_have_the_labels_that_are_stored(tmp_path, bits, rows, labels):
    path = save_png(tmp_path / "mask.png", rows, 4, bits, 0)
    assert read_mask(path, 2, 4).tolist() == labels
    assert read_mask(path, 4, 8)[::2, ::2].tolist() == labels
    palette = Image.fromarray(np.array(labels, np.uint8), "P")
    palette.putpalette(list(range(48)))
    palette.save(tmp_path / "palette.png", bits=bits)
    assert read_mask(tmp_path / "palette.png", 2, 4).tolist() == labels


def break_png(folder: Path) -> None:
    (folder / "cat" / "0.png").write_bytes((folder / "cat" / "1.png").read_bytes()[:30])


def empty_class(folder: Path) -> None:
    (folder / "emu").mkdir()
    (folder / "emu" / "a.bmp").write_bytes(b"x")


def deep_png(folder: Path) -> None:
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(folder / "cat" / "deep.png")


def one_class(folder: Path) -> None:
    (folder / "dog").rename(folder.parent / "dog")


def no_folders(folder: Path) -> None:
    for inner in list(folder.iterdir()):
        inner.rename(folder.parent / inner.name)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (break_png, r"0\.png .*damaged.* Replace the file by a JPEG or PNG, or take it away"),
        (empty_class, r"emu has no PNG or JPEG images, it has \.bmp\. Fill or delete"),
        (deep_png, r"deep\.png has more than 8 bits a channel; convert it"),
        (one_class, "has one class, 'cat'; make a folder for each"),
        (no_folders, "has no folders; make one for each class"),
    ],
)
def test_faults_name_the_file_and_what_to_do(classes, fault, message):
    fault(classes)
    with pytest.raises(DataError, match=message) as error:
        from_folder(classes)
    assert "\n" not in str(error.value)


def test_missing_folders_shares_and_classes_are_refused(classes, tmp_path):
    with pytest.raises(DataError, match=r"there is no folder .*nowhere"):
        from_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"a share of 0.01 of 10 rows leaves none"):
        from_folder(classes, test=0.01)
    for part, names in (("train", "ab"), ("test", "abc")):
        for name in names:
            save(tmp_path / "more" / part / name / "0.png", grey(0))
    with pytest.raises(DataError, match=r"test has a class 'c' that .*train does not have"):
        from_folder(tmp_path / "more")


@pytest.fixture
def masked(tmp_path):
    """Six images whose upper half is class 1, with a border without class."""
    for k in range(6):
        mask = np.zeros((6, 8), np.uint8)
        mask[:3], mask[0] = 1, 255
        save(tmp_path / "scenes" / "images" / f"{k}.jpg", np.full((6, 8, 3), 40 * k, np.uint8))
        save(tmp_path / "scenes" / "masks" / f"{k}.png", mask)
    return tmp_path / "scenes"


def test_images_and_masks(masked):
    found = from_folder(masked, test=0.5)
    assert found.train.has_masks
    assert found.train.shape == (3, 6, 8)
    assert found.classes == ("0", "1")
    assert found.train.labels[0, :, 0].tolist() == [255, 1, 1, 0, 0, 0]
    (masked / "classes.txt").write_text("road\nsky\n\n")
    assert from_folder(masked, resize=(3, 4)).train.classes == ("road", "sky")
    assert from_folder(masked, resize=(3, 4)).train.labels.shape[1:] == (3, 4)


def test_pictures_beside_images_with_masks_that_are_not_read_are_named(masked):
    save(masked / "images" / "scan.tif", grey(3))
    save(masked / "images" / "more" / "0.png", grey(3))
    with pytest.warns(
        OwnDataWarning, match=r"images also has 1 \.tif, 1 folder, which are not read.* into this folder"
    ):
        assert len(from_folder(masked, test=0.5).train) == 3


def test_drawn_masks_are_background_and_foreground(masked):
    for path in (masked / "masks").iterdir():
        save(path, np.where(np.eye(6, 8) > 0, 255, 0).astype(np.uint8))
    found = from_folder(masked)
    assert found.classes == ("background", "foreground")
    assert set(found.train.labels.unique().tolist()) == {0, 1}


def test_masks_that_do_not_fit_are_refused(masked):
    (masked / "classes.txt").write_text("just one")
    with pytest.raises(DataError, match="1 classes are named, but masks have labels up to 1"):
        from_folder(masked)
    save(masked / "masks" / "0.png", np.zeros((6, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"0\.png is not a mask"):
        from_folder(masked)
    (masked / "masks" / "0.png").unlink()
    with pytest.raises(DataError, match=r"0\.jpg has no mask .*0\.png\. Every image needs"):
        from_folder(masked)


def test_names_of_classes_that_are_not_utf8_are_refused(masked):
    (masked / "classes.txt").write_bytes("Straße\nHimmel".encode("latin-1"))
    with pytest.raises(DataError, match=r"classes\.txt .*not text in UTF-8; save it"):
        from_folder(masked)


@pytest.mark.parametrize("resize", [None, (3, 4)])
def test_masks_of_another_size_than_their_image_are_refused(masked, resize):
    save(masked / "masks" / "2.png", np.zeros((3, 8), np.uint8))
    with pytest.raises(DataError, match=r"2\.png is 3 x 8, its image images/2\.jpg 6 x 8. Give a mask of the image's"):
        from_folder(masked, resize=resize)


def test_the_example_can_be_read_and_is_not_written_twice(tmp_path):
    root = write_example(tmp_path / "shapes")
    found = from_folder(root)
    assert (found.train.class_counts(), found.test.class_counts()) == ((40,) * 3, (12,) * 3)
    assert found.train.shape == (1, 40, 56)
    report = check_own(root)
    assert report.ok
    assert report.train.per_class == (("cross", 40), ("disc", 40), ("square", 40))
    with pytest.raises(ConfigError, match="is not empty"):
        write_example(root)


def test_readers_describe_themselves(tmp_path):
    with pytest.raises(ModelFileError, match="does not say how images are read"):
        picture_reader({"kind": "other"})
    path = save(tmp_path / "a.png", grey(1))
    with pytest.raises(DataError, match="images of 4 channels are not read from files"):
        Stretched(4, 2, 2).decode(path)
