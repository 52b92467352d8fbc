"""Differential operators whose coefficients are made from the features they act on: neural ePDOs."""

from __future__ import annotations

import copy
from typing import Literal, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from evolvent._core.checks import check_choice, check_whole
from evolvent._core.errors import ConfigError
from evolvent.groups import (
    Field,
    derivative_representation,
    intertwiners,
    multi_indices,
    regular,
    regular_fields,
    scalars,
    tensor_product,
)
from evolvent.operators.differential.constants import ConstantsModule
from evolvent.operators.differential.field_checks import check_fields, check_map_size
from evolvent.operators.differential.inference import HasOrdinaryForm
from evolvent.operators.differential.steerable import FieldLinear
from evolvent.operators.differential.stencils import Discretisation, given_or_fitted, rotated_stencils
from evolvent.operators.differential.taps import apply_derivatives

Coefficients: TypeAlias = Literal["diagonal", "full", "invariant"]
GeneratorActivation: TypeAlias = Literal["relu", "softplus"]

_ACTIVATIONS = {"relu": nn.ReLU, "softplus": nn.Softplus}
_LARGEST_BASIS = 50_000_000  # numbers


class NeuralEPDO(HasOrdinaryForm):
    r"""A differential operator with coefficients that a small equivariant network makes from the local features.

    .. math:: \Psi[f](x) = \sum_{|\alpha| \le N} W_\alpha(f(x))\, \partial^\alpha f(x), \qquad
              W(f) = W^2\, \sigma(W^1 f)

    Eqs. (7), (10), (11) and (13) of He et al. 2023. It is not linear, adapts to what it sees, and commutes with the
    group: the coefficients transform as :math:`\rho(g) \otimes \hat\rho(g)` says (Proposition 3), or as
    :math:`\rho(g) \otimes \hat\rho(g) \otimes \rho(g)` if they are full matrices (Proposition 2; the last
    factor is :math:`\rho(g^{-1})^\top` where :math:`\rho` is not orthogonal).

    Args:
        field: how features transform, before and after.
        order: highest order :math:`N` of derivatives.
        reduction: how many times fewer fields the hidden layer has.
        partitions: groups of fields that share their coefficients.
        coefficients: ``"diagonal"``: each channel has its own, for fields whose channels are only moved (regular,
            quotient and sums of them). ``"full"``: matrices between all channels of a partition, for any field;
            costly. ``"invariant"``: invariant numbers times the operators of each field that commute with the group,
            for any field; cheap, and not in the paper.
        discretisation: of the derivatives; :class:`FittedGaussian` of size 5 unless given.
        padding: zeros on each side; as many as keep the size unless given.
        activation: :math:`\sigma`: ``"relu"`` as in the paper, or ``"softplus"``, which has no kinks that lie
            differently between the pixels at every angle.

    Shape: (B, field.channels, H, W) to the same, by default.

    >>> from evolvent.groups import cyclic
    >>> layer = NeuralEPDO(regular_fields(cyclic(8), 8))
    >>> u = torch.randn(1, 64, 9, 9)
    >>> torch.allclose(layer(u.roll(1, 1)), layer(u), atol=1e-3)  # channels are not exchangeable
    False
    >>> torch.allclose(layer(layer.in_field.transform(u, 2)), layer.in_field.transform(layer(u), 2), atol=1e-3)
    True
    """

    def __init__(
        self,
        field: Field,
        order: int = 4,
        reduction: int = 2,
        partitions: int = 8,
        coefficients: Coefficients = "diagonal",
        discretisation: Discretisation | None = None,
        *,
        padding: int | None = None,
        activation: GeneratorActivation = "relu",
    ) -> None:
        super().__init__()
        check_fields(self, field)
        check_choice("coefficients", coefficients, _RULES)
        check_choice("activation", activation, _ACTIVATIONS)
        check_whole(1, reduction=reduction, partitions=partitions)
        _check_divides(field, reduction=reduction, partitions=partitions)
        discretisation = given_or_fitted(discretisation)
        discretisation.check_order(order, f"NeuralEPDO on {field}")
        self.in_field = self.out_field = field
        self.order, self.reduction, self.partitions = order, reduction, partitions
        self.discretisation = discretisation
        self.padding = discretisation.size // 2 if padding is None else padding
        check_whole(0, padding=self.padding)
        self.rule = _RULES[coefficients](field, order, reduction, partitions, discretisation)
        self.rule.activation = _ACTIVATIONS[activation]()

    def forward(self, u: Tensor) -> Tensor:
        self.in_field.check(u, type(self).__name__)
        check_map_size(self, u)
        return self.rule(u, self._at_answer(u), self.padding)

    def coefficients(self, u: Tensor) -> Tensor:
        """The coefficients that the features ``u`` give, at the pixels of the answer; see the rules for their axes."""
        self.in_field.check(u, type(self).__name__)
        check_map_size(self, u)
        return self.rule.coefficients(self._at_answer(u))

    def _at_answer(self, u: Tensor) -> Tensor:
        """The features at the pixels where there is an answer."""
        cut = self.padding - self.discretisation.size // 2
        return u if cut == 0 else F.pad(u, (cut,) * 4)

    def dense(self) -> NeuralEPDO:
        """The same layer with ordinary convolutions for its generator, for inference."""
        made = copy.deepcopy(self)
        made.rule.first = cast(FieldLinear, self.rule.first).dense()
        made.rule.second = cast(FieldLinear, self.rule.second).dense()
        return made

    def extra_repr(self) -> str:
        sizes = f"reduction={self.reduction}, partitions={self.partitions}"
        return f"{self.in_field}, order={self.order}, {sizes}, {self.discretisation}"


