"""Nonlocal blocks against Bohn, Griebel, Kannan 2021, eq. 4.1 to 4.6, written out with all pairs of strips."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from evolvent.dynamics import NonlocalSystem
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.groups import Field, cyclic, dihedral, irrep, quotient, regular_fields
from evolvent.integrators import Verlet
from evolvent.networks import NonlocalBlock
from evolvent.operators import NonlocalDiffusion
from evolvent.operators.differential import EquivarianceWarning, FieldBatchNorm
from evolvent.testing import check_equivariance, check_exports

NAMED = ["diffusion", "fractional", "riesz", "log"]
OPERATORS = [*NAMED, "dot over row sum", "gaussian", "gaussian over row sum"]
SCALE, STEP = 0.7, 0.3
GAMMA = 0.57721566490153286
every_operator = pytest.mark.parametrize("operator", OPERATORS)


def generic_block(operator: str, stages: int, pool: int) -> NonlocalBlock:
    """A block in float64 whose normalisations do something."""
    if operator in NAMED:
        block = NonlocalBlock(4, operator, stages=stages, subsample=pool, step_size=STEP, scale=SCALE)  # type: ignore[arg-type]
    else:
        affinity, normaliser = operator.split()[0], "row_sum" if "row" in operator else "count"
        own = NonlocalDiffusion(4, affinity, scale=SCALE, normaliser=normaliser, subsample=pool)  # type: ignore[arg-type]
        block = NonlocalBlock(4, own, stages=stages, step_size=STEP)
    return awake(block).double()


def awake(block: NonlocalBlock) -> NonlocalBlock:
    """A block that is not the identity any more."""
    for norm in (m for m in block.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    return block


def all_pairs(block: NonlocalBlock, name: str, x: Tensor, pool: int):
    """The operator of the block as a function of features, with the kernel of ``x`` as one N x M tensor."""
    theta, phi = block.operator.theta, block.operator.phi
    assert theta is not None
    assert phi is not None
    a = theta(x).flatten(2).mT
    b = F.max_pool2d(phi(x), pool).flatten(2).mT
    distance = (a[:, :, None] - b[:, None]).norm(dim=-1)
    kernel, constant = {
        "diffusion": lambda: (SCALE * a @ b.mT, 1.0),
        "dot": lambda: (SCALE * a @ b.mT, 1.0),
        "gaussian": lambda: ((SCALE * a @ b.mT).exp(), 1.0),
        "fractional": lambda: (SCALE / distance**3, 1 / (2 * torch.pi)),
        "riesz": lambda: (SCALE / distance, 1 / (2 * torch.pi)),
        "log": lambda: (-2 * SCALE * distance.log() - GAMMA, 1 / (4 * torch.pi)),
    }[name.split()[0]]()
    norm = kernel.sum(2, keepdim=True) if "row" in name else kernel.shape[2]

    def act(v: Tensor) -> Tensor:
        i, j = v.flatten(2).mT[:, :, None], F.max_pool2d(v, pool).flatten(2).mT[:, None]
        terms = {"riesz": j, "log": j, "fractional": i - j}.get(name, j - i)
        return (constant * (kernel[..., None] * terms).sum(2) / norm).mT.reshape(v.shape)

    return act


@every_operator
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("pool", [1, 2])
def test_block_is_its_stages_written_out(operator, stages, pool):
    block = generic_block(operator, stages, pool)
    x = torch.randn(2, 4, 4, 6, dtype=torch.float64, requires_grad=True)
    act, before, now = all_pairs(block, operator, x, pool), x, x
    for outer in block.outer:
        assert isinstance(outer, nn.Sequential)
        conv, _, norm = outer
        before, now = now, before + STEP * norm(conv(act(now)).relu())
    inputs = [x, *block.parameters()]
    found = block(x)
    assert_close(found, now, rtol=1e-10, atol=1e-10)
    weights = torch.randn_like(found)
    for a, b in zip(*(torch.autograd.grad((weights * v).sum(), inputs) for v in (found, now)), strict=True):
        assert_close(a, b, rtol=1e-10, atol=1e-10 * max(1.0, b.abs().max().item()))


@every_operator
@pytest.mark.parametrize("pool", [1, 2])
def test_the_order_in_memory_changes_nothing(operator, pool):
    block, x = generic_block(operator, 2, pool), torch.randn(2, 4, 4, 6, dtype=torch.float64, requires_grad=True)
    weights, found = torch.randn_like(x), []
    for order in (torch.contiguous_format, torch.channels_last):
        value = block(x.contiguous(memory_format=order))
        found.append([value, *torch.autograd.grad((weights * value).sum(), [x, *block.parameters()])])
    for a, b in zip(*found, strict=True):
        assert_close(a, b, rtol=1e-10, atol=1e-10 * max(1.0, b.abs().max().item()))


@pytest.mark.parametrize("pool", [1, 2])
def test_channels_that_are_neighbours_in_memory_stay_so(pool):
    x = torch.randn(2, 4, 6, 6).contiguous(memory_format=torch.channels_last)
    assert NonlocalBlock(4, subsample=pool)(x).is_contiguous(memory_format=torch.channels_last)


@every_operator
@pytest.mark.parametrize("steps", [1, 2])
def test_block_is_verlet_steps_of_the_system(operator, steps):
    """Of eq. 4.3 in our variables, and of eq. 4.2 in those of the paper, where the second part is negative."""
    block, x = generic_block(operator, 2 * steps, 1).eval(), torch.randn(2, 4, 4, 4, dtype=torch.float64)
    act, state, v, w = block.operator.at(x), (x, x), x, -x
    for k in range(steps):
        first, second = block.outer[2 * k], block.outer[2 * k + 1]
        state = Verlet().step(NonlocalSystem(first, second, act), 0.0, state, STEP)
        v = v + STEP * first(act(-w))
        w = w - STEP * second(act(v))
    assert_close(block(x), state[1])
    assert_close(block(x), -w)


@given(
    st.sampled_from(NAMED),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(["constant", "zeros", "one bright pixel", "columns", "huge", "tiny"]),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_degenerate_maps_train(name, dtype, what, stages, pool):
    block = awake(NonlocalBlock(4, name, stages=stages, subsample=pool)).to(dtype)
    x = torch.zeros(2, 4, 5, 4, dtype=dtype)
    if what == "one bright pixel":
        x[0, :, 2, 2] = 100.0
    elif what == "columns":
        x += torch.arange(4.0)
    elif what == "constant":
        x += 3.3
    elif what in ("huge", "tiny"):
        x = torch.randn_like(x) * (1e4 if what == "huge" else 1e-20)
    inputs = [x.requires_grad_(), *block.parameters()]
    value = block(x)
    assert value.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(value.square().sum(), inputs))


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_a_new_block_is_the_identity_and_learns_from_there(name, stages):
    block, x = NonlocalBlock(4, name, stages=stages, subsample=2), torch.randn(2, 4, 6, 6)
    assert torch.equal(block(x), x)
    optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
    for _ in range(2):  # the first step wakes the last stage, through which the second reaches all
        before = [p.clone() for p in block.parameters()]
        optimizer.zero_grad()
        (block(x) - x.flip(-1)).square().sum().backward()
        optimizer.step()
    assert all(not torch.equal(p, q) for p, q in zip(before, block.parameters(), strict=True))


def test_block_in_another_network():
    own = NonlocalBlock(4, NonlocalDiffusion(4, "gaussian", normaliser="row_sum", embedding="shared"), stages=3)
    net = nn.Sequential(nn.Conv2d(1, 4, 3), own, nn.Flatten(), nn.LazyLinear(2))
    assert net(torch.randn(2, 1, 8, 9)).shape == (2, 2)
    assert "stages=3, step_size=0.1" in repr(own)


def test_wrong_blocks_are_refused():
    for options in ({"stages": 0}, {"step_size": 0.0}, {"scale": -1.0}, {"scale": 0.0}, {"subsample": 0}):
        with pytest.raises(ConfigError, match="got"):
            NonlocalBlock(4, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="even"):
        NonlocalBlock(5)
    with pytest.raises(ConfigError, match="got one of 4 channels"):
        NonlocalBlock(6, NonlocalDiffusion(4))
    with pytest.raises(UnknownNameError, match="Did you mean 'riesz'"):
        NonlocalBlock(4, "ries")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="do not fit"):
        NonlocalBlock(4, subsample=5)(torch.zeros(2, 4, 4, 8))


FIELDS = [regular_fields(cyclic(8), 2), Field(irrep(dihedral(4), 1), 4), Field(quotient(cyclic(4), [0, 2]), 2)]
EXACT = {torch.float32: 1e-6, torch.float64: 1e-12}
AMPLIFIED = {torch.float32: 1e-3, torch.float64: 1e-10}  # by kernels or row sums that divide by small numbers


def tolerances(operator: str) -> dict[torch.dtype, float]:
    return AMPLIFIED if operator in ("fractional", "dot over row sum") else EXACT


def awake_fields(block: NonlocalBlock) -> NonlocalBlock:
    for norm in (m for m in block.modules() if isinstance(m, FieldBatchNorm)):
        for p in norm.parameters():
            nn.init.normal_(p)
    return block


@every_operator
@pytest.mark.parametrize("field", FIELDS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_blocks_between_fields_commute_with_the_group(operator, field, training):
    own: object = operator
    if operator not in NAMED:
        affinity, normaliser = operator.split()[0], "row_sum" if "row" in operator else "count"
        own = NonlocalDiffusion(field, affinity, scale=0.1, normaliser=normaliser)
    block = awake_fields(NonlocalBlock(field, own, scale=0.1))  # type: ignore[arg-type]
    check_equivariance(block.train(training), field, field, 5, tolerances(operator))


@pytest.mark.parametrize("name", NAMED)
def test_subsampled_blocks_commute_where_squares_fill_the_map(name):
    field = FIELDS[0]
    block = awake_fields(NonlocalBlock(field, name, subsample=2))
    check_equivariance(block, field, field, 6, tolerances(name))
    with pytest.warns(EquivarianceWarning, match=r"5x5, so .* does not commute with C8\. .* subsample=1"):
        block(torch.randn(1, 16, 5, 5))


def test_blocks_that_ignore_fields_do_not_commute():
    with pytest.raises(AssertionError, match="element 2 of C8"):
        check_equivariance(awake(NonlocalBlock(16)), FIELDS[0], FIELDS[0], 5)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_every_map_of_a_block_between_fields_learns(name, field):
    """Whatever the size of what the operator gives, which is small for some."""
    block, u = awake_fields(NonlocalBlock(field, name)), torch.randn(2, field.channels, 12, 12)
    block(u).square().sum().backward()
    idle = [key for key, p in block.outer.named_parameters() if p.numel() and (p.grad is None or not p.grad.any())]
    assert idle == []


def test_blocks_between_fields_learn_and_are_exported():
    block, u = awake_fields(NonlocalBlock(FIELDS[0], "riesz")), torch.randn(2, 16, 5, 5)
    block(u).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in block.parameters())
    check_exports(block, u)
    assert torch.equal(NonlocalBlock(FIELDS[0], "log")(u), u)  # a new block is the identity


def test_fields_that_do_not_fit_are_refused():
    with pytest.raises(ConfigError, match="multiplicity must be even"):
        NonlocalBlock(regular_fields(cyclic(4), 3))
    with pytest.raises(ConfigError, match="subsample=1"):
        NonlocalBlock(FIELDS[1], subsample=2)
    with pytest.raises(ConfigError, match=r"2 x regular\(C8\) needs an operator of the same, got one of 16 channels"):
        NonlocalBlock(FIELDS[0], NonlocalDiffusion(16))
