"""The user's own arrays, data sets, archives and tables."""

import pickle
import re

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from evolvent.data import (
    ImageData,
    OwnDataWarning,
    PointData,
    check_own,
    from_arrays,
    from_csv,
    from_dataset,
    from_folder,
    from_npz,
    load,
    write_example,
    write_npz,
)
from evolvent.errors import ConfigError, DataError, EvolventError, ShapeError, UnknownNameError

LABELS = np.arange(10) % 2


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((10, 8, 6), (1, 8, 6)),
        ((10, 8, 6, 3), (3, 8, 6)),
        ((10, 3, 8, 6), (3, 8, 6)),
        ((10, 3, 8, 3), (3, 8, 3)),
        ((10, 8, 6, 1), (1, 8, 6)),
        ((10, 13, 16, 16), (13, 16, 16)),
        ((10, 16, 16, 4), (4, 16, 16)),
    ],
)
def test_images_in_every_form(shape, expected):
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    found = from_arrays(x, LABELS, x, LABELS)
    assert found.train.shape == expected
    assert found.train.images.float().mean() == pytest.approx(x.mean())
    if expected == shape[1:]:
        assert np.array_equal(found.train.tensor.numpy(), x)


def test_numbers_from_0_to_1_become_bytes():
    x = torch.rand(10, 1, 4, 4)
    found = from_arrays(x, LABELS, x, LABELS)
    assert (found.train.tensor / 255 - x).abs().max() <= 0.5 / 255 + 1e-6
    assert torch.equal(from_arrays((255 * x).round().long(), LABELS, x, LABELS).train.tensor, found.train.tensor)


@pytest.mark.parametrize(
    ("labels", "classes", "names"),
    [
        (np.array([3, 7] * 5), None, ("3", "7")),
        (np.array(["dog", "cat"] * 5), None, ("cat", "dog")),
        (np.array([0, 2] * 5), ["a", "b", "c"], ("a", "b", "c")),
        (np.array([0.0, 1.0] * 5), None, ("0", "1")),
        (torch.tensor([[True], [False]] * 5), None, ("0", "1")),
    ],
)
def test_labels_of_every_kind(labels, classes, names):
    x = np.zeros((10, 4, 4), np.uint8)
    found = from_arrays(x, labels, x, labels, classes=classes)
    assert found.classes == names
    values = np.asarray(labels).reshape(-1).tolist()
    said = [names[k] for k in found.train.labels.tolist()]
    if classes is None:
        assert [str(int(v)) if not isinstance(v, str) else v for v in values] == said


def test_masks_and_points():
    x, masks = np.zeros((4, 6, 8, 3), np.uint8), np.zeros((4, 6, 8), np.int64)
    masks[:, 2:] = 2
    found = from_arrays(x, masks, x, masks)
    assert isinstance(found, ImageData)
    assert (found.classes, found.train.ignore) == (("0", "1", "2"), 255)
    points = from_arrays(np.random.default_rng(0).normal(size=(10, 5)), LABELS, test=0.4, columns="abcde")
    assert isinstance(points, PointData)
    assert points.train[0].shape == (6, 5)
    assert points.columns == tuple("abcde")
    assert points.train[1].bincount().tolist() == [3, 3]


X = np.zeros((10, 4, 4), np.uint8)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X, LABELS[:9]), {}, "x must have as many rows as its labels"),
        ((X, LABELS, X), {}, "both x_test and y_test"),
        ((X[:0], LABELS[:0]), {}, "x is empty"),
        ((X, LABELS, X, LABELS), {"test": 0.2}, "has a test part of its own"),
        ((X - 0.5, LABELS), {}, "bytes from 0 to 255, or floating-point numbers from 0 to 1, .* from -0.5 to -0.5"),
        ((X, LABELS), {"test": 1.5}, "between 0 and 1, got 1.5"),
        ((X, LABELS), {"classes": ["one"]}, "labels 0 ... 0 are expected, for 1 classes, found 0, 1"),
        ((X, np.zeros(10)), {}, "2 to 10,000 classes are expected, found 1"),
        ((X, np.linspace(0, 1, 10)), {}, "one whole number or word per row"),
        ((X, LABELS, np.zeros((10, 5, 4), np.uint8), LABELS), {}, "both must have one shape"),
        ((np.zeros((2, 2, 2, 2, 2)), LABELS[:2]), {}, r"images of shape \(N, H, W\)"),
        ((X, np.zeros((10, 3, 4), np.int64)), {}, r"masks of whole numbers \(10, 4, 4\)"),
        ((X, np.full((10, 4, 4), 300)), {}, "255 for none, found 300 ... 300"),
        ((X, np.full((10, 4, 4), 255)), {"classes": ["a", "b"]}, "no pixel has a class"),
        ((np.full((10, 2), np.nan), LABELS), {}, "rows of 2 finite numbers"),
        ((np.array([object()] * 10), LABELS), {}, "arrays of numbers or words are expected, got object"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, options, message):
    with pytest.raises((DataError, ConfigError), match=message) as error:
        from_arrays(*arguments, **options)
    assert len(str(error.value)) < 300


