"""What holds for all right-hand sides alike."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from evolvent._core.state import parts
from evolvent.dynamics import Antisymmetric, Hamiltonian, Parabolic, ReactionDiffusion, Residual, SecondOrder
from evolvent.errors import ConfigError
from evolvent.operators import OPERATORS, make_operator

FAMILIES = {
    "antisymmetric": Antisymmetric,
    "hamiltonian": Hamiltonian,
    "parabolic": Parabolic,
    "reaction diffusion": ReactionDiffusion,
    "residual": Residual,
    "second order": SecondOrder,
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


def state(f, operator: str, size: int = 5, **kind):
    channels = 8 * (2 if isinstance(f, Hamiltonian) else 1)
    return f.enter(torch.randn(3, channels, *[size] * make_operator(operator, 8, 8).space_axes, **kind))


@pytest.mark.parametrize("norm", [None, "batch", "group"])
@pytest.mark.parametrize("operator", OPERATORS.names())
def test_every_operator_and_norm(family, operator, norm):
    if operator.startswith("steerable") and (norm == "group" or family is ReactionDiffusion):
        with pytest.raises(ConfigError, match="does not commute with the group"):
            family(8, operator=operator, norm=norm, bias=True)
        return
    f = family(8, operator=operator, norm=norm, bias=True)
    u = state(f, operator)
    change = f(0.0, u)
    assert [p.shape for p in parts(change)] == [p.shape for p in parts(u)]
    sum(p.square().sum() for p in parts(change)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in f.parameters())


@pytest.mark.parametrize("operator", ["full", "dense"])
def test_both_precisions(family, operator, dtype):
    f = family(8, operator=operator, norm="batch", bias=True).to(dtype)
    assert {p.dtype for p in parts(f(0.0, state(f, operator, dtype=dtype)))} == {dtype}


@pytest.mark.parametrize("operator", ["full", "dense"])
def test_no_tensor_is_made_elsewhere(family, operator):
    """On the meta device a tensor that sits on another one is an error."""
    f = family(8, operator=operator, norm="batch", bias=True).to("meta")
    assert {p.device.type for p in parts(f(0.0, state(f, operator, device="meta")))} == {"meta"}


def test_images_of_one_pixel_are_vectors(family):
    """Full convolutions act on a single pixel as the matrices in their middle."""
    on_vectors = family(8, operator="dense", bias=True, norm="batch").double()
    on_images = family(8, operator="full", bias=True, norm="batch").double()
    with torch.no_grad():
        _give(on_vectors, on_images)
        vectors = state(on_vectors, "dense", dtype=torch.float64)
        images = tuple(p[..., None, None] for p in parts(vectors))
        found = on_images(0.0, images if isinstance(vectors, tuple) else images[0])
        expected = on_vectors(0.0, vectors)
    for image, vector in zip(parts(found), parts(expected), strict=True):
        assert_close(image[..., 0, 0], vector, rtol=1e-12, atol=1e-12)


def _give(on_vectors: nn.Module, on_images: nn.Module) -> None:
    target = dict(on_images.named_parameters())
    for name, p in on_vectors.named_parameters():
        if name == "diffusion.weight":  # the depthwise one does not couple channels
            diagonal = torch.rand(len(p), dtype=p.dtype)
            p.copy_(diagonal.diag())
            target[name].zero_()[:, 0, 1, 1] = diagonal
        elif p.ndim == 2:
            target[name].normal_()[:, :, 1, 1] = p
        else:
            p.normal_()
            target[name].copy_(p)


def test_batch_statistics_move_in_training_and_rest_in_evaluation(family):
    f = family(8, norm="batch").train()
    u = state(f, "full")
    before = copy.deepcopy(f.state_dict())
    in_training = parts(f(0.0, u))[-1]
    moved = {n for n, b in f.state_dict().items() if not torch.equal(b, before[n])}
    assert moved
    assert all("running" in n or "num_batches" in n for n in moved)
    f.eval()
    resting = copy.deepcopy(f.state_dict())
    in_evaluation = parts(f(0.0, u))[-1]
    assert all(torch.equal(b, resting[n]) for n, b in f.state_dict().items())
    assert not torch.allclose(in_training, in_evaluation)
    alone = f(0.0, tuple(p[:1] for p in u) if isinstance(u, tuple) else u[:1])
    assert_close(parts(alone)[-1], in_evaluation[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operator", ["full", "dense"])
def test_copies_through_pickle_and_state(family, operator):
    f = family(8, operator=operator, norm="group", bias=True)
    u = state(f, operator)
    fresh = family(8, operator=operator, norm="group", bias=True)
    fresh.load_state_dict(f.state_dict())
    for twin in (pickle.loads(pickle.dumps(f)), fresh):
        assert_close(twin(0.0, u), f(0.0, u))


@pytest.mark.parametrize("low", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("operator", ["full", "dense"])
def test_autocast(family, operator, low):
    f = family(8, operator=operator, norm="batch", bias=True)
    with torch.autocast("cpu", dtype=low):
        change = f(0.0, state(f, operator))
        assert all(p.isfinite().all() for p in parts(change))
        if isinstance(f, ReactionDiffusion):
            assert f.solve(0.0, change, 0.1).isfinite().all()
