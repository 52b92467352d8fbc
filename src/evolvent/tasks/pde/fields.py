"""How far fields that were not measured, but found together with a measured solution, may be off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evolvent.equations import parameter_jacobian
from evolvent.tasks.findings import Field

if TYPE_CHECKING:
    from evolvent.tasks.pde.task import Pde

_FLOOR = 1e-7  # of the size of the Jacobian: how firmly weights are held that nothing tells about
_MOST_PARAMETERS = 4000
_MOST_POINTS = 4096  # where errors are computed


def measured_columns(values: Tensor) -> list[int]:
    """Components of samples that were measured; the others are not a number in all of them."""
    return [k for k, column in enumerate(values.unbind(1)) if not column.isnan().all()]


@torch.no_grad()
def field_errors(task: Pde, at: Tensor, turn: str) -> Tensor:
    r"""Standard errors of all components of u at points, (N, unknowns), from the noise of the samples.

    With all residuals r of the fit (equation, conditions, samples, each with its weight), their Jacobian J in the
    weights of the network and that of u, :math:`U`, they are the roots of the diagonal of
    :math:`\sigma^2\, U (J^\top J)^{-1} U^\top`, where :math:`\sigma^2` is the mean square of what the samples are off,
    each counted less the share that the fit follows it. Where nothing tells about a field they are huge.

    Args:
        task: trained, with samples.
        at: points.
        turn: whose weights of the parts count.
    """
    batch = task.source.take(torch.arange(len(task.source)), task.setup.seed, 0)
    blocks = task.residuals(task.placed(batch), turn)
    rows = [block.jacobian() for block in blocks]
    count = sum(p.numel() for p in task.model.parameters() if p.requires_grad)
    jacobian = torch.cat(rows)[:, :count]
    held = _FLOOR * jacobian.norm() * torch.eye(count, dtype=jacobian.dtype, device=jacobian.device)
    triangle = torch.linalg.qr(torch.cat([jacobian, held]), mode="r").R

    def whitened(matrix: Tensor) -> Tensor:
        return torch.linalg.solve_triangular(triangle, matrix, upper=True, left=False)

    off, samples = blocks[-1].values, whitened(rows[-1][:, :count])  # samples come last
    freedom = samples.square().sum().item()
    noise = (off.square().sum() / max(len(off) - freedom, 1.0)).sqrt()
    found = []
    for k in range(len(task.problem.unknowns)):
        slopes = parameter_jacobian(task.model, lambda f, x, k=k: task.solution_of(f, x)[:, k : k + 1], at)
        found.append(noise * whitened(slopes).norm(dim=1))
    return torch.stack(found, dim=1)


def error_fields(task: Pde, turn: str) -> list[Field]:
    """Standard errors of the components that were not measured, on a grid; none where they are too much to compute."""
    problem, samples = task.problem, task.source.samples
    size = sum(p.numel() for p in task.model.parameters())
    if samples is None or task.discovery is not None or len(problem.domain) != 2 or size > _MOST_PARAMETERS:
        return []
    missing = [k for k in range(len(problem.unknowns)) if k not in measured_columns(samples.values)]
    if not missing:
        return []
    side = int(_MOST_POINTS**0.5)
    errors = field_errors(task, task.placed(problem.grid(side, side)), turn).double().cpu()
    (left, right), (bottom, top) = problem.domain.values()
    x_label, y_label = problem.coordinates
    return [
        Field(
            f"Standard error of {problem.unknowns[k]}",
            errors[:, k].view(side, side).T.numpy(),
            (left, right, bottom, top),
            x_label,
            y_label,
        )
        for k in missing
    ]
