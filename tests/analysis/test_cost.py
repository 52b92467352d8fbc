import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evolvent import create_model
from evolvent.analysis import activation_bytes, count_all_pairs, count_multiply_adds, count_parameters, layer_costs
from evolvent.groups import cyclic, regular_fields
from evolvent.networks.nonlocal_block import NonlocalBlock
from evolvent.operators import FractionalLaplacian, InverseFractionalLaplacian, NonlocalDiffusion
from evolvent.operators.differential import NeuralEPDO


@pytest.mark.parametrize(("name", "millions"), [("hamiltonian74", 158.48), ("resnet44", 97.17)])
def test_multiply_adds_of_table_4(name, millions):
    found = count_multiply_adds(create_model(name), torch.zeros(3, 32, 32))
    assert found / 1e6 == pytest.approx(millions, rel=1e-3)


def test_multiply_adds_of_a_convolution_and_its_transpose():
    image = torch.zeros(2, 5, 7)
    by_hand = 2 * 4 * 9 * 5 * 7
    assert count_multiply_adds(nn.Conv2d(2, 4, 3, padding=1, bias=False), image) == by_hand
    assert count_multiply_adds(nn.ConvTranspose2d(2, 4, 3, padding=1, bias=False), image) == by_hand


def test_parameters_that_are_frozen_do_not_count():
    layer = nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    assert count_parameters(layer) == 6


def small(blocks: int = 2) -> nn.Module:
    return create_model("hamiltonian", channels=(4,), blocks=blocks, image_size=8)


def test_activations_grow_linearly_with_the_batch():
    found = [activation_bytes(small(), torch.zeros(batch, 3, 8, 8)) for batch in (2, 4, 6)]
    assert found[2] - found[1] == found[1] - found[0] > 0
    assert found[1] == 2 * found[0]


def test_activations_grow_linearly_with_the_blocks():
    found = [activation_bytes(small(blocks), torch.zeros(2, 3, 8, 8)) for blocks in (2, 4, 6)]
    assert found[2] - found[1] == found[1] - found[0] > 0


def test_activations_are_counted_in_bytes_of_their_dtype():
    images = torch.zeros(2, 3, 8, 8)
    assert activation_bytes(small().double(), images.double()) == 2 * activation_bytes(small(), images)


def test_parameters_and_repeated_storages_do_not_count():
    class Squares(nn.Module):
        def forward(self, x):
            return x * x + x * x

    x = torch.zeros(5, requires_grad=True)
    assert activation_bytes(Squares(), x) == 5 * 4


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "measure", [lambda m, x: count_multiply_adds(m, x[0]), activation_bytes], ids=["adds", "bytes"]
)
def test_model_and_random_numbers_are_left_alone(measure, training):
    model = create_model("resnet", channels=(4, 8), blocks=1, dropout=0.5).train(training)
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = [p.grad.clone() for p in model.parameters()]
    numbers = torch.random.get_rng_state()
    measure(model, torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(numbers, torch.random.get_rng_state())
    assert model.training is training
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))


KINDS = {
    "dot": lambda c, sub: NonlocalDiffusion(c, "dot", subsample=sub),
    "dot row sum": lambda c, sub: NonlocalDiffusion(c, "dot", normaliser="row_sum", subsample=sub),
    "gaussian": lambda c, sub: NonlocalDiffusion(c, "gaussian", subsample=sub),
    "attention": lambda c, sub: NonlocalDiffusion(c, "gaussian", normaliser="row_sum", subsample=sub),
    "fractional": lambda c, sub: FractionalLaplacian(c, subsample=sub),
    "riesz": lambda c, sub: InverseFractionalLaplacian(c, subsample=sub),
    "log": lambda c, sub: InverseFractionalLaplacian(c, 1.0, subsample=sub),
}


