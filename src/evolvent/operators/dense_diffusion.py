"""Diffusion between few nodes, whose graph is a dense matrix: operations that every exporter knows."""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent.graphs import laplacian
from evolvent.operators._contract import DiffusionOperator
from evolvent.operators.graph_diffusion import FlowMethod, GraphDiffusion


class DenseDiffusion(GraphDiffusion):
    r"""What :class:`~evolvent.operators.GraphDiffusion` computes, with :math:`L` as a dense matrix.

    It takes :math:`N^2` numbers. Gradients go through :math:`u` alone, as there.

    Args:
        weights: :math:`W`, normalised or not, dense.

    Shape: (N, C) to the same.

    >>> diffusion = DenseDiffusion(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> diffusion.flow(torch.tensor([[1.0], [0.0]]), 0.25).tolist()
    [[0.75], [0.25]]
    """

    def __init__(self, weights: Tensor) -> None:
        DiffusionOperator.__init__(self)
        self.matrix = laplacian(weights)

    def forward(self, u: Tensor) -> Tensor:
        return self.matrix @ u

    def adjoint(self, v: Tensor) -> Tensor:
        return self.matrix.mT @ v

    def solve(self, u: Tensor, h: float) -> Tensor:
        return torch.linalg.solve(self._identity() + h * self.matrix, u)

    def flow(
        self,
        u: Tensor,
        time: float,
        method: FlowMethod = "explicit",
        substeps: int = 1,
        *,
        allow_unstable: bool = False,
        unit: float = 1.0,
    ) -> Tensor:
        if method == "exponential":
            return torch.linalg.matrix_exp(-time * self.matrix) @ u
        for _ in range(substeps):
            u = self.solve(u, time / substeps) if method == "implicit" else u - time / substeps * self(u)
        return u

    def check_step(self, step: float, substeps: int = 1, allow_unstable: bool = False, unit: float = 1.0) -> None:
        """Not done: files have no way to refuse."""

    def _identity(self) -> Tensor:
        return torch.eye(self.matrix.shape[-1], dtype=self.matrix.dtype, device=self.matrix.device)

    def extra_repr(self) -> str:
        return f"dense, {self.matrix.shape[-1]} nodes"
