"""Weight smoothness over whole networks."""

import itertools

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent import evolutions
from evolvent.networks.roughness import weight_roughness


def test_nonlocal_blocks_do_not_break_the_sum_of_a_unit():
    model = ev.create_model("nonlocal_hamiltonian", channels=(4, 4), blocks=5, image_size=8, step_size=0.3).double()
    blocks = [f for _, evolution in evolutions(model) for f in evolution.dynamics]
    assert len(blocks) == 10
    expected = 0.0
    for unit in (blocks[:5], blocks[5:]):
        for before, after in itertools.pairwise(unit):
            for p, q in zip(before.parameters(), after.parameters(), strict=True):
                expected += (p - q).square().sum().item() / 0.3
    assert weight_roughness(model).item() == pytest.approx(expected, rel=1e-12)


def test_without_nonlocal_blocks_it_is_the_sum_over_evolutions():
    model = ev.create_model("hamiltonian", channels=(4, 4), blocks=3, image_size=8)
    expected = sum(evolution.roughness() for _, evolution in evolutions(model))
    torch.testing.assert_close(weight_roughness(model), expected)
    assert weight_roughness(nn.Linear(2, 2)) == 0


def test_the_term_across_a_nonlocal_block_has_a_gradient():
    model = ev.create_model("nonlocal_hamiltonian", channels=(4,), blocks=3, image_size=8)
    weight_roughness(model).backward()
    last = [evolution for _, evolution in evolutions(model)][-1]
    assert all(p.grad.abs().sum() > 0 for p in last.parameters())