class _Rule(ConstantsModule):
    """How coefficients are made and used: two linear maps of fields with an activation between them."""

    first: nn.Module
    activation: nn.Module
    second: nn.Module
    stencils: Tensor
    kernels: Tensor

    def generate(self, u: Tensor) -> Tensor:
        return self.second(self.activation(self.first(u)))

    def coefficients(self, u: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, u: Tensor, at_answer: Tensor, padding: int) -> Tensor:
        raise NotImplementedError


class DiagonalCoefficients(_Rule):
    r"""One coefficient for each derivative of each channel, :math:`\sum_\alpha w_\alpha(f) \circ \partial^\alpha f`.

    Regular fields have the derivatives of each channel in the frame of its orientation: then the coefficients of each
    derivative are a regular field again.
    """

    def __init__(
        self, field: Field, order: int, reduction: int, partitions: int, discretisation: Discretisation
    ) -> None:
        super().__init__()
        if field.representation.permutation is None:
            raise ConfigError(
                f"NeuralEPDO on {field}: diagonal coefficients are for fields whose channels are only moved, as in "
                "regular ones. Use coefficients='invariant' or 'full'."
            )
        self.field, self.derivatives = field, len(multi_indices(order))
        hidden = _hidden(field, reduction)
        own, stencils = field.multiplicity // partitions, rotated_stencils(field.group, order, discretisation)
        if field.representation == regular(field.group):
            made = Field(field.representation, own * self.derivatives)
        else:
            made = Field(tensor_product(derivative_representation(field.group, order), field.representation), own)
            stencils = np.repeat(stencils[:1], field.size, axis=0)
        self.first, self.second = FieldLinear(field, hidden), FieldLinear(hidden, made)
        self.add_constant("stencils", stencils)

    def coefficients(self, u: Tensor) -> Tensor:
        """(B, fields of a partition, derivatives, channels of a field, H, W); of regular fields in turned frames."""
        return self.generate(u).unflatten(1, (-1, self.derivatives, self.field.size))

    def forward(self, u: Tensor, at_answer: Tensor, padding: int) -> Tensor:
        return apply_derivatives(u, self.generate(at_answer), self.stencils, padding)


