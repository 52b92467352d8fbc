import pytest
import torch

from evolvent.data import ImageSet
from evolvent.errors import ShapeError


def test_subset_keeps_the_order_asked_for(pictures):
    index = torch.tensor([7, 3, 3])
    part = pictures.subset(index)
    assert torch.equal(part.images, pictures.images[index])
    assert part.labels.tolist() == [2, 3, 3]
    assert (len(part), part.shape, part.class_counts()) == (3, (3, 8, 8), (0, 0, 1, 2, 0))


@pytest.mark.parametrize(
    ("images", "labels"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64)),
        (torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(2)),
    ],
)
def test_other_tensors_are_refused(images, labels):
    with pytest.raises(ShapeError, match="got"):
        ImageSet(images, labels, ("a",))


def masked(*, labels: torch.Tensor) -> ImageSet:
    return ImageSet(torch.zeros(len(labels), 3, 2, 3, dtype=torch.uint8), labels, ("a", "b"), ignore=2)


def test_masks_are_counted_by_pixels_that_have_a_class():
    images = masked(labels=torch.tensor([[[0, 0, 1], [2, 2, 1]], [[0, 2, 2], [2, 2, 2]]], dtype=torch.uint8))
    assert images.has_masks
    assert images.class_counts() == (3, 2)
    part = images.subset(torch.tensor([1]))
    assert (part.class_counts(), part.ignore) == ((1, 0), 2)


@pytest.mark.parametrize(
    "labels", [torch.zeros(2, dtype=torch.int64), torch.zeros(2, 3, 2, dtype=torch.uint8), torch.zeros(2, 2, 3)]
)
def test_masks_of_another_shape_or_kind_are_refused(labels):
    with pytest.raises(ShapeError, match=r"labels must be uint8 of shape \(2, 2, 3\), got"):
        masked(labels=labels)
