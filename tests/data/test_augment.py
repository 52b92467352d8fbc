"""Augmentation and noise equal their plain definitions and depend on (seed, epoch, index) alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import affine_transform
from scipy.stats import chisquare, kstest

from evolvent._core import randomness
from evolvent.data import add_noise, random_crop, random_exposure, random_flip, random_rotation, rotate
from evolvent.errors import ShapeError

shapes = st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))

seeds = st.integers(0, 99)

GREY = torch.full((8, 3, 16, 16), 128, dtype=torch.uint8)


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
@given(shapes, st.data(), seeds, seeds, st.sampled_from([torch.float32, torch.float64]))
def test_crop_equals_the_loop(shape, data, seed, epoch, dtype):
    pad = data.draw(st.integers(0, min(5, max(shape[2:]))), "pad")
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
        lambda x, i: random_rotation(x, 180.0, i, 0, epoch, fill=2.0),
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


@pytest.mark.parametrize("augment", [random_crop, random_rotation])
def test_epochs_and_seeds_differ(augment):
    batch, index = torch.randn(32, 1, 8, 8), torch.arange(32)
    first = augment(batch, 4, index, 0, 0)
    assert not torch.equal(first, augment(batch, 4, index, 0, 1))
    assert not torch.equal(first, augment(batch, 4, index, 1, 0))


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


def _noise(shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 33), st.integers(-4, 4), st.booleans())
def test_quarter_turns_are_those_of_rot90(count, channels, side, quarters, nearest):
    batch = _noise((count, channels, side, side), side)
    turned = rotate(batch, torch.full((count,), 90.0 * quarters), nearest=nearest)
    torch.testing.assert_close(turned, torch.rot90(batch, quarters, (2, 3)), rtol=0, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(shapes, st.sampled_from([0.0, 360.0, -720.0]), st.booleans())
def test_no_turn_and_whole_turns_give_the_image(shape, degrees, nearest):
    batch = _noise(shape)
    turned = rotate(batch, torch.full((shape[0],), degrees), fill=5.0, nearest=nearest)
    torch.testing.assert_close(turned, batch, rtol=0, atol=1e-5)
    assert torch.equal(random_rotation(batch, 0.0, torch.arange(shape[0]), 0, 0), batch)


@settings(max_examples=40, deadline=None)
@given(shapes, st.floats(-200, 200))
def test_rotation_is_that_of_scipy(shape, degrees):
    """Both interpolate bilinearly; scipy treats the border otherwise, so images are framed by zeros."""
    batch = torch.nn.functional.pad(_noise(shape, dtype=torch.float64), (2, 2, 2, 2))
    turned = rotate(batch, torch.full((shape[0],), degrees, dtype=torch.float64))
    cosine, sine = (float(f(torch.tensor(degrees, dtype=torch.float64).deg2rad())) for f in (torch.cos, torch.sin))
    back = torch.tensor([[cosine, sine], [-sine, cosine]], dtype=torch.float64)  # of (row, column)
    centre = (torch.tensor(batch.shape[2:], dtype=torch.float64) - 1) / 2
    offset = (centre - back @ centre).numpy()
    for image, found in zip(batch.flatten(0, 1), turned.flatten(0, 1), strict=True):
        plain = affine_transform(image.numpy(), back.numpy(), offset, order=1)
        torch.testing.assert_close(found, torch.from_numpy(plain), rtol=0, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 180), seeds, seeds)
def test_a_constant_image_in_front_of_itself_does_not_change(limit, seed, epoch):
    mean = torch.rand(3, 1, 1)
    turned = random_rotation(mean.expand(4, 3, 7, 10), limit, torch.arange(4), seed, epoch, fill=mean)
    torch.testing.assert_close(turned, mean.expand(4, 3, 7, 10))


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 180), seeds, seeds)
def test_a_turned_mask_has_its_labels_and_void_alone(limit, seed, epoch):
    masks, index = torch.full((5, 1, 9, 8), 7), torch.arange(5) + seed
    turned = random_rotation(masks, limit, index, seed, epoch, fill=99, nearest=True)
    inside = random_rotation(masks.double(), limit, index, seed, epoch)
    assert turned.dtype == masks.dtype
    assert set(turned.unique().tolist()) <= {7, 99}
    assert (inside[turned == 99] < 7).all()  # void where the image ends
    assert (inside[turned == 7] > 0).all()


def test_angles_are_uniform_between_both_limits():
    """The angle of a step from dark to bright is that of the centre of its bright half."""
    side, count = 17, 4000
    wedge = (torch.arange(side) > side // 2).double().expand(count, 1, side, side)  # bright at the right
    bright = random_rotation(wedge, 60.0, torch.arange(count), seed=1, epoch=2)[:, 0]
    places = torch.arange(side, dtype=torch.float64) - side // 2
    across, down = (bright.sum(1) * places).sum(1), (bright.sum(2) * places).sum(1)
    degrees = torch.atan2(-down, across).rad2deg()
    assert degrees.abs().max() < 62
    assert kstest(degrees.numpy(), "uniform", (-60, 120)).pvalue > 1e-3


def test_numbers_are_standard_normal():
    numbers = randomness.normal(torch.arange(20_000), 3, 4)
    assert kstest(numbers.numpy(), "norm").pvalue > 0.01
    assert randomness.normal(torch.arange(10**6), 0).isfinite().all()


@pytest.mark.parametrize("level", [0.02, 0.1])
def test_level_is_the_standard_deviation_as_a_share_of_the_pixel_range(level):
    noise = add_noise(GREY, level, torch.arange(8), 0).double() - 128
    assert noise.std().item() == pytest.approx(255 * level, rel=0.03)
    assert noise.mean().item() == pytest.approx(0, abs=6 * level)


def test_images_stay_bytes():
    ends = torch.tensor([0, 255], dtype=torch.uint8).repeat(8, 3, 16, 8)
    noisy = add_noise(ends, 0.5, torch.arange(8), 0)
    assert noisy.dtype == torch.uint8
    assert noisy[..., ::2].double().mean() < 100  # darker half of the noise is cut off, not wrapped around
    assert noisy[..., 1::2].double().mean() > 155
    assert torch.equal(add_noise(ends, 0.0, torch.arange(8), 0), ends)
    assert add_noise(ends[:0], 0.5, torch.arange(0), 0).shape == (0, 3, 16, 16)


def test_noise_depends_on_seed_and_row_alone():
    rows = torch.tensor([6, 2, 5])
    whole = add_noise(GREY, 0.1, torch.arange(8), 1)
    assert torch.equal(add_noise(GREY[rows], 0.1, rows, 1), whole[rows])
    assert not torch.equal(add_noise(GREY, 0.1, torch.arange(8), 2), whole)
    assert not torch.equal(whole[0], whole[1])


def test_levels_share_their_draw():
    weak, strong = (add_noise(GREY, level, torch.arange(8), 0).double() - 128 for level in (0.05, 0.1))
    assert (strong - 2 * weak).abs().max() <= 1.5


@pytest.mark.parametrize("change", [add_noise, random_crop, random_exposure, random_flip, random_rotation, rotate])
def test_what_is_no_batch_of_images_is_refused(change):
    rest = [torch.zeros(2)] * (change in (random_flip, rotate)) or [1, torch.zeros(2)]
    seeds = {add_noise: [0], rotate: []}.get(change, [0, 0])
    for one in (None, torch.zeros(2, 3, 4)):
        with pytest.raises(ShapeError, match=f"{change.__name__} takes images"):
            change(one, *rest, *seeds)