def test_point_sets_check_their_shapes():
    part = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ShapeError, match=r"points must be \(N, 3\) with N classes, got \(3, 2\) and \(3,\)"):
        PointData("p", part, part, ("a", "b"), ("x", "y", "z"), "")


class Pictures:
    """A data set of PIL images, as torchvision's are."""

    classes = ("even", "odd")

    def __init__(self, sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, row):
        return Image.fromarray(np.full(self.sizes[row], row, np.uint8)), row % 2


def test_data_sets_of_torch_and_of_pictures():
    found = from_dataset(TensorDataset(torch.rand(10, 3, 8, 6), torch.arange(10) % 3), share=0.3)
    assert (found.name, found.train.shape, len(found.test)) == ("TensorDataset", (3, 8, 6), 3)
    pictures = Pictures([(4, 6, 3)] * 8)
    found = from_dataset(pictures, pictures, name="mine")
    assert (found.name, found.classes, found.train.shape) == ("mine", ("even", "odd"), (3, 4, 6))
    assert found.train.images[:, 0, 0, 0].tolist() == list(range(8))
    with pytest.raises(DataError, match=r"item 1 has shape \(5, 6\), item 0 \(4, 6\). Give resize"):
        from_dataset(Pictures([(4, 6), (5, 6)]))
    with pytest.raises(DataError, match="all grey or all RGB"):
        from_dataset(Pictures([(4, 6), (4, 6, 3)]))
    resized = from_dataset(Pictures([(4, 6), (5, 6), (8, 8), (9, 3)]), resize=(3, 2), share=0.5)
    assert resized.train.shape == (1, 3, 2)
    assert set(torch.cat([resized.train.images, resized.test.images]).unique().tolist()) == {0, 1, 2, 3}
    colour = from_dataset(Pictures([(4, 6, 3), (5, 6, 3)] * 2), resize=(3, 2), share=0.5)
    assert colour.train.shape == (3, 3, 2)


@pytest.mark.parametrize("channels", [2, 4, 5])
def test_inputs_of_any_number_of_channels_are_resized_in_space(channels):
    x = torch.rand(10, channels, 32, 20)
    found = from_dataset(TensorDataset(x, torch.arange(10) % 2), resize=(16, 10))
    assert found.train.shape == (channels, 16, 10)
    assert found.train.images.double().mean() / 255 == pytest.approx(x.mean().item(), abs=0.02)


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((13, 64, 64), (8, 8), (13, 8, 8)),
        ((64, 64, 13), (8, 16), (13, 8, 16)),
        ((64, 64, 13), (16, 8), (13, 16, 8)),
        ((3, 20, 20), (3, 1), (3, 3, 1)),
        ((20, 20), (3, 5), (1, 3, 5)),
    ],
)
def test_the_axis_of_the_channels_is_that_before_resizing(shape, size, expected):
    items = [(np.random.default_rng(k).random(shape), k % 2) for k in range(10)]
    assert from_dataset(items, resize=size).train.shape == expected


def test_resized_booleans_are_shares_of_white():
    image = np.zeros((64, 64), bool)
    image[::8, ::8] = True
    found = from_dataset([(image, k % 2) for k in range(10)], resize=(8, 8)).train.tensor
    assert found.double().mean() / 255 == pytest.approx(image.mean(), rel=0.2)
    assert from_dataset([(image | True, k % 2) for k in range(10)], resize=(8, 8)).train.tensor.min() == 255


