"""Groups, representations, derivatives and intertwiners against their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from evolvent.errors import ConfigError
from evolvent.groups import (
    Field,
    Group,
    Representation,
    chain_rule,
    cyclic,
    derivative_representation,
    derivative_scales,
    dihedral,
    direct_sum,
    intertwiner_count,
    intertwiners,
    irrep,
    irreps,
    move_pixels,
    multi_indices,
    quotient,
    regular,
    regular_fields,
    restrict,
    sign,
    tensor_product,
    trivial,
)
from evolvent.groups.intertwiners import _null_space

groups = st.builds(Group, st.integers(1, 9), st.booleans())
EVERY = [cyclic(n) for n in range(1, 17)] + [dihedral(n) for n in range(1, 9)]


def representations(group: Group) -> list:
    some = [trivial(group), regular(group), *irreps(group), derivative_representation(group, 3)]
    some.append(quotient(group, group.generated(*group.generators[-1:])))
    return [*some, direct_sum(some[0], some[1]), tensor_product(some[-1], some[2])]


@given(groups)
def test_a_group_is_a_group(group):
    n, table = group.order, group.table
    assert np.array_equal(np.sort(table, axis=0), np.tile(np.arange(n)[:, None], (1, n)))
    assert np.array_equal(table[table[:, :, None], np.arange(n)], table[np.arange(n)[:, None, None], table])
    assert all(group.product(g, group.inverse(g)) == 0 for g in range(n))
    assert group.generated(*group.generators) == tuple(range(n))


@given(groups)
def test_the_action_on_the_plane_is_a_representation(group):
    m = group.matrices
    np.testing.assert_allclose(m[:, None] @ m[None, :], m[group.table], atol=1e-12)


@given(groups)
def test_every_representation_keeps_products_and_lengths(group):
    for rho in representations(group):
        m = rho.matrices
        np.testing.assert_allclose(m[:, None] @ m[None, :], m[group.table], atol=1e-10)
        assert rho.orthogonal
        for g in range(group.order):
            np.testing.assert_allclose(m[g] @ rho.invariants, rho.invariants, atol=1e-9)
        assert rho.invariants.shape[1] == intertwiner_count(trivial(group), rho)


@pytest.mark.parametrize("group", EVERY, ids=str)
def test_irreps_are_complete(group):
    total = sum(rho.size**2 // intertwiner_count(rho, rho) for rho in irreps(group))
    assert total == group.order
    assert intertwiner_count(regular(group), regular(group)) == group.order
    for rho in irreps(group):
        assert intertwiner_count(regular(group), rho) == rho.size


@pytest.mark.parametrize("group", EVERY, ids=str)
def test_intertwiners_of_irreps_are_as_many_as_characters_count(group):
    for before, after in itertools.product(irreps(group), repeat=2):
        assert len(intertwiners(before, after)) == intertwiner_count(before, after)


@given(groups, st.data())
def test_intertwiners_commute_and_are_orthonormal(group, data):
    before, after = (data.draw(st.sampled_from(representations(group))) for _ in range(2))
    basis = intertwiners(before, after)
    assert len(basis) == intertwiner_count(before, after)
    flat = basis.reshape(len(basis), before.size * after.size)
    np.testing.assert_allclose(flat @ flat.T, np.eye(len(basis)), atol=1e-9)
    for g in range(group.order):
        np.testing.assert_allclose(after.matrices[g] @ basis, basis @ before.matrices[g], atol=1e-9)


@pytest.mark.parametrize("group", [cyclic(6), dihedral(3)], ids=str)
def test_intertwiners_by_orbits_and_by_null_space_span_the_same(group):
    for before in (regular(group), quotient(group, group.generated(group.generators[-1]))):
        after = derivative_representation(group, 2)
        fast, slow = (b.reshape(len(b), -1) for b in (intertwiners(before, after), _null_space(before, after)))
        np.testing.assert_allclose(fast.T @ fast, slow.T @ slow, atol=1e-9)


def test_coefficients_of_neural_epdos_are_as_many_as_the_paper_needs():
    group = cyclic(16)
    product = tensor_product(regular(group), derivative_representation(group, 4))
    assert intertwiner_count(regular(group), product) == 240


matrices = hnp.arrays(np.float64, (2, 2), elements=st.floats(-2, 2)).filter(lambda g: abs(np.linalg.det(g)) > 0.3)


@given(matrices, matrices, st.integers(0, 5))
def test_the_chain_rule_is_a_homomorphism(g, h, order):
    first, second = chain_rule(g, order), chain_rule(h, order)
    size = np.abs(first).max() * np.abs(second).max()
    np.testing.assert_allclose(chain_rule(g @ h, order), first @ second, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("group", [cyclic(16), dihedral(8)], ids=str)
def test_rotated_derivatives_keep_products_to_rounding(group):
    for order in range(6):
        m = np.stack([chain_rule(g, order) for g in group.matrices])
        np.testing.assert_allclose(m[:, None] @ m[None, :], m[group.table], atol=1e-12)


def derivative_of_powers(indices, powers, at):
    """All derivatives of x^a y^b at a point."""
    (a, b), found = powers, []
    for i, j in indices:
        fall = np.prod(np.arange(a, a - i, -1.0)) * np.prod(np.arange(b, b - j, -1.0))
        found.append(fall * at[0] ** max(a - i, 0) * at[1] ** max(b - j, 0) if i <= a and j <= b else 0.0)
    return np.array(found)


@given(matrices, st.integers(0, 5), st.data())
def test_the_chain_rule_differentiates_mapped_polynomials(g, order, data):
    a = data.draw(st.integers(0, order))
    powers, x = (a, order - a), np.array([0.7, -0.4])
    inverse = np.linalg.inv(g)
    # f(g^-1 x) = (A00 x + A01 y)^a (A10 x + A11 y)^b, whose coefficients are products of powers
    factors = [inverse[0]] * powers[0] + [inverse[1]] * powers[1]
    polynomial = np.ones(1)
    for factor in factors:
        polynomial = np.convolve(polynomial, factor)
    indices = multi_indices(order)
    mapped = sum(c * derivative_of_powers(indices, (order - k, k), x) for k, c in enumerate(polynomial))
    expected = chain_rule(g, order) @ derivative_of_powers(indices, powers, inverse @ x)
    np.testing.assert_allclose(mapped, expected, rtol=1e-9, atol=1e-9 * max(1.0, np.abs(mapped).max()))


def test_scaled_derivatives_are_orthogonal_and_plain_ones_are_not():
    rho = derivative_representation(cyclic(8), 4)
    assert rho.orthogonal
    assert not np.allclose(chain_rule(cyclic(8).matrices[1], 4) @ chain_rule(cyclic(8).matrices[1], 4).T, np.eye(15))
    assert len(derivative_scales(4)) == 15


@pytest.mark.parametrize("group", [cyclic(4), dihedral(4), cyclic(8), dihedral(1), dihedral(2)], ids=str)
def test_pixels_move_as_the_plane_does(group):
    size = 5
    grid = np.arange(size) - 2.0
    x1, x2 = np.meshgrid(grid, -grid)  # columns go right, rows go down

    def image(a, b):
        return torch.from_numpy(np.sin(a + 0.3 * b) + a * b**2)[None, None]

    for g in group.grid_symmetries:
        inverse = np.linalg.inv(group.matrices[g])
        moved = image(inverse[0, 0] * x1 + inverse[0, 1] * x2, inverse[1, 0] * x1 + inverse[1, 1] * x2)
        torch.testing.assert_close(move_pixels(image(x1, x2), group, g), moved)


@given(groups, st.integers(1, 3))
def test_fields_transform_as_a_group_acts(group, multiplicity):
    field = regular_fields(group, multiplicity)
    u = torch.randn(2, field.channels, 4, 4, dtype=torch.float64)
    for a, b in itertools.product(group.grid_symmetries, repeat=2):
        torch.testing.assert_close(field.transform(field.transform(u, b), a), field.transform(u, group.product(a, b)))


@given(groups, st.data())
def test_restricted_fields_transform_as_before(group, data):
    n = data.draw(st.sampled_from([d for d in range(1, group.rotations + 1) if group.rotations % d == 0]))
    smaller = Group(n, group.mirrored and data.draw(st.booleans()))
    for rho in (regular(group), irreps(group)[-1]):
        field = Field(rho, 2)
        narrow, order = field.restricted(smaller)
        u = torch.randn(1, field.channels, 2, 2, dtype=torch.float64)

        def taken(v, order=order):
            return v if order is None else v[:, order]

        for g, whole in enumerate(group.embedding(smaller)):
            torch.testing.assert_close(narrow.act(taken(u), g), taken(field.act(u, int(whole))))


def test_dihedral_regular_fields_split_without_moving_channels():
    field, order = regular_fields(dihedral(8), 3).restricted(cyclic(8))
    assert (field.multiplicity, field.size, order) == (6, 8, None)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: quotient(cyclic(8), [0, 3]), "not a subgroup"),
        (lambda: quotient(cyclic(4), [7]), "elements of C4 are 0 ... 3"),
        (lambda: quotient(dihedral(4), ["a"]), "among 0 ... 7, got .'a'"),
        (lambda: quotient(cyclic(4), 2), "a list of elements among 0 ... 3, got 2"),  # pyright: ignore[reportArgumentType]
        (lambda: quotient(cyclic(4), []), "has element 0 at least"),
        (lambda: cyclic(4).product(1, 9), r"elements of C4 are 0 ... 3, got \[9\]"),
        (lambda: cyclic(4).inverse(-1), r"got \[-1\]"),
        (lambda: regular_fields(cyclic(4), 1).act(torch.zeros(1, 4, 2, 2), 7), r"of C4 are 0 ... 3, got \[7\]"),
        (lambda: direct_sum([regular(cyclic(4))]), "each as an argument of its own, got .regular"),  # pyright: ignore[reportArgumentType]
        (lambda: chain_rule(np.zeros((2, 2)), 2), r"invertible matrix of numbers \(2, 2\), got \[\[0.0"),
        (lambda: chain_rule(np.eye(3), 2), r"invertible matrix of numbers \(2, 2\), got \[\[1.0"),
        (lambda: cyclic(4).generated(4), "elements of C4 are 0 ... 3"),
        (lambda: quotient(cyclic(4), [0, 1]), r"give \[2\] too"),
        (
            lambda: Representation(cyclic(4), np.random.default_rng(0).normal(size=(4, 2, 2)), "p"),
            "not a representation",
        ),
        (lambda: Representation(cyclic(4), np.zeros((4, 2, 2)), "p"), "not a representation"),
        (lambda: Representation(cyclic(4), np.ones((3, 1, 1)), "p"), r"each of its 4 elements.*\(3, 1, 1\)"),
        (lambda: irrep(cyclic(4), 3), "frequencies 0 ... 2"),
        (lambda: irrep(dihedral(4), 1, 1), "parity 1 only"),
        (lambda: sign(cyclic(3)), "no sign representation"),
        (lambda: direct_sum(trivial(cyclic(2)), trivial(cyclic(3))), "one group"),
        (lambda: intertwiners(trivial(cyclic(2)), trivial(cyclic(3))), "C2 and C3"),
        (lambda: restrict(regular(cyclic(8)), cyclic(3)), "not contained"),
        (lambda: regular_fields(cyclic(4), 0), "multiplicity"),
        (lambda: move_pixels(torch.zeros(1, 1, 2, 2), cyclic(8), 1), "does not move pixels onto pixels"),
        (lambda: Group(0), "rotations"),
    ],
)
def test_what_cannot_be_is_refused(wrong, says):
    with pytest.raises(ConfigError, match=says):
        wrong()


def test_sign_and_quotient_are_what_they_say():
    assert sign(dihedral(3)).character.tolist() == [1, 1, 1, -1, -1, -1]
    assert sign(cyclic(4)) == irrep(cyclic(4), 2)
    assert quotient(cyclic(4), [0]) == regular(cyclic(4))
    assert quotient(cyclic(4), range(4)) == trivial(cyclic(4))


def test_groups_are_no_representations():
    with pytest.raises(ConfigError, match=r"of a representation, such as regular\(cyclic\(8\)\), got Group"):
        Field(cyclic(8), 3)  # type: ignore[arg-type]
