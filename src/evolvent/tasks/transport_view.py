"""What is seen of a trained transport: exact transport of its points, densities, and paths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from evolvent.data import Density
from evolvent.equations import Characteristics, Drift, Obstacle, TransportFlow
from evolvent.evolution import Evolution
from evolvent.integrators import Dopri5
from evolvent.tasks.findings import Animation, Field, Findings, Table
from evolvent.tasks.flow_view import evenly_chosen

if TYPE_CHECKING:
    from evolvent.tasks.transport import TransportSettings

_FRAMES = 16  # steps of the animation
_TOLERANCE = 1e-4  # of the adaptive method whose evaluations are counted
_PATHS = 60  # drawn over a picture
_REACH = 1.25  # of pictures, relative to the points


def conclusions(
    figures: dict[str, float],
    flow: TransportFlow,
    points: tuple[Tensor, Tensor],
    source: Density,
    target: Density,
    settings: TransportSettings,
) -> Findings:
    """Figures, a table of exact transports, densities in the plane, and moving points."""
    x, y = points
    end = flow(x)
    if not end.points.isfinite().all():
        return Findings(figures=figures)
    exact = exact_transport(x, end.points, y, target)
    figures = figures | {
        "w2": exact["distance to the target"], "excess": exact["excess"],
        "evaluations": float(evaluations(flow, x)),
    }  # fmt: skip
    found = Findings(figures=figures, tables=[_table(figures, exact, len(x))])
    if x.shape[1] > 1:
        found.fields.extend(_densities(flow, x, y, source, target, settings.grid))
        found.fields.append(_paths(flow, x, target, settings.grid))
        found.animations.append(_moving(flow, x, settings.shown))
    return found


def exact_transport(x: Tensor, moved: Tensor, y: Tensor, target: Density) -> dict[str, float]:
    """Exact transports between equal numbers of points: start to end, start to target, end to target."""
    further = target.draw(torch.arange(len(x)) + (1 << 40), 0).to(x)  # for the distance of two samples
    paired = (moved - x).square().sum(1).mean().item() / 2
    own = assigned(x, moved) / 2
    return {
        "paired": paired, "own": own, "excess": paired / own - 1 if own > 0 else math.nan,
        "to target": assigned(x, y) / 2, "distance to the target": math.sqrt(assigned(moved, y)),
        "distance of samples": math.sqrt(assigned(further, y)),
    }  # fmt: skip


def assigned(x: Tensor, y: Tensor) -> float:
    """The least mean square distance over all one-to-one assignments: the square of the Wasserstein distance."""
    from scipy.optimize import linear_sum_assignment

    squares = torch.cdist(x.double(), y.double()).square().cpu().numpy()
    return float(squares[linear_sum_assignment(squares)].mean())


def evaluations(flow: TransportFlow, x: Tensor, tolerance: float = _TOLERANCE) -> int:
    """How often an adaptive method evaluates the velocity to carry the points from start to end."""
    drift = flow.drift.dynamics
    assert isinstance(drift, Drift)
    counted = Evolution(Drift(drift.network), Dopri5(tolerance, tolerance), 1, 1.0)
    calls: list[None] = []
    counted.dynamics.register_forward_hook(lambda *_: calls.append(None))
    counted(x)
    return len(calls)


def _table(figures: dict[str, float], exact: dict[str, float], count: int) -> Table:
    rows = [
        ["transport cost of the flow (test points)", figures["cost"]],
        ["half the squared way of its points", exact["paired"]],
        ["exact, between the same points", exact["own"]],
        ["exact, to as many points of the target", exact["to target"]],
        ["Wasserstein distance of the end to the target", exact["distance to the target"]],
        ["the same of two samples of the target", exact["distance of samples"]],
        ["evaluations of an adaptive method, tolerance 1e-4", figures["evaluations"]],
    ]
    return Table(f"Beside the exact transport of {count} points", ["quantity", "value"], rows)


def _densities(flow: TransportFlow, x: Tensor, y: Tensor, source: Density, target: Density, pixels: int) -> list[Field]:
    """The density that the flow makes at the end, and the one that it starts from if the end is the target."""
    found = []
    if source.known:
        plane, extent = _plane(y, pixels)
        title, made = "Density at the end", flow.pushed_forward(source.log_density)
        reference = target.log_density(plane) if target.known else None
        found.append(_field(title, made(plane), reference, extent, pixels))
    if target.known:
        plane, extent = _plane(x, pixels)
        title, made = "Density at the start that ends as the target", flow.pulled_back(target.log_density)
        reference = source.log_density(plane) if source.known else None
        found.append(_field(title, made(plane), reference, extent, pixels))
    return found


def _plane(points: Tensor, pixels: int) -> tuple[Tensor, tuple[float, float, float, float]]:
    """Points of the plane of the first two coordinates, the others 0; rows go up, columns to the right."""
    reach = _REACH * points[:, :2].abs().max().item()
    line = torch.linspace(-reach, reach, pixels, dtype=points.dtype, device=points.device)
    plane = torch.cartesian_prod(line, line).flip(1)
    others = plane.new_zeros(len(plane), points.shape[1] - 2)
    return torch.cat([plane, others], 1), (-reach, reach, -reach, reach)


def _field(
    title: str,
    values: Tensor,
    reference: Tensor | None,
    extent: tuple[float, float, float, float],
    pixels: int,
) -> Field:
    """Densities from their logarithms; of a slice through many dimensions relative to the highest of the reference."""
    highest = (values if reference is None else reference).max() if values.max() < math.inf else 0.0
    drawn = [None if one is None else (one - highest).exp().view(pixels, pixels) for one in (values, reference)]
    arrays = [None if one is None else one.float().cpu().numpy() for one in drawn]
    assert arrays[0] is not None
    return Field(title, arrays[0], extent, "x1", "x2", arrays[1])


def _paths(flow: TransportFlow, x: Tensor, target: Density, pixels: int) -> Field:
    """Paths of some points, over the hills in their way, or else over the target."""
    way = flow.ahead.dynamics
    assert isinstance(way, Characteristics)
    path = _fine(flow).path(x[evenly_chosen(len(x), _PATHS)])
    plane, extent = _plane(path.flatten(0, 1), pixels)
    hills = [cost(plane, plane[:, :1]) for cost in way.running if isinstance(cost, Obstacle)]
    values = sum(hills, torch.zeros_like(plane[:, :1]))
    if not hills and target.known:
        values = target.log_density(plane)
        values = (values - values.max()).exp()
    lines = path[:, :, :2].transpose(0, 1).float().cpu().numpy()
    title = "Paths around the obstacle" if hills else "Paths to the target"
    return Field(title, values.view(pixels, pixels).float().cpu().numpy(), extent, "x1", "x2", paths=lines)


def _fine(flow: TransportFlow) -> TransportFlow:
    """The same flow with enough steps for a picture."""
    drift = flow.drift.dynamics
    assert isinstance(drift, Drift)
    return TransportFlow(drift.network, max(_FRAMES, flow.drift.steps))


def _moving(flow: TransportFlow, x: Tensor, shown: int) -> Animation:
    """Points on their way, coloured by the eighth of the plane in which they end."""
    path = _fine(flow).path(x[evenly_chosen(len(x), shown)])[:, :, :2].float().cpu()
    steps = len(path) - 1
    offset = path[-1] - path[-1].mean(0)
    eighth = ((torch.atan2(offset[:, 1], offset[:, 0]) / (2 * math.pi) * 8).round() % 8).long()
    captions = [f"t = {k / steps:.2f}" for k in range(steps + 1)]
    return Animation("Transport of points", path.numpy(), eighth.numpy(), captions=captions, one_scale=True)
