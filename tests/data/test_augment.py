"""Augmentation equals its plain definition, image by image, and depends on (seed, epoch, index) alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from evolvent._core import randomness
from evolvent._core.errors import ModelFileError
from evolvent.data import Preprocess, per_pixel_mean, random_crop, random_exposure, random_flip

shapes = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))

seeds = st.integers(0, 99)


def _plain_crop(batch, pad, index, seed, epoch):
    height, width = batch.shape[2:]
    out = []
    for image, i in zip(batch, index, strict=True):
        padded = torch.zeros(image.shape[0], height + 2 * pad, width + 2 * pad, dtype=batch.dtype)
        padded[:, pad : pad + height, pad : pad + width] = image
        dy, dx = (int(randomness.integers(i, 2 * pad + 1, seed, epoch, stream)) for stream in (1, 2))
        out.append(padded[:, dy : dy + height, dx : dx + width])
    return torch.stack(out)


@settings(max_examples=60, deadline=None)
@given(shapes, st.integers(0, 5), seeds, seeds, st.sampled_from([torch.float32, torch.float64]))
def test_crop_equals_the_loop(shape, pad, seed, epoch, dtype):
    batch = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    index = torch.arange(shape[0]) * 7 + seed
    assert torch.equal(random_crop(batch, pad, index, seed, epoch), _plain_crop(batch, pad, index, seed, epoch))


@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(0, 99), st.integers(0, 99))
def test_flip_equals_the_loop(shape, seed, epoch):
    batch, index = torch.randn(shape, generator=torch.Generator().manual_seed(seed)), torch.arange(shape[0])
    draws = [float(randomness.uniform(i, seed, epoch, 3)) < 0.5 for i in index]
    plain = torch.stack([image.flip(-1) if draw else image for image, draw in zip(batch, draws, strict=True)])
    assert torch.equal(random_flip(batch, index, seed, epoch), plain)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(12)), st.integers(1, 12), st.integers(0, 99))
def test_a_sample_does_not_feel_its_batch(order, kept, epoch):
    batch, index = torch.randn(12, 2, 6, 6, generator=torch.Generator().manual_seed(1)), torch.arange(12) + 50
    rows = torch.tensor(order[:kept])
    for augment in (
        lambda x, i: random_crop(x, 3, i, 0, epoch),
        lambda x, i: random_flip(x, i, 0, epoch),
        lambda x, i: random_exposure(x, 1.5, i, 0, epoch),
    ):
        assert torch.equal(augment(batch[rows], index[rows]), augment(batch, index)[rows])


@settings(max_examples=40, deadline=None)
@given(shapes, st.floats(0, 4), seeds, seeds)
def test_exposure_equals_the_loop(shape, stops, seed, epoch):
    batch = torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    index = torch.arange(shape[0])
    gains = [2 ** (stops * (2 * float(randomness.uniform(i, seed, epoch, 4)) - 1)) for i in index]
    plain = torch.stack([(image.double() * gain).clamp(max=255) for image, gain in zip(batch, gains, strict=True)])
    lit = random_exposure(batch, stops, index, seed, epoch)
    torch.testing.assert_close(lit.double(), plain, rtol=1e-5, atol=1e-4)


def test_exposure_goes_both_ways_within_its_stops():
    gains = random_exposure(torch.ones(2000, 1, 1, 1), 1.5, torch.arange(2000), 0, 0).flatten().log2()
    assert gains.abs().max() <= 1.5 + 1e-5
    assert gains.min() < -1.4
    assert gains.max() > 1.4
    assert abs(gains.mean()) < 0.1


def test_preprocessing_leaves_its_argument_alone():
    images = torch.full((1, 1, 2, 2), 255.0)
    assert torch.equal(Preprocess(torch.zeros(1, 2, 2))(images), torch.ones(1, 1, 2, 2))
    assert torch.equal(images, torch.full((1, 1, 2, 2), 255.0))


def test_no_padding_is_the_identity():
    batch = torch.randn(3, 1, 4, 4)
    assert torch.equal(random_crop(batch, 0, torch.arange(3), 0, 0), batch)


def test_channels_last_memory_is_taken():
    batch = torch.randn(4, 3, 8, 8)
    index = torch.arange(4)
    turned = random_crop(batch.to(memory_format=torch.channels_last), 2, index, 0, 0)
    assert torch.equal(turned, random_crop(batch, 2, index, 0, 0))


def test_offsets_and_flips_are_uniform():
    """A picture whose pixels are numbered tells the offset at which it was cut; chi-square at 1 in 1000."""
    pad, count = 2, 20000
    side = 2 * pad + 1
    numbered = (torch.arange(side * side, dtype=torch.float32) + 1).view(1, 1, side, side).expand(count, 1, side, side)
    index = torch.arange(count)
    centre = random_crop(numbered, pad, index, seed=3, epoch=5)[:, 0, pad, pad].long() - 1
    assert chisquare(torch.bincount(centre, minlength=side * side).numpy()).pvalue > 1e-3
    flipped = random_flip(numbered, index, seed=3, epoch=5)[:, 0, 0, 0] != 1
    assert chisquare([int(flipped.sum()), count - int(flipped.sum())]).pvalue > 1e-3
    table = torch.bincount(centre * 2 + flipped, minlength=2 * side * side).numpy()
    assert chisquare(table).pvalue > 1e-3


def test_epochs_and_seeds_differ():
    batch, index = torch.randn(32, 1, 8, 8), torch.arange(32)
    first = random_crop(batch, 4, index, 0, 0)
    assert not torch.equal(first, random_crop(batch, 4, index, 0, 1))
    assert not torch.equal(first, random_crop(batch, 4, index, 1, 0))


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
    with pytest.raises(ModelFileError, match=r"preprocess.safetensors is missing, truncated or foreign") as caught:
        Preprocess.load(tmp_path)
    assert "\n" not in str(caught.value)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 4), seeds, seeds)
def test_a_mask_is_moved_as_its_image(pad, seed, epoch):
    """An image whose pixels are its labels stays so; what came in from outside is marked."""
    masks, index = torch.randint(1, 9, (5, 1, 6, 7)), torch.arange(5) + seed
    images = masks.double()
    moved = random_flip(random_crop(images, pad, index, seed, epoch), index, seed, epoch)
    labels = random_flip(random_crop(masks, pad, index, seed, epoch, fill=99), index, seed, epoch)
    assert torch.equal(labels == 99, moved == 0)
    assert torch.equal(labels[labels != 99].double(), moved[labels != 99])
