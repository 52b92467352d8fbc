import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolvent._core.randomness import Stream, derive_seed, integers, key, permutation, reseed, uniform

keys = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3).map(tuple)


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.sum() / len(counts)
    return ((counts - expected) ** 2 / expected).sum().item()


def test_mixer_is_splitmix64():
    """First output of the published SplitMix64 for seed 0, less the bit that makes the seed non-negative."""
    assert derive_seed(0) == 0xE220A8397B1DCDAF >> 1


@pytest.mark.parametrize("key", [(), (0,), (7, 3), (-1, 2**62)])
def test_uniform_numbers_are_uniform(key):
    u = uniform(torch.arange(100_000), *key)
    assert 0 <= u.min() < u.max() < 1
    counts = torch.histc(u, bins=100, min=0, max=1)
    assert chi_square(counts) < 160  # 99 degrees of freedom: exceeded once in 10,000 keys


def test_numbers_of_neighbouring_keys_and_places_are_independent():
    place = torch.arange(40_000)
    first = uniform(place, 0, 1)
    for other in (uniform(place, 0, 2), uniform(place, 1, 1), uniform(place + 1, 0, 1)):
        pairs = (first * 10).long() * 10 + (other * 10).long()
        assert chi_square(torch.bincount(pairs, minlength=100).double()) < 160


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20), keys)
def test_a_number_depends_on_its_place_alone(places, key):
    index = torch.tensor(places)
    whole = uniform(index, *key)
    assert torch.equal(whole.flip(0), uniform(index.flip(0), *key))
    assert torch.equal(whole[-1:], uniform(index[-1:], *key))
    assert torch.equal(whole, uniform(index[None], *key)[0])
    assert torch.equal(whole, uniform(index.to(torch.int32), *key))


def test_drawing_touches_no_global_state():
    before = torch.random.get_rng_state()
    uniform(torch.arange(5), 1), permutation(5, 1), derive_seed(1)
    assert torch.equal(before, torch.random.get_rng_state())


@given(keys)
def test_seeds_are_non_negative_63_bit_numbers(key):
    assert 0 <= derive_seed(*key) < 2**63
    torch.Generator().manual_seed(derive_seed(*key))


def test_seeds_do_not_collide_and_know_their_order():
    seeds = {derive_seed(a, b, c) for a in range(20) for b in range(50) for c in range(10)}
    seeds |= {derive_seed(a, b) for a in range(20) for b in range(50)} | {derive_seed(a) for a in range(100)}
    assert len(seeds) == 20 * 50 * 10 + 20 * 50 + 100


@given(st.integers(0, 300), keys)
def test_permutation_is_one(count, key):
    found = permutation(count, *key)
    assert torch.equal(found.sort().values, torch.arange(count))
    assert torch.equal(found, permutation(count, *key))


def test_permutations_of_other_keys_differ():
    assert not torch.equal(permutation(50, 0), permutation(50, 1))


def test_every_place_of_a_permutation_is_equally_likely():
    first = torch.tensor([permutation(10, key)[0] for key in range(4000)])
    assert chi_square(torch.bincount(first, minlength=10).double()) < 34  # 9 degrees of freedom, once in 10,000


@pytest.mark.parametrize("high", [1, 2, 7, 1000, 2**24])
def test_integers_stay_below(high):
    found = integers(torch.arange(20_000), high, 3)
    assert found.dtype == torch.int64
    assert found.min() >= 0
    assert found.max() < high


def test_integers_are_uniform():
    counts = torch.bincount(integers(torch.arange(70_000), 7, 5), minlength=7).double()
    assert chi_square(counts) < 28  # 6 degrees of freedom, once in 10,000


def test_reseed_makes_torch_repeat_itself_and_queues_nothing():
    before = len(torch.cuda._queued_calls)
    reseed(3, 1)
    first = torch.rand(4)
    reseed(3, 2)
    second = torch.rand(4)
    reseed(3, 1)
    assert torch.equal(torch.rand(4), first)
    assert not torch.equal(first, second)
    assert len(torch.cuda._queued_calls) == before


