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