def test_resizing_does_not_ask_for_a_layout():
    x = np.random.default_rng(0).random((10, 16, 12))
    plain = from_dataset([(image, k % 2) for k, image in enumerate(x)], resize=(8, 6)).train.tensor
    for other in (x.astype(">f8"), np.asfortranarray(x), x[:, ::-1].copy()[:, ::-1]):
        found = from_dataset([(image, k % 2) for k, image in enumerate(other)], resize=(8, 6))
        assert torch.equal(found.train.tensor, plain)
    with pytest.raises(DataError, match="are expected as pixels, found <U3"):
        from_dataset([(np.full((4, 4), "abc"), k % 2) for k in range(10)], resize=(8, 6))


@pytest.mark.parametrize("layout", [">u2", ">i4", "flipped"])
def test_masks_of_every_layout(layout):
    masks = np.random.default_rng(0).integers(0, 3, (10, 4, 6))
    given = masks[:, ::-1].copy()[:, ::-1] if layout == "flipped" else masks.astype(layout)
    x = np.zeros((10, 4, 6), np.uint8)
    assert torch.equal(from_arrays(x, given).train.labels, from_arrays(x, masks).train.labels)


def test_pictures_are_read_as_files_are():
    values = np.arange(48, dtype=np.uint8).reshape(4, 6, 2)
    found = from_dataset([(Image.fromarray(values, "LA"), k % 2) for k in range(10)])
    assert found.train.shape == (1, 4, 6)
    deep = Image.fromarray(np.full((4, 6), 30_000, np.uint16))
    with pytest.raises(DataError, match="item 0 has more than 8 bits a channel"):
        from_dataset([(deep, 0), (deep, 1)])


@pytest.mark.parametrize("wrong", [8, 0.5, "ab", (0, 8), (8.5, 2), (8, 8, 8), (10**9, 10**9), (True, True)])
def test_sizes_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"two whole numbers from 1|this machine has"):
        from_dataset(Pictures([(4, 6), (5, 6)]), resize=wrong)


@pytest.mark.parametrize("size", [np.array([3, 2]), torch.tensor([3, 2]), (np.int32(3), 2), torch.Size((3, 2))])
def test_sizes_of_every_kind(size):
    assert from_dataset(Pictures([(4, 6), (5, 6)] * 5), resize=size).train.shape == (1, 3, 2)


def test_arrays_of_other_kinds():
    x = np.random.default_rng(0).integers(0, 2, (10, 4, 6))
    drawn = from_arrays(x.astype(bool), np.array(["a", "b"] * 5, dtype=object))  # as pandas keeps words
    assert drawn.classes == ("a", "b")
    assert drawn.train.images.unique().tolist() == [0, 255]
    assert from_arrays(x.astype(np.uint16), LABELS).train.images.unique().tolist() == [0, 1]
    half = torch.rand(10, 1, 4, 4).bfloat16()
    assert torch.equal(from_arrays(half, LABELS).train.images, from_arrays(half.float(), LABELS).train.images)
    with pytest.raises(DataError, match="dense tensors are expected"):
        from_arrays(torch.eye(10).to_sparse(), LABELS)
    with pytest.raises(DataError, match=r"got float8_e4m3fn. Use float\(\) first"):
        from_arrays(torch.rand(10, 4, 4).to(torch.float8_e4m3fn), LABELS)


def test_tables_of_objects_are_numbers_or_words():
    rows = [[k, k / 2] for k in range(10)]
    found = from_arrays(np.array(rows, dtype=object), LABELS)
    assert sorted(torch.cat([found.train[0], found.test[0]])[:, 0].tolist()) == list(range(10))
    words = np.array(["a", "b"] * 5, dtype=object)
    for gap in (None, float("nan")):
        words[3] = gap
        with pytest.raises(DataError, match=f"row 3 of 10 has {gap} among words. If it stands for a missing value"):
            from_arrays(X, words)
    rows[4][1] = None
    with pytest.raises(DataError, match="row 4 of 10 has None among numbers"):
        from_arrays(np.array(rows, dtype=object), LABELS)


def test_data_sets_without_length_or_labels_are_refused():
    with pytest.raises(DataError, match="has no length"):
        from_dataset(iter([]))
    with pytest.raises(DataError, match=r"item 0 must be a pair \(input, label\), got Tensor"):
        from_dataset(list(torch.zeros(3, 4, 4)))