def drawn_keys(stream: Stream, seeds: range, places: range) -> set[int]:
    """Every derived key of a stream, with those that normal numbers derive from it."""
    used = [key(stream, seed, *p) for seed in seeds for p in itertools.product(places, repeat=len(stream.place))]
    pairs = [(*k, half) for k in used for half in range(2)] if stream in (Stream.TEST_NOISE, Stream.CORRUPTION) else []
    derived = {derive_seed(*k) for k in used + pairs}
    assert len(derived) == len(used + pairs), f"{stream.name} meets itself"
    return derived


@pytest.mark.parametrize("seeds_torch", [False, True], ids=["counter", "torch"])
def test_no_two_streams_of_a_generator_share_a_key(seeds_torch):
    streams = [stream for stream in Stream if stream.seeds_torch is seeds_torch]
    keys_of = {stream: drawn_keys(stream, range(6), range(40)) for stream in streams}
    for one, other in itertools.combinations(streams, 2):
        assert not keys_of[one] & keys_of[other], f"{one.name} and {other.name} share a key"


@given(st.sampled_from(list(Stream)), st.sampled_from(list(Stream)), st.integers(0, 99), st.lists(st.integers(0, 99)))
def test_distinct_streams_have_distinct_keys_at_any_place(one, other, seed, numbers):
    """As tuples, hence not by luck of the hash."""
    numbers = [*numbers, 0, 0]
    if one is not other and one.seeds_torch is other.seeds_torch:
        assert key(one, seed, *numbers[: len(one.place)]) != key(other, seed, *numbers[: len(other.place)])


def test_a_key_has_as_many_places_as_its_stream():
    with pytest.raises(ValueError, match=r"ORDER takes the seed and \('epoch',\), got 2"):
        key(Stream.ORDER, 0, 1, 2)


def test_streams_keep_their_numbers():
    """A value that changes silently changes every training."""
    assert {stream.name: int(stream) for stream in Stream} == {
        "ORDER": 0, "CROP_ROW": 1, "CROP_COLUMN": 2, "FLIP": 3, "EXPOSURE": 4, "TEST_NOISE": 5, "SUBSET": 6,
        "TEST_SPLIT": 7, "WEIGHTS": 8, "STEP": 9, "POINTS": 10, "NODES": 12, "ROTATION": 13, "COEFFICIENTS": 14,
        "EPISODE_CLASSES": 20, "EPISODE_POINTS": 21, "EPISODE_SIZES": 22, "COLLOCATION": 23, "SAMPLES": 24,
        "SAMPLE_NOISE": 25, "BROWNIAN": 26, "CORRUPTION": 30, "ATTACK": 31, "DENSITY": 34,
    }  # fmt: skip


def test_the_random_numbers_of_a_training_are_frozen():
    index = torch.arange(8)
    assert permutation(12, *key(Stream.ORDER, 3, 2)).tolist() == [4, 3, 2, 11, 7, 10, 1, 6, 8, 5, 0, 9]
    assert permutation(12, *key(Stream.ORDER, 0, 0)).tolist() == [11, 8, 6, 2, 9, 0, 7, 3, 10, 4, 1, 5]
    assert integers(index, 9, *key(Stream.CROP_ROW, 3, 2)).tolist() == [5, 8, 5, 6, 8, 8, 2, 5]
    assert integers(index, 9, *key(Stream.CROP_COLUMN, 3, 2)).tolist() == [2, 2, 4, 8, 0, 1, 1, 8]
    assert integers(index, 9, *key(Stream.FLIP, 3, 2)).tolist() == [6, 8, 2, 1, 5, 6, 5, 5]
    assert integers(index, 9, *key(Stream.EXPOSURE, 3, 2)).tolist() == [3, 4, 3, 2, 4, 5, 5, 5]
    exposures = uniform(index[:3], *key(Stream.EXPOSURE, 3, 2)).tolist()
    assert exposures == pytest.approx([0.334652066, 0.534942091, 0.436276674], abs=1e-9)


@pytest.mark.parametrize(
    ("parts", "seed", "first"),
    [
        (key(Stream.WEIGHTS, 5), 3567305580077179309, 0.9779666662216187),
        (key(Stream.STEP, 5, 7, 1), 692461899422955013, 0.9268831610679626),
    ],
    ids=["weights", "step"],
)
def test_the_seeds_of_torch_in_a_training_are_frozen(parts, seed, first):
    reseed(*parts)
    assert torch.initial_seed() == seed
    assert torch.rand(1).item() == first
