"""Nonlocal blocks and networks against Bohn, Griebel, Kannan 2021, eq. 4.1 to 4.6 and Table 1, written out."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent import create_model, refine
from evolvent.analysis import count_parameters
from evolvent.dynamics import NonlocalSystem
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.integrators import Verlet
from evolvent.networks import NonlocalBlock
from evolvent.operators import NonlocalDiffusion
from evolvent.testing import check_compiles, check_network

OPERATORS = ["diffusion", "fractional", "riesz", "log"]
GAMMA = 0.57721566490153286
every_operator = pytest.mark.parametrize("operator", OPERATORS)


def all_pairs(block: NonlocalBlock, name: str, x: Tensor, pool: int, scale: float):
    """The operator of the block as a function of features, with the kernel of ``x`` as one N x M tensor."""
    theta, phi = block.operator.theta, block.operator.phi
    assert theta is not None
    assert phi is not None
    a = theta(x).flatten(2).mT
    b = F.max_pool2d(phi(x), pool).flatten(2).mT
    distance = (a[:, :, None] - b[:, None]).norm(dim=-1)
    kernel, constant = {
        "diffusion": lambda: (scale * a @ b.mT, 1.0),
        "fractional": lambda: (scale / distance**3, 1 / (2 * torch.pi)),
        "riesz": lambda: (scale / distance, 1 / (2 * torch.pi)),
        "log": lambda: (-2 * scale * distance.log() - GAMMA, 1 / (4 * torch.pi)),
    }[name]()

    def act(v: Tensor) -> Tensor:
        i, j = v.flatten(2).mT, F.max_pool2d(v, pool).flatten(2).mT
        terms = {"diffusion": j[:, None] - i[:, :, None], "fractional": i[:, :, None] - j[:, None]}
        sums = (kernel[..., None] * terms.get(name, j[:, None])).sum(2)
        return (constant * sums / kernel.shape[2]).mT.reshape(v.shape)

    return act


def generic_block(operator: str, stages: int, pool: int) -> NonlocalBlock:
    block = NonlocalBlock(4, operator, stages=stages, subsample=pool, step_size=0.3, scale=0.7).double()
    for norm in (m for m in block.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return block


@every_operator
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("pool", [1, 2])
def test_block_is_its_stages_written_out(operator, stages, pool):
    block = generic_block(operator, stages, pool)
    x = torch.randn(2, 4, 4, 6, dtype=torch.float64, requires_grad=True)
    act, before, now = all_pairs(block, operator, x, pool, 0.7), x, x
    for outer in block.outer:
        conv, _, norm = outer
        before, now = now, before + 0.3 * norm(conv(act(now)).relu())
    inputs = [x, *block.parameters()]
    found = block(x)
    assert_close(found, now, rtol=1e-10, atol=1e-10)
    weights = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((weights * v).sum(), inputs) for v in (found, now)), strict=True):
        assert_close(a, b, rtol=1e-8, atol=1e-10 * max(1.0, b.abs().max().item()))


@every_operator
@pytest.mark.parametrize("steps", [1, 2])
def test_block_is_verlet_steps_of_the_system(operator, steps):
    block, x = generic_block(operator, 2 * steps, 1).eval(), torch.randn(2, 4, 4, 4, dtype=torch.float64)
    state = (x, -x)
    for k in range(steps):
        system = NonlocalSystem(block.outer[2 * k], block.outer[2 * k + 1], block.operator.at(x))
        state = Verlet().step(system, 0.0, state, 0.3)
    assert_close(block(x), -state[1])


def test_block_in_another_network():
    own = NonlocalBlock(4, NonlocalDiffusion(4, "gaussian", normaliser="row_sum", embedding="shared"), stages=3)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), own, nn.Flatten(), nn.LazyLinear(2))
    assert net(torch.randn(2, 1, 8, 9)).shape == (2, 2)
    assert "stages=3, step_size=0.1" in repr(own)


def test_wrong_blocks_are_refused():
    for options in ({"stages": 0}, {"step_size": 0.0}, {"scale": -1.0}, {"subsample": 0}):
        with pytest.raises(ConfigError, match="got"):
            NonlocalBlock(4, **options)
    with pytest.raises(ConfigError, match="even"):
        NonlocalBlock(5)
    with pytest.raises(UnknownNameError, match="Did you mean 'riesz'"):
        NonlocalBlock(4, "ries")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="do not fit"):
        NonlocalBlock(4, subsample=5)(torch.zeros(2, 4, 4, 8))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, 558_762),
        ({"num_classes": 100}, 720_132),
        ({"image_size": 96, "head_pool": 8, "subsample": 4}, 550_922),
        ({"num_classes": 20, "readout": "segmentation", "subsample": 3}, 543_092),
        ({"bias": True, "norm": "batch"}, 562_506),
        ({"stages": 4}, 594_922),
        ({"stages": 4, "num_classes": 100}, 756_292),
        ({"stages": 4, "image_size": 96, "head_pool": 8}, 587_082),
    ],
)
def test_parameters_are_those_of_the_paper(options, count):
    assert count_parameters(create_model("nonlocal_hamiltonian74", **options)) == count


def test_names_are_operators():
    for name in OPERATORS[1:]:
        member, whole = create_model(f"{name}_hamiltonian74"), create_model("nonlocal_hamiltonian74", operator=name)
        assert str(member) == str(whole)


def test_block_stands_after_the_second():
    for blocks, kinds in [(1, "EN"), (2, "EN"), (3, "ENE"), (6, "ENE")]:
        model = create_model("nonlocal_hamiltonian", channels=(4,), blocks=blocks)
        assert "".join(type(m).__name__[0] for m in model.body) == kinds
    assert [len(create_model("nonlocal_hamiltonian74").body[k].dynamics) for k in (0, 2, 4, 6)] == [2, 4, 2, 4]


SMALL = {"channels": (4, 8), "blocks": 3}


@every_operator
@pytest.mark.parametrize("options", [{}, {"readout": "segmentation", "subsample": 3, "stages": 1}])
def test_options_keep_the_contract(operator, options):
    check_network("nonlocal_hamiltonian", torch.randn(2, 3, 32, 32), operator=operator, **SMALL, **options)


@every_operator
def test_network_can_be_compiled(operator):
    model = create_model("nonlocal_hamiltonian", operator=operator, channels=(4,), blocks=1, image_size=8)
    check_compiles(model, torch.randn(2, 3, 8, 8), backend="aot_eager")


def test_segmentation_takes_any_image():
    model = create_model("nonlocal_hamiltonian", readout="segmentation", num_classes=5, subsample=3, **SMALL)
    assert model(torch.randn(2, 3, 7, 10)).shape == (2, 5, 7, 10)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e4])
@every_operator
def test_constant_images_train(operator, constant):
    model = create_model("nonlocal_hamiltonian", operator=operator, **SMALL)
    model(torch.full((2, 3, 32, 32), constant)).square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="do not fit"):
        create_model("nonlocal_hamiltonian", image_size=8, subsample=4, head_pool=1)
    with pytest.raises(ConfigError, match="operator"):
        create_model("nonlocal_hamiltonian", operator="laplace")
    with pytest.raises(ConfigError, match="even"):
        create_model("nonlocal_hamiltonian", channels=(3,))


def test_refinement_is_refused_since_the_block_keeps_its_place():
    with pytest.raises(ConfigError, match="cannot be refined"):
        refine(create_model("nonlocal_hamiltonian", **SMALL))
