import pytest
import torch
from torch import nn

from evolvent import create_model
from evolvent.analysis import activation_bytes, count_multiply_adds, count_parameters


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