def test_grey_levels_as_labels_of_masks_are_questioned():
    masks = np.zeros((10, 4, 6), np.uint8)
    masks[:, 0], masks[:, 1] = 128, 255
    said = (
        "labels up to 128, so 129 classes, but 2 occur.* in a folder by classes.txt, in an archive by the array classes"
    )
    with pytest.warns(OwnDataWarning, match=said):
        from_arrays(np.zeros((10, 4, 6), np.uint8), masks)


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("x_train", "y_train")])
def test_archives(tmp_path, names):
    path = tmp_path / "mine.npz"
    np.savez(path, **dict(zip(names, (X, LABELS), strict=True)), classes=np.array(["a", "b"]))
    found = from_npz(path, test=0.2)
    assert (found.name, found.classes, len(found.test)) == ("mine", ("a", "b"), 2)
    assert found.section == {"npz": str(path), "test": 0.2}
    assert "mine.npz in" in found.source
    assert check_own(path).train.count == 8
    np.savez(path, x=X, y=LABELS, x_val=X, y_val=LABELS)
    with pytest.warns(OwnDataWarning, match="arrays that are not used: x_val, y_val"):
        from_npz(path)
    np.savez(path, x=X, y=LABELS, x_train=X)
    with pytest.warns(OwnDataWarning, match=r"not used: x_train. Used are x, y; there may be x, y, x_test"):
        from_npz(path)
    np.savez(path, x=X, y=LABELS, x_test=X)
    with pytest.raises(DataError, match="has x_test without its other half"):
        from_npz(path)


@pytest.mark.parametrize("kind", ["classes", "masks", "points"])
def test_what_is_written_is_read_back(tmp_path, kind):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(10, 3)) if kind == "points" else draw.integers(0, 256, (10, 3, 4, 6), dtype=np.uint8)
    y = draw.integers(0, 3, (10, 4, 6)) if kind == "masks" else np.array(["left", "right"] * 5)
    before = from_arrays(x, y, name="mine")
    write_npz(tmp_path / "a.npz", before)
    after = from_npz(tmp_path / "a.npz")
    assert after.fingerprint == before.fingerprint
    assert (after.name, after.classes) == ("mine", before.classes)


@pytest.mark.parametrize("shape", [(20, 4, 5), (8, 1, 3), (5, 20, 4)])
def test_an_archive_may_say_that_channels_are_the_first_axis(tmp_path, shape):
    before = from_arrays(np.zeros((10, *shape), np.uint8), LABELS)
    write_npz(tmp_path / "a.npz", before)
    assert from_npz(tmp_path / "a.npz").train.shape == before.train.shape
    np.savez(tmp_path / "b.npz", x=np.zeros((10, *shape), np.uint8), y=np.arange(10) % 2, channels_first=True)
    assert from_npz(tmp_path / "b.npz").train.shape == shape


