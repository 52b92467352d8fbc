"""Masks in colour, and the figures of each class."""

import dataclasses

import numpy as np
import pytest

from evolvent.data.known.street_scenes import BDD100K, CAMVID
from evolvent.experiments.record import read_record, write_evaluation, write_result
from evolvent.report import report_html
from evolvent.report.class_colours import class_colours, coloured
from evolvent.report.masks import median_iou
from evolvent.report.runs import list_series, read_runs

NAMES = ["sky", "road", "<b>car</b>"]


@pytest.mark.parametrize("classes", [CAMVID, BDD100K, tuple("abcdefghijkl")])
def test_classes_of_a_set_have_colours_of_their_own(classes):
    assert len(set(class_colours(classes))) == len(classes)


def test_a_mask_is_coloured_by_class_and_empty_elsewhere():
    picture = coloured(np.array([[0, 1], [2, 255]], np.uint8), ["sky", "road"])
    assert picture.shape == (2, 2, 4)
    assert "#" + picture[0, 0, :3].tobytes().hex() == class_colours(["sky", "road"])[0]
    assert picture[..., 3].tolist() == [[255, 255], [0, 0]]


@pytest.fixture
def streets(write_grid, make_recipe):
    """A grid for segmentation: two variants, two seeds."""
    source = make_recipe(task={"name": "segmentation"}, seeds=[0, 1], published=[])
    folder = write_grid(source, classes=NAMES, channels=3, size=32)
    rng = np.random.default_rng(0)
    images, labels = (
        rng.integers(0, 256, (2, 3, 12, 16), dtype=np.uint8),
        rng.integers(0, 4, (2, 12, 16), dtype=np.uint8),
    )
    for seed, cell in enumerate(sorted(folder.glob("cells/*"))):
        record = read_record(cell)
        assert record.result is not None
        assert record.evaluation is not None
        iou = [0.5 + 0.1 * seed, 0.25, None]
        write_result(cell / "result.json", dataclasses.replace(record.result, miou=0.4 + 0.01 * seed, iou=iou))
        shown = {"shown_images": images, "shown_labels": labels, "shown_predictions": np.minimum(labels, 2)}
        write_evaluation(cell / "evaluation.npz", dataclasses.replace(record.evaluation, image_label=-1, **shown))
    return folder


def test_the_page_shows_labels_and_every_prediction(streets):
    page = report_html([streets])
    assert '<section id="mistakes">' not in page
    masks = page[page.index('<section id="masks">') : page.index('<section id="iou">')]
    assert masks.count("<img ") == 2 * 4
    assert masks.count("100.0\N{NO-BREAK SPACE}% of pixels right") == 4
    assert "&lt;b&gt;car&lt;/b&gt;" in masks
    assert "<b>car" not in masks
    assert "Test mIoU: hamiltonian 40.5" in page
    assert "mIoU, standard deviation" in page


def test_the_median_over_seeds_leaves_out_classes_that_do_not_occur(streets):
    first, second = list_series(read_runs([streets]))
    assert median_iou(first) == [pytest.approx(0.55), 0.25, None]
    assert median_iou(second) == [pytest.approx(0.75), 0.25, None]


def test_segmentation_and_classification_side_by_side(streets, write_grid, make_recipe):
    page = report_html([streets, write_grid(make_recipe("plain"))])
    for anchor in ("masks", "iou", "mistakes"):
        assert f'<section id="{anchor}">' in page
    assert "Accuracy, median" in page
