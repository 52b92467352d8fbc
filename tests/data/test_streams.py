"""No two uses of random numbers in this room draw with the same key."""

import itertools

import pytest
import torch

from evolvent._core import randomness
from evolvent.data import (
    Batches,
    CollocationPoints,
    ImageSet,
    ImageSource,
    add_noise,
    random_crop,
    random_exposure,
    random_flip,
    random_rotation,
    split,
)
from evolvent.equations.problems import create_problem

SEED, EPOCHS = 3, range(12)
BYTES = torch.zeros(8, 1, 4, 4, dtype=torch.uint8)
IMAGES = ImageSet(BYTES, torch.arange(8) % 2, ("even", "odd"))
ROWS = torch.arange(8)
HEAT = create_problem("heat")


def orders() -> None:
    batches = Batches(ImageSource(IMAGES), 4, seed=SEED)
    for epoch in (*EPOCHS, 0x5711):
        batches.at(epoch * len(batches))


USES = {
    "order": orders,
    "crop": lambda: [random_crop(BYTES, 1, ROWS, SEED, epoch) for epoch in EPOCHS],
    "flip": lambda: [random_flip(BYTES, ROWS, SEED, epoch) for epoch in EPOCHS],
    "exposure": lambda: [random_exposure(BYTES, 1.0, ROWS, SEED, epoch) for epoch in EPOCHS],
    "rotation": lambda: [random_rotation(BYTES, 9.0, ROWS, SEED, epoch) for epoch in EPOCHS],
    "noise": lambda: add_noise(BYTES, 0.1, ROWS, SEED),
    "split": lambda: split(IMAGES, 0.5, SEED),
    "collocation": lambda: [CollocationPoints(HEAT, 4).draw(4, SEED, number) for number in EPOCHS],
    "faces": lambda: [CollocationPoints(HEAT, 4).on_face({"t": 0.0}, 4, SEED, number) for number in EPOCHS],
    "samples": lambda: CollocationPoints(HEAT, 4).sampled(4, 0.1, SEED),
}


@pytest.fixture
def keys_of(monkeypatch):
    """Runs a use and returns the derived keys it drew with."""
    derive = randomness.derive_seed

    def keys(use: str) -> set[int]:
        found: set[int] = set()
        with monkeypatch.context() as patch:
            patch.setattr(randomness, "derive_seed", lambda *key: found.add(derive(*key)) or derive(*key))
            USES[use]()
        return found

    return keys


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(USES, 2)))
def test_two_uses_share_no_key(keys_of, one, other):
    assert keys_of(one)
    assert not keys_of(one) & keys_of(other)