def test_damaged_and_foreign_archives_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"there is no archive .*none\.npz. Write one with numpy.savez"):
        from_npz(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", a=X)
    with pytest.raises(DataError, match="must have the arrays x and y, or images and labels; it has a"):
        from_npz(tmp_path / "other.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "other.npz").read_bytes()[:40])
    with pytest.raises(DataError, match="is damaged or unreadable"):
        from_npz(tmp_path / "cut.npz")
    np.save(tmp_path / "single.npy", X)
    write(tmp_path / "table.npz", "a,b\n1,2\n")
    for foreign in ("single.npy", "table.npz"):
        with pytest.raises(DataError, match=r"is no \.npz archive. Write one with numpy.savez"):
            from_npz(tmp_path / foreign)
    np.savez(tmp_path / "pickle.npz", allow_pickle=True, x=np.array([{}]), y=LABELS)
    with pytest.raises(DataError, match="damaged or unreadable"):
        from_npz(tmp_path / "pickle.npz")


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_tables_with_and_without_names(tmp_path):
    rows = "\n".join(f"{k},{k * k},{'odd' if k % 2 else 'even'}" for k in range(10))
    named = from_csv(write(tmp_path / "named.csv", f"a, b, kind\n{rows}\n"), test=0.4)
    assert (named.columns, named.classes) == (("a", "b"), ("even", "odd"))
    assert named.train[0].shape == (6, 2)
    plain = from_csv(write(tmp_path / "plain.csv", rows))
    assert plain.columns == ("x0", "x1")
    first = "\n".join(f"{k % 3},{k},{-k}" for k in range(9))
    chosen = from_csv(write(tmp_path / "first.csv", f"which,a,b\n{first}\n"), label="which")
    assert (chosen.columns, chosen.classes) == (("a", "b"), ("0", "1", "2"))
    assert chosen.section["label"] == "which"
    assert check_own(tmp_path / "named.csv").test.counted == "points"
    turned = "\n".join(f"{k},{-k},{k % 3}" for k in range(9))
    numbered = from_csv(write(tmp_path / "numbered.csv", f"0,1,which\n{turned}\n"))  # as pandas writes an array
    assert (numbered.columns, numbered.classes) == (("0", "1"), ("0", "1", "2"))
    assert from_csv(write(tmp_path / "years.csv", f"which,2020,2021\n{first}\n"), label="which").columns[0] == "2020"


CATS = "1.5,0.5,cat\n2.5,1,dog\n3.5,2,cat\n4.5,3,dog\n5.5,4,cat\n"
BITS = "1.5,0.5,0\n2.5,1,1\n3.5,2,0\n4.5,3,1\n5.5,4,0\n"
WHOLE = "3,1,0\n4,2,1\n5,3,0\n6,4,1\n7,5,0\n"


def count(points):
    return len(points.train[0]) + len(points.test[0])


@pytest.mark.parametrize("mark", ["?", "NA", "n/a", "NaN", "null", "None", "-"])
def test_a_missing_value_in_line_1_is_no_name(tmp_path, mark):
    found = from_csv(write(tmp_path / "t.csv", f"5.1,3.5,{mark}\n{BITS}"))
    assert (found.columns, count(found)) == (("x0", "x1"), 6)
    with pytest.raises(DataError, match=rf"line 1: '{re.escape(mark)}' in column 'x1' is not a finite number"):
        from_csv(write(tmp_path / "t.csv", f"5,{mark},cat\n{CATS}"))
    assert from_csv(write(tmp_path / "t.csv", f"{mark},b,c\n{CATS}")).columns == (mark, "b")


@pytest.mark.parametrize(
    ("head", "rows", "label", "columns"),
    [
        ("height,2019,species", CATS, None, ("height", "2019")),
        ("height,2019,species", BITS, None, ("height", "2019")),
        ("0,1,label", BITS, None, ("0", "1")),
        ("0,1,label", CATS, "label", ("0", "1")),
        ("2019,2020,growth", CATS, "growth", ("2019", "2020")),
        ("400.5,401.5,kind", BITS, "kind", ("400.5", "401.5")),
        ("0,1,2", CATS, 2, ("0", "1")),
        ("0,1,2", BITS, "2", ("0", "1")),
        ("5,6,7", CATS, "7", ("5", "6")),
        ("RI,Na,Type", BITS, None, ("RI", "Na")),
    ],
)
def test_numbers_may_name_columns(tmp_path, head, rows, label, columns):
    found = from_csv(write(tmp_path / "t.csv", f"{head}\n{rows}"), label=label)
    assert (found.columns, count(found)) == (columns, 5)


@pytest.mark.parametrize(
    ("head", "name", "rows"),
    [("0,1,label", "label", CATS), ("2019,2020,growth", "growth", CATS), ("0,1,2", "2", CATS), ("0,1,2", "2", BITS)],
)
def test_a_class_that_occurs_in_line_1_only_is_questioned(tmp_path, head, name, rows):
    table = write(tmp_path / "t.csv", f"{head}\n{rows}")
    with pytest.warns(OwnDataWarning, match=f"the class '{name}' occurs in line 1 only.* by data.label={name}"):
        assert count(from_csv(table)) == 6
    assert count(from_csv(table, label="x2")) == 6


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        ("1.0,3,0\n1.5,4,1\n2,5,0\n", "0", r"line 1, 1.0,3,0, has '0', but may be a point. Name the columns by words"),
        (WHOLE, "0", r"line 1, 3,1,0, has '0', but may be a point"),
        (f"5.1,3.5,unknown\n{BITS}", None, "has the word 'unknown' above numbers. Mend it if it is a point"),
        (f"5,3x,dog\n{CATS}", None, "line 1: '3x' in column 'x1' is not a finite number"),
        (CATS, "cat", r"unknown column of t\.csv 'cat'.* The table names none; they are x0, x1"),
    ],
)
def test_line_1_is_never_lost_without_a_word(tmp_path, text, label, message):
    with pytest.raises((DataError, UnknownNameError), match=message) as error:
        from_csv(write(tmp_path / "t.csv", text), label=label)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(("head", "label"), [("0,1,2", "2"), ("9,8,kind", None)])
