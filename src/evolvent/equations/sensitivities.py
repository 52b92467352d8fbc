"""How quantities at points depend on the weights of the network that represents the solution."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

_CHUNK = 256  # points at a time

Quantity = Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]  # of a function and points, (N, 1)


def parameter_jacobian(model: nn.Module, quantity: Quantity, points: Tensor) -> Tensor:
    r"""The matrix :math:`\partial q(x_i) / \partial \theta_j`, in about the time of some evaluations of q.

    Args:
        model: a network that treats points one by one.
        quantity: q, from a function of points and points (N, d) to values (N, 1), such as the residual of an equation.
        points: (N, d).

    Returns:
        (N, parameters), in the order of ``model.parameters()``, of those that are trained.

    >>> import torch
    >>> from torch import nn
    >>> from evolvent.equations import parameter_jacobian
    >>> parameter_jacobian(nn.Linear(2, 1), lambda f, x: f(x) ** 2, torch.rand(5, 2)).shape
    torch.Size([5, 3])
    """
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def at(parameters: dict[str, Tensor], point: Tensor) -> Tensor:
        return quantity(lambda x: functional_call(model, parameters, (x,)), point[None]).squeeze()

    with torch.enable_grad():
        quantity(model, points[:1])  # whatever is computed once and kept must not be computed inside of vmap
        rows = vmap(grad(at), in_dims=(None, 0), chunk_size=_CHUNK)(trained, points)
    return torch.cat([row.flatten(1) for row in rows.values()], dim=1)