def evaluated(kind: str, n: int, m: int, c: int, d: int, stages: int) -> int:
    """Multiply-adds of all uses of a kernel, as it is evaluated."""
    if kind.startswith("dot"):
        return stages * (m * d * c + n * d * c) + n * d  # sums of products of strips, one product; row sums once
    if kind == "attention":
        return stages * 2 * n * m * c  # padded to the width of the strips
    widened = d if kind == "gaussian" else d + 2  # a distance is a product of vectors with two more entries
    row_sum = kind in ("gaussian", "fractional")
    return stages * n * m * (widened + c + row_sum)


@given(
    kind=st.sampled_from(list(KINDS)),
    half=st.integers(1, 4),
    size=st.sampled_from([(4, 4), (4, 6), (5, 7)]),
    subsample=st.integers(1, 2),
    stages=st.integers(1, 3),
)
def test_counts_are_those_by_hand(kind, half, size, subsample, stages):
    c, d, n = 2 * half, half, size[0] * size[1]
    m = -(-size[0] // subsample) * -(-size[1] // subsample)
    block = NonlocalBlock(c, KINDS[kind](c, subsample), stages=stages)
    image = torch.randn(c, *size)
    convolutions = 2 * n * c * d + stages * n * c * c
    assert count_all_pairs(block, image) == convolutions + n * m * d + stages * n * m * c
    assert count_multiply_adds(block, image) == convolutions + evaluated(kind, n, m, c, d, stages)


@pytest.mark.parametrize(
    ("size", "options", "millions"), [(32, {}, 191.06), (96, {"subsample": 4, "head_pool": 8}, 1988.1)]
)
def test_published_multiply_adds_are_those_of_all_pairs(size, options, millions):
    model = create_model("nonlocal_hamiltonian74", image_size=size, **options)
    assert count_all_pairs(model, torch.zeros(3, size, size)) / 1e6 == pytest.approx(millions, rel=1e-4)


def test_without_nonlocal_operators_both_counts_agree():
    model, image = create_model("hamiltonian", channels=(4, 8), blocks=1, image_size=8), torch.zeros(3, 8, 8)
    assert count_all_pairs(model, image) == count_multiply_adds(model, image)


def test_counting_leaves_the_model_alone():
    block = NonlocalBlock(4, "fractional")
    before = copy.deepcopy(block.state_dict())
    count_all_pairs(block, torch.zeros(4, 5, 5))
    assert repr(block.operator.affinity) == "Power(3, scale=1)"
    assert all(torch.equal(value, before[name]) for name, value in block.state_dict().items())


def test_layers_with_fused_attention_add_up():
    model = create_model("nonlocal_hamiltonian", channels=(4,), blocks=3, image_size=8, subsample=1)
    model.set_submodule("body.1", NonlocalBlock(4, KINDS["attention"](4, 1)))
    table = layer_costs(model, torch.zeros(2, 3, 8, 8))
    [nonlocal_layer] = [layer for layer in table.layers if layer.kind == "NonlocalBlock"]
    assert nonlocal_layer.multiply_adds == 2 * 64 * 8 + 2 * 64 * 16 + 2 * 2 * 64 * 64 * 4
    assert table.total.multiply_adds == count_multiply_adds(model, torch.zeros(3, 8, 8))


def test_sums_over_taps_count_with_and_without_compiled_kernels(monkeypatch):
    layer, image = NeuralEPDO(regular_fields(cyclic(4), 8), order=2), torch.zeros(32, 6, 6)
    maps = 36 * (32 * 16 + 16 * 6 * 4)  # the generator, by halves the products are half as large
    taps = 36 * (6 * 4 * 25 + 32 * 25)  # six derivatives of one field, summed for eight
    kernels = 4**3 * (4 * 8 + 6 * 4)  # made from the weights in every pass
    compiled = count_multiply_adds(layer, image)
    assert compiled == maps // 2 + taps + kernels
    monkeypatch.setattr("evolvent.operators.differential.taps.native_library", lambda _: None)
    assert count_multiply_adds(layer, image) == compiled