def test_numbers_that_are_taken_as_names_are_told_where_they_may_be_a_point(tmp_path, head, label):
    with pytest.warns(OwnDataWarning, match=f"line 1, {head}, is taken as the names"):
        assert count(from_csv(write(tmp_path / "t.csv", f"{head}\n{WHOLE}"), label=label)) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("a,b\n", "must have lines of points"),
        ("a,a\n1,2\n", "columns of different names"),
        ("a,b,c\n1,2,x\n1,2\n", "line 3: 3 values are expected, found 2"),
        ("a,b,c\n1,2,x\n1,two,y\n", r"line 3: 'two' in column 'b' is not a finite number"),
        ("a,b,c\n1,inf,x\n", "'inf' in column 'b' is not a finite number"),
        ("c\nx\ny\n", "has one column"),
        (",a,b\n0,1,x\n1,2,y\n", "column 1 has no name"),
        (",0,kind\n0,1.5,x\n1,2,y\n", "column 1 has no name"),
    ],
)
def test_faulty_tables_name_the_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        from_csv(write(tmp_path / "t.csv", text))


def test_missing_tables_and_columns(tmp_path):
    with pytest.raises(DataError, match="there is no table"):
        from_csv(tmp_path / "none.csv")
    with pytest.raises(UnknownNameError, match=r"unknown column of t\.csv 'knd'. Did you mean 'kind'"):
        from_csv(write(tmp_path / "t.csv", "a,kind\n1,x\n2,y\n"), label="knd")
    (tmp_path / "latin.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(DataError, match="damaged or unreadable"):
        from_csv(tmp_path / "latin.csv")


def test_known_sets_say_how_they_are_read_again():
    assert load("digits").section == {"name": "digits"}


@pytest.mark.parametrize("shape", [(2,), (4, 4)])
def test_test_rows_of_classes_that_are_never_trained_on_are_refused(shape):
    x = np.zeros((40, *shape), np.uint8)
    with pytest.raises(DataError, match=r"no class of the test part \(7, 8\) occurs in the training part"):
        from_arrays(x[:4], [0, 1, 0, 1], x[:3], [7, 8, 7])
    with pytest.raises(DataError, match=r"no class of the test part .* occurs in the training part"):
        from_arrays(x, np.arange(40))


def test_masks_of_classes_that_are_never_trained_on_are_refused():
    x, masks = np.zeros((4, 4, 4), np.uint8), np.zeros((4, 4, 4), np.uint8)
    with pytest.raises(DataError, match=r"no class of the test part \(2\) occurs"):
        from_arrays(x, masks, x, masks + 2)


@pytest.mark.parametrize("labels", [np.array(["a", "b"] * 5, dtype=object), np.array([None] * 10)])
def test_pickled_archives_are_refused_without_advice_to_read_them(tmp_path, labels):
    np.savez(tmp_path / "objects.npz", x=np.zeros((10, 4, 4), np.uint8), y=labels)
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps({"x": 1}))
    for name, said in (("objects", "pickled objects are not read, .* save numbers"), ("pickle", "is no .npz archive")):
        with pytest.raises(DataError, match=said) as error:
            from_npz(tmp_path / f"{name}.npz")
        assert "allow_pickle" not in str(error.value)


@pytest.mark.parametrize("read", [from_npz, from_csv, from_folder, write_example])
@pytest.mark.parametrize("path", [None, 5, "~nobody-of-this-name/x"])
def test_what_is_no_path_is_refused(read, path):
    with pytest.raises(ConfigError, match=r"takes the path of an? |there is no such user"):
        read(path)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_tables_separated_by_semicolons_or_tabs(tmp_path, separator):
    lines = ["a,b,kind", *(f"{k}.5,{k},{'xy'[k % 2]}" for k in range(10))]
    found = from_csv(write(tmp_path / "t.csv", "\n".join(lines).replace(",", separator)))
    assert (found.columns, found.classes) == (("a", "b"), ("x", "y"))


