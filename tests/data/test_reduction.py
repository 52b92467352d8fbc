"""Smaller images and masks equal the plain definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.data import ImageData, ImageSet, majority_of_squares, mean_of_squares, reduced
from evolvent.errors import ConfigError


@given(st.integers(1, 3), st.integers(3, 8), st.integers(3, 8), st.integers(0, 99))
def test_means_and_majorities_equal_the_loop(factor, height, width, seed):
    draw = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (3, 2, height, width), generator=draw, dtype=torch.uint8)
    masks = torch.randint(0, 3, (3, height, width), generator=draw, dtype=torch.uint8)
    means, majorities = mean_of_squares(images, factor, chunk=2), majority_of_squares(masks, factor)
    assert means.shape == (3, 2, height // factor, width // factor)
    assert majorities.shape == (3, height // factor, width // factor)
    for i in range(height // factor):
        for j in range(width // factor):
            rows, columns = slice(i * factor, (i + 1) * factor), slice(j * factor, (j + 1) * factor)
            plain = images[..., rows, columns].double().mean((-2, -1))
            assert (means[..., i, j].double() - plain).abs().max() <= 0.5 + 1e-5
            for mask, found in zip(masks[:, rows, columns], majorities[:, i, j], strict=True):
                counts = torch.bincount(mask.flatten(), minlength=3)
                assert int(found) == int((counts == counts.max()).nonzero()[0])


@pytest.fixture
def streets() -> ImageData:
    masks = torch.randint(0, 3, (4, 6, 8), dtype=torch.uint8)
    part = ImageSet(torch.zeros(4, 3, 6, 8, dtype=torch.uint8), masks, ("a", "b"), ignore=2)
    return ImageData("streets", part, part, "made up", part)


def test_a_whole_set_is_reduced_with_its_masks(streets):
    small = reduced(streets, 2)
    assert small.val is not None
    for part in (small.train, small.val, small.test):
        assert (part.shape, tuple(part.labels.shape)) == ((3, 3, 4), (4, 3, 4))
    assert "reduced 2 times" in small.source
    assert reduced(streets, 1) is streets


def test_labels_of_whole_images_stay(pictures):
    data = ImageData("pictures", pictures, pictures, "made up")
    small = reduced(data, 4)
    assert small.train.shape == (3, 2, 2)
    assert torch.equal(small.train.labels, pictures.labels)


def test_more_than_the_image_is_refused(streets):
    with pytest.raises(ConfigError, match=r"data.reduce is 7, but images of streets are \(6, 8\)"):
        reduced(streets, 7)