class FullCoefficients(_Rule):
    """A matrix for each derivative, between all channels of a partition."""

    def __init__(
        self, field: Field, order: int, reduction: int, partitions: int, discretisation: Discretisation
    ) -> None:
        super().__init__()
        self.field, self.own = field, field.multiplicity // partitions
        derivatives = derivative_representation(field.group, order)
        self.derivatives = derivatives.size
        numbers = (field.size**2 * derivatives.size) ** 2 * field.group.order
        if numbers > _LARGEST_BASIS:
            raise ConfigError(
                f"full coefficients of {field} with derivatives up to order {order} need a basis of {numbers:.0e} "
                "numbers. Use coefficients='diagonal', a smaller group or a lower order."
            )
        hidden = _hidden(field, reduction)
        rho = field.representation
        matrices = tensor_product(tensor_product(rho, derivatives), rho.contragredient)
        self.first, self.second = FieldLinear(field, hidden), FieldLinear(hidden, Field(matrices, self.own**2))
        self.add_constant("stencils", rotated_stencils(field.group, order, discretisation)[0])

    def coefficients(self, u: Tensor) -> Tensor:
        """(B, own, own, size, derivatives, size, H, W): from the fields that come second to those that come first."""
        shape = (self.own, self.own, self.field.size, self.derivatives, self.field.size)
        return self.generate(u).unflatten(1, shape)

    def forward(self, u: Tensor, at_answer: Tensor, padding: int) -> Tensor:
        size = round(self.stencils.shape[1] ** 0.5)
        kernel = self.stencils.to(u.dtype).view(-1, 1, size, size)
        derivatives = F.conv2d(u.flatten(0, 1)[:, None], kernel, padding=padding)  # (B C, D, H', W')
        partitions = self.field.multiplicity // self.own
        shape = u.shape[0], partitions, self.own, self.field.size, self.derivatives
        seen = derivatives.view(*shape, *derivatives.shape[2:])
        matrices = self.coefficients(at_answer).to(seen.dtype)
        return torch.einsum("bijqdryx,bpjrdyx->bpiqyx", matrices, seen).flatten(1, 3)


class InvariantCoefficients(_Rule):
    r"""Invariant numbers times fixed operators, :math:`\sum_k c_k(f)\, D_k f` with :math:`D_k` that commute with the
    group and :math:`c_k(\rho(g) f) = c_k(f)`.

    The operators are a basis of all that map a field to itself.
    """

    def __init__(
        self, field: Field, order: int, reduction: int, partitions: int, discretisation: Discretisation
    ) -> None:
        super().__init__()
        self.field, self.own = field, field.multiplicity // partitions
        derivatives = derivative_representation(field.group, order)
        basis = intertwiners(tensor_product(field.representation, derivatives), field.representation)
        basis = basis.reshape(-1, field.size, field.size, derivatives.size)
        stencils = rotated_stencils(field.group, order, discretisation)[0]
        kernels = np.einsum("kpqd,dt->kpqt", np.sqrt(field.size) * basis, stencils)
        size = discretisation.size
        self.add_constant("kernels", kernels.reshape(-1, field.size, size, size))
        hidden = _hidden(field, reduction)
        self.first = FieldLinear(field, hidden)
        self.second = FieldLinear(hidden, scalars(field.group, self.own * len(basis)))

    def coefficients(self, u: Tensor) -> Tensor:
        """(B, fields of a partition, operators, H, W)."""
        return self.generate(u).unflatten(1, (self.own, -1))

    def forward(self, u: Tensor, at_answer: Tensor, padding: int) -> Tensor:
        fields = u.unflatten(1, (-1, self.field.size)).flatten(0, 1)
        changed = F.conv2d(fields, self.kernels.to(u.dtype), padding=padding)  # (B fields, K size, H', W')
        partitions, count = self.field.multiplicity // self.own, len(self.kernels) // self.field.size
        shape = u.shape[0], partitions, self.own, count, self.field.size
        numbers = self.coefficients(at_answer).to(changed.dtype)
        return torch.einsum("bmkyx,bpmkqyx->bpmqyx", numbers, changed.view(*shape, *changed.shape[2:])).flatten(1, 3)


_RULES = {"diagonal": DiagonalCoefficients, "full": FullCoefficients, "invariant": InvariantCoefficients}


def _hidden(field: Field, reduction: int) -> Field:
    """Fields of the hidden layer: of the same kind if a ReLU of them is equivariant, else regular ones."""
    if field.representation.permutation is not None:
        return Field(field.representation, field.multiplicity // reduction)
    return regular_fields(field.group, max(1, field.channels // (reduction * field.group.order)))


def _check_divides(field: Field, **numbers: int) -> None:
    for name, number in numbers.items():
        if field.multiplicity % number:
            raise ConfigError(
                f"NeuralEPDO on {field}: {name} must divide the {field.multiplicity} fields, got {number}. Change "
                f"{name} or the number of fields."
            )
