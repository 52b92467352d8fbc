r"""Undoing Verlet steps of Hamiltonian dynamics with derivatives written out, which is faster than a graph for each.

A coupling adds :math:`c\,S(u)` with :math:`S(u) = K^\top v,\; v = \sigma(K u + b)`. With the cotangent :math:`a` of the
sum and :math:`w = \sigma'(K u + b) \odot K a`,

.. math:: c\,S'(u)^\top a = c\,K^\top w, \qquad
          \bar K = c\,(w \star u + v \star a), \qquad \bar b = c \sum w ,

where :math:`\star` is the correlation that gives a convolution's weight its gradient. Only :math:`v` is kept in
between, and :math:`K^\top v` serves the reconstruction as well. Results overwrite their ingredients: fresh memory costs
as much time here as a tenth of the convolutions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from evolvent.dynamics import Hamiltonian, SymmetricLayer
from evolvent.gradients._contract import Propagator
from evolvent.gradients.replay import Replay
from evolvent.gradients.undoing import Undoing
from evolvent.integrators import Verlet
from evolvent.operators import Convolution


class SymmetricUndoing(Undoing):
    """The walk back for Verlet on Hamiltonian dynamics with ReLU, plain convolutions and no normalisation."""

    @classmethod
    def suits(cls, evolution: Propagator, replay: Replay) -> bool:
        """Whether every step is of the kind whose derivatives are written out here."""
        plain = type(evolution.integrator) is Verlet and not replay.mixed
        return plain and all(_is_plain(evolution.dynamics_at(j)) for j in range(evolution.steps))

    def _undo_one(self, j: int, i: int) -> None:
        f, h = self.evolution.dynamics_at(j), self.evolution.step_size
        layer, factor = (f.layer1, h) if i == 0 else (f.layer2, -h)
        target, source = (0, 1) if i == 0 else (1, 0)
        assert isinstance(layer, SymmetricLayer)
        assert isinstance(layer.operator, Convolution)
        u, a = self.state[source], self.cotangents[target]
        if a is None:  # the loss does not depend on this last change
            super()._undo_one(j, i)
            return
        v = layer.inner(u).relu_()
        change = layer.operator.adjoint(v)
        self.state[target] = torch.sub(self.state[target], change, alpha=factor, out=change)
        w = layer.operator(a)
        torch.ops.aten.threshold_backward.grad_input(w, v, 0, grad_input=w)
        self.cotangents[source] = _added(self.cotangents[source], layer.operator.adjoint(w), factor)
        weight = layer.operator.weight
        if weight.requires_grad:
            both = _correlation(w, u, weight).add_(_correlation(v, a, weight))
            self.sums.add([weight], [both.mul_(factor)])
        if isinstance(layer.bias, Tensor) and layer.bias.requires_grad:
            self.sums.add([layer.bias], [w.sum(dim=(0, 2, 3)).mul_(factor)])


def _added(a: Tensor | None, b: Tensor, factor: float) -> Tensor:
    """:math:`a + factor b` in the memory of ``b``, where None is zero."""
    return b.mul_(factor) if a is None else torch.add(a, b, alpha=factor, out=b)


def _correlation(outer: Tensor, inner: Tensor, weight: Tensor) -> Tensor:
    """The gradient of a convolution's weight from the output's cotangent ``outer`` and the input ``inner``."""
    rim = [weight.shape[-1] // 2] * 2
    grads = torch.ops.aten.convolution_backward(
        outer, inner, weight, None, [1, 1], rim, [1, 1], False, [0, 0], 1, [False, True, False]
    )
    return grads[1]


def _is_plain(f: nn.Module) -> bool:
    if type(f) is not Hamiltonian or _is_watched(f):
        return False
    return all(_is_plain_layer(layer) for layer in (f.layer1, f.layer2))


def _is_plain_layer(layer: nn.Module) -> bool:
    if type(layer) is not SymmetricLayer or _is_watched(layer) or _is_watched(layer.operator):
        return False
    return type(layer.operator) is Convolution and layer.norm is None and layer.activation == "relu"


def _is_watched(module: Any) -> bool:
    """Hooks need the module itself to be called."""
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)
