"""Colour photographs: CIFAR, SVHN, STL-10, Tiny ImageNet, ImageNet.

Checksums: sha256 where it is published (CIFAR, by Keras), else the md5 that torchvision or users of the set's home
publish.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from evolvent.data.datasets import CatalogueEntry, Download
from evolvent.data.formats import binary, cifar, image_folders, npz
from evolvent.data.formats.npz import npz_layout
from evolvent.data.layout import Layout

_CIFAR_HOME = "https://www.cs.toronto.edu/~kriz"
_SVHN_HOME = "http://ufldl.stanford.edu/housenumbers"

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

CIFAR100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy",
    "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock",
    "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish",
    "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion",
    "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange",
    "orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk",
    "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
    "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale",
    "willow_tree", "wolf", "woman", "worm",
)  # fmt: skip

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
        npz_layout("cifar10.npz", "cifar10[-_]*.npz", "cifar-10*.npz"),
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
        npz_layout("cifar100.npz", "cifar100[-_]*.npz", "cifar-100*.npz"),
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
    classes=tuple("0123456789"),
    class_count=10,
    train_count=73257,
    test_count=26032,
    layouts=(
        Layout("svhn .mat files", (("train_32x32.mat",), ("test_32x32.mat",)), binary.read_svhn, (".", "SVHN")),
        npz_layout("svhn*.npz"),
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
            binary.read_stl10,
            ("stl10_binary", "."),
        ),
        npz_layout("stl10*.npz"),
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
            image_folders.read_tiny_imagenet,
            ("tiny-imagenet-200", "."),
            telling=("tiny-imagenet-200",),
        ),
        Layout("npz archive of JPEGs", (("tiny[-_]imagenet*.npz",),), npz.read_jpegs, accepts=npz.holds_jpegs),
        npz_layout("tiny[-_]imagenet*.npz"),
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


def _imagenet(name: str, title: str, classes: int, train_count: int, test_count: int) -> CatalogueEntry:
    """Two folders of photographs, read file by file; the validation images serve as test images."""
    layout = Layout(
        "train and val, a folder for each class",
        (("train",), ("val",)),
        partial(image_folders.read_class_folders, side=224),
        (name, "."),
        Path.is_dir,
        telling=(name,),
    )
    return CatalogueEntry(
        name=name,
        title=title,
        shape=(3, 224, 224),
        classes=(),
        class_count=classes,
        train_count=train_count,
        test_count=test_count,
        layouts=(layout,),
        home="https://www.image-net.org",
    )


_IMAGENET = _imagenet("imagenet", "ImageNet, ILSVRC 2012 (Russakovsky et al. 2015)", 1000, 1281167, 50000)
_IMAGENET100 = _imagenet("imagenet100", "ImageNet, 100 classes as drawn by Hou et al. 2019", 100, 129395, 5000)

PHOTOGRAPHS = (_CIFAR10, _CIFAR100, _SVHN, _STL10, _TINY_IMAGENET, _IMAGENET, _IMAGENET100)
