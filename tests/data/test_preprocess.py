"""Reduced images and masks equal the plain definition; the mean image is subtracted, saved and read back."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent.data import (
    ImageData,
    ImageSet,
    Preprocess,
    majority_of_squares,
    mean_image,
    mean_of_squares,
    per_pixel_mean,
    reduced,
)
from evolvent.errors import ConfigError, ModelFileError


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


def test_preprocessing_leaves_its_argument_alone():
    images = torch.full((1, 1, 2, 2), 255.0)
    assert torch.equal(Preprocess(torch.zeros(1, 2, 2))(images), torch.ones(1, 1, 2, 2))
    assert torch.equal(images, torch.full((1, 1, 2, 2), 255.0))


def test_mean_is_the_mean(pictures):
    expected = (pictures.images.double() / 255).mean(0)
    for chunk in (7, 60, 100):
        torch.testing.assert_close(per_pixel_mean(pictures.images, chunk).double(), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_preprocess_centres(pictures, dtype):
    preprocess = Preprocess(per_pixel_mean(pictures.images)).to(dtype)
    out = preprocess(pictures.images)
    assert out.dtype == dtype
    assert out.mean(0).abs().max() < 1e-6
    assert list(preprocess.state_dict()) == ["mean"]
    torch.testing.assert_close(out[0], pictures.images[0].to(dtype) / 255 - preprocess.mean)


def test_preprocessing_is_saved_with_a_model_and_read_back(tmp_path):
    preprocess = Preprocess(torch.rand(3, 4, 4))
    preprocess.save(tmp_path)
    assert torch.equal(Preprocess.load(tmp_path).mean, preprocess.mean)


@pytest.mark.parametrize("content", [None, b"", b"half of it"])
def test_a_missing_or_truncated_preprocessing_is_refused_in_one_line(tmp_path, content):
    if content is not None:
        (tmp_path / "preprocess.safetensors").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"preprocess\.safetensors .*(missing|truncated)") as caught:
        Preprocess.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_mean_colour_is_the_same_at_every_pixel_so_centring_commutes_with_rotation():
    images = torch.randint(0, 256, (5, 3, 6, 6), dtype=torch.uint8)
    centre = Preprocess(mean_image(images, "colour"))
    assert centre.mean.shape == (3, 1, 1)
    assert torch.allclose(centre.mean[:, 0, 0], images.float().div(255).mean((0, 2, 3)))
    assert torch.equal(centre(images.rot90(1, (2, 3))), centre(images).rot90(1, (2, 3)))
    by_image = Preprocess(mean_image(images))
    assert not torch.equal(by_image(images.rot90(1, (2, 3))), by_image(images).rot90(1, (2, 3)))