def test_points_without_class_or_beyond_float32_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"line 3: column 'kind' names no class"):
        from_csv(write(tmp_path / "t.csv", "a,kind\n1,x\n2,\n3,y\n"))
    with pytest.raises(DataError, match=r"line 2: '1e300' in column 'a' is not a finite number"):
        from_csv(write(tmp_path / "t.csv", "a,kind\n1e300,x\n2,y\n"))
    with pytest.raises(DataError, match="rows of 2 finite numbers in float32"):
        from_arrays(np.full((10, 2), 1e300), [0, 1] * 5)
    with pytest.raises(UnknownNameError, match="unknown column"):
        from_csv(write(tmp_path / "t.csv", "a,kind\n1,x\n2,y\n"), label=5)


@pytest.mark.parametrize(
    ("train", "options", "message"),
    [
        (None, {}, "NoneType has no length"),
        (DataLoader(TensorDataset(torch.rand(4, 2), torch.arange(4))), {}, "not its loader"),
        ([], {}, "list is empty"),
        ([(torch.rand(2), k % 2) for k in range(10)], {"share": "x"}, "must lie between 0 and 1, got 'x'"),
    ],
)
def test_data_sets_that_are_none_are_refused(train, options, message):
    with pytest.raises(EvolventError, match=message):
        from_dataset(train, **options)


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(DataError, match="must have one shape"):
        from_arrays([[1], [2, 3]] * 5, [0, 1] * 5)


def test_masked_values_are_refused():
    x = np.ma.masked_equal([[1.0, 2.0], [3.0, -999.0], [5.0, 6.0], [7.0, 8.0]], -999)
    with pytest.raises(DataError, match=r"1 of 8 values are masked\. Fill them, or leave out"):
        from_arrays(x, [0, 1, 0, 1], test=0.5)
    with pytest.raises(DataError, match="1 of 4 values are masked"):
        from_arrays(np.ones((4, 2)), np.ma.masked_equal([0, 1, 7, 1], 7), test=0.5)
    with pytest.raises(DataError, match="1 of 2 values are masked"):
        from_arrays(list(x), [0, 1, 0, 1], test=0.5)
    assert len(from_arrays(np.ma.masked_equal(x.data, 0), [0, 1, 0, 1], test=0.5).train[0]) == 2


def test_arguments_that_are_no_lists_are_named():
    x = np.zeros((4, 3, 3), np.uint8)
    with pytest.raises(DataError, match=r"as many rows as its labels, got arrays of shape \(4, 3, 3\) and \(\)"):
        from_arrays(x, 5)
    with pytest.raises(ConfigError, match="classes must be a list of names, got 5"):
        from_arrays(x, [0, 1, 0, 1], classes=5)
    with pytest.raises(ConfigError, match="columns must be a list of names, got 5"):
        from_arrays(np.zeros((4, 2)), [0, 1, 0, 1], columns=5)
    assert len(from_arrays(x, [0, 1, 0, 1], test=np.float32(0.5)).test) == 2
    with pytest.raises(ConfigError, match=r"between 0 and 1, got 'a'"):
        from_arrays(x, [0, 1, 0, 1], test="a")


def test_the_mark_of_the_axes_is_a_truth_value(tmp_path):
    x, y = np.zeros((10, 8, 9, 3), np.uint8), np.arange(10) % 2
    for mark, shape in ((1, (8, 9, 3)), (0, (3, 8, 9)), (np.True_, (8, 9, 3))):
        np.savez(tmp_path / "marked.npz", x=x, y=y, channels_first=mark)
        assert from_npz(tmp_path / "marked.npz").train.shape == shape
    np.savez(tmp_path / "wrong.npz", x=x, y=y, channels_first="yes")
    with pytest.raises(DataError, match="channels_first must be true or false"):
        from_npz(tmp_path / "wrong.npz")
    np.savez(tmp_path / "names.npz", x=x, y=y, name=np.array(["a"] * 10))
    with pytest.warns(OwnDataWarning, match="not used: name"):
        from_npz(tmp_path / "names.npz")
