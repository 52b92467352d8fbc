"""SOAP: Adam in the eigenbasis of Shampoo's preconditioners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.checks import check_whole

_LARGEST = 4096  # side of a matrix beyond which its space is not turned


class Soap(torch.optim.Optimizer):
    r"""Adam in a slowly turning basis (Vyas et al., *SOAP: Improving and stabilizing Shampoo using Adam*, 2024).

    For a matrix of weights with gradient :math:`G` the moving averages :math:`L` of :math:`G G^\top` and :math:`R` of
    :math:`G^\top G` have orthonormal eigenvectors :math:`Q_L` and :math:`Q_R`, in which Adam works:

    .. math:: G' = Q_L^\top G\, Q_R, \qquad V \leftarrow \beta_2 V + (1 - \beta_2)\, G'^2, \qquad
       W \leftarrow W - \eta\, Q_L \frac{Q_L^\top M Q_R}{\sqrt V + \epsilon}\, Q_R^\top.

    The basis is that of the first gradient to begin with, and follows by a step of power iteration and QR every
    ``frequency`` steps. Tensors with other than two axes, and sides beyond 4,096, have plain Adam. All of it is in the
    precision of the weights.

    Args:
        params: what is trained.
        lr: step size.
        betas: of the averages of gradients and of their squares.
        eps: added to the root of the squares.
        weight_decay: decoupled, as in AdamW.
        frequency: steps between two turns of the basis.
        rotate: with False the basis is the identity, and this is Adam.

    >>> layer = nn.Linear(2, 1)
    >>> optimizer = Soap(layer.parameters(), lr=0.1)
    >>> layer(torch.ones(1, 2)).square().sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 3e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        frequency: int = 10,
        rotate: bool = True,
    ) -> None:
        check_whole(1, frequency=frequency)
        values = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**values, "frequency": frequency, "rotate": rotate})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._move(p, p.grad, group)
        return loss

    def _move(self, p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state, (first, second) = self.state[p], group["betas"]
        if not state:
            self._begin(state, p, gradient, group)
        state["steps"] += 1
        turned = _into(state, gradient)
        state["mean"].lerp_(gradient, 1 - first)
        state["square"].mul_(second).addcmul_(turned, turned, value=1 - second)
        unbiased = 1 - first ** state["steps"], 1 - second ** state["steps"]
        scale = (state["square"] / unbiased[1]).sqrt_().add_(group["eps"])
        direction = _out_of(state, _into(state, state["mean"]) / unbiased[0] / scale)
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(direction, alpha=group["lr"])
        for side, product in _products(gradient):
            if f"average_{side}" in state:
                state[f"average_{side}"].lerp_(product, 1 - second)
        if state["steps"] % group["frequency"] == 0:
            _turn(state)

    def _begin(self, state: dict[str, Any], p: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state.update(steps=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
        if p.ndim != 2 or not group["rotate"]:
            return
        for side, product in _products(gradient):
            if len(product) <= _LARGEST:
                state[f"average_{side}"] = product * (1 - group["betas"][1])
                state[f"basis_{side}"] = torch.linalg.eigh(product).eigenvectors.flip(1).contiguous()


def _products(gradient: Tensor) -> list[tuple[str, Tensor]]:
    return [("left", gradient @ gradient.T), ("right", gradient.T @ gradient)] if gradient.ndim == 2 else []


def _into(state: dict[str, Any], matrix: Tensor) -> Tensor:
    """In the basis."""
    matrix = state["basis_left"].T @ matrix if "basis_left" in state else matrix
    return matrix @ state["basis_right"] if "basis_right" in state else matrix


def _out_of(state: dict[str, Any], matrix: Tensor) -> Tensor:
    """Back from the basis."""
    matrix = state["basis_left"] @ matrix if "basis_left" in state else matrix
    return matrix @ state["basis_right"].T if "basis_right" in state else matrix


def _turn(state: dict[str, Any]) -> None:
    """One step of power iteration for each basis, ordered by size; the squares go with their vectors."""
    for axis, side in enumerate(("left", "right")):
        if f"basis_{side}" in state:
            average, basis = state[f"average_{side}"], state[f"basis_{side}"]
            sizes = (basis * (average @ basis)).sum(0)
            order = sizes.argsort(descending=True, stable=True)
            state["square"] = state["square"].index_select(axis, order)
            state[f"basis_{side}"] = torch.linalg.qr(average @ basis[:, order]).Q
