"""Derivatives of networks by Taylor mode and the forward Laplacian, against nested autograd and torch.func.

Variants run interleaved in one process with one thread; times are CPU seconds of the process, ratios are medians over
rounds of ratios in the same round, and answers are compared first. ``--smoke`` runs few rounds and stores nothing.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from results import PACKAGES, interleaved, store
from torch import Tensor, nn
from torch.func import functional_call, hessian, jvp, vmap

from evolvent import create_model
from evolvent.equations import coordinate_jets, jet, laplacian
from evolvent.experiments.freed_memory import keep_freed_memory

ASKED = (
    "u to u_xxx trained in at most 0.5 x, the Laplacian in 100 dimensions in at most 0.22 x of nested autograd's time, "
    "Allen-Cahn's step in at most 25 ms"
)
Step = Callable[[], Any]


def mlp(*sizes: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, o in pairwise(sizes):
        layers += [nn.Linear(i, o, dtype=dtype), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def slope(u: Tensor, x: Tensor, keep: bool = True) -> Tensor:
    return torch.autograd.grad(u.sum(), x, create_graph=keep)[0]


def trained(net: nn.Module, derivatives: Callable[[], list[Tensor]]) -> Step:
    """The loss of all derivatives and its gradient in the weights."""

    def step() -> list[Tensor]:
        net.zero_grad(set_to_none=True)
        found = derivatives()
        torch.stack([u.square().mean() for u in found]).sum().backward()
        return [u.detach() for u in found] + [w.grad.clone() for w in net.parameters() if w.grad is not None]

    return step


def without_tape(step: Callable[[], list[Tensor]]) -> Step:
    return torch.no_grad()(step)


def third_order(dtype: torch.dtype) -> dict[str, dict[str, Step]]:
    """u, u_x, u_xx, u_xxx of a network 3-64x4-1 at 10,000 points."""
    net, x = mlp(3, 64, 64, 64, 64, 1, dtype=dtype), torch.rand(10_000, 3, dtype=dtype)
    direction = torch.eye(3, dtype=dtype)[0]

    def nested() -> list[Tensor]:
        at = x.clone().requires_grad_()
        found = [net(at)]
        for _ in range(3):
            found.append(slope(found[-1], at)[:, :1])
        return found

    def nested_jvp() -> list[Tensor]:
        weights, tangent = dict(net.named_parameters()), direction.expand_as(x).contiguous()
        f: Callable[[Tensor], Any] = lambda at: (functional_call(net, weights, (at,)),)  # noqa: E731
        for _ in range(3):
            f = (lambda g: lambda at: (g(at)[0], *jvp(g, (at,), (tangent,))[1]))(f)
        return list(f(x))

    def taylor() -> list[Tensor]:
        return jet(net, x, direction, 3)

    ways = {"nested autograd": nested, "nested torch.func.jvp": nested_jvp, "evolvent": taylor}
    values = {name: way if way is nested else without_tape(way) for name, way in ways.items()}
    return {"values": values, "training": {name: trained(net, way) for name, way in ways.items()}}


def collocation() -> dict[str, Step]:
    """Training step of a physics-informed network 2-30x3-1 for Allen-Cahn at 4,000 points, float64."""
    net, (t, x) = mlp(2, 30, 30, 30, 1, dtype=torch.float64), torch.rand(2, 4_000, 1, dtype=torch.float64)

    def residual(u: Tensor, u_t: Tensor, u_xx: Tensor) -> list[Tensor]:
        return [u_t - 1e-4 * u_xx + 5 * u**3 - 5 * u]

    def nested() -> list[Tensor]:
        at = torch.cat([t, x], 1).requires_grad_()
        u = net(at)
        first = slope(u, at)
        return residual(u, first[:, :1], slope(first[:, 1:], at)[:, 1:])

    def taylor() -> list[Tensor]:
        u, [[u_t], [_, u_xx]] = coordinate_jets(lambda t, x: net(torch.cat([t, x], 1)), [t, x], [1, 2])
        return residual(u, u_t, u_xx)

    solution = create_model("perceptron").double()
    solution.load_state_dict(dict(zip(solution.state_dict(), net.state_dict().values(), strict=True)))

    def fused() -> list[Tensor]:
        u, [[u_t], [_, u_xx]] = coordinate_jets(lambda t, x: solution(torch.cat([t, x], 1)), [t, x], [1, 2])
        return residual(u, u_t, u_xx)

    rows, weight = torch.rand(16_000, 30, dtype=torch.float64), torch.rand(30, 30, dtype=torch.float64)

    def products_alone() -> list[Tensor]:
        for _ in range(2):  # forward, and backward for input and weight, of both inner layers
            rows @ weight, rows @ weight.T, rows.T @ rows
        return []

    return {
        "nested autograd": trained(net, nested),
        "evolvent, any network": trained(net, taylor),
        "evolvent, perceptron": trained(solution, fused),
        "inner matrix products alone": products_alone,
    }


def laplacians(dims: int = 100) -> dict[str, dict[str, Step]]:
    """The Laplacian of a network 100-64x3-1 at 256 points."""
    net, x = mlp(dims, 64, 64, 64, 1), torch.randn(256, dims)

    def nested(keep: bool = True) -> list[Tensor]:
        at = x.clone().requires_grad_()
        first = slope(net(at), at)
        rows = [
            torch.autograd.grad(first[:, i].sum(), at, create_graph=keep, retain_graph=True)[0] for i in range(dims)
        ]
        return [torch.stack([row[:, i] for i, row in enumerate(rows)]).sum(0)]

    def of_hessian() -> list[Tensor]:
        weights = dict(net.named_parameters())
        return [vmap(lambda at: hessian(lambda q: functional_call(net, weights, (q,))[0])(at).trace())(x)]

    def forward() -> list[Tensor]:
        return [laplacian(net, x).laplacian[:, 0]]

    values = {"nested autograd": lambda: nested(False), "torch.func.hessian": without_tape(of_hessian)}
    ways = {"nested autograd": nested, "torch.func.hessian": of_hessian, "evolvent": forward}
    return {
        "values": values | {"evolvent": without_tape(forward)},
        "training": {name: trained(net, way) for name, way in ways.items()},
    }


def compared(title: str, steps: dict[str, Step], rounds: int, against: str = "nested autograd") -> dict[str, Any]:
    """CPU milliseconds of each, and its time as a share of that of ``against``."""
    print(title)
    answers = {name: step() for name, step in steps.items()}
    spent, rows = interleaved(steps, rounds), {}
    for name, seconds in spent.items():
        ratio = statistics.median(a / b for a, b in zip(seconds, spent[against], strict=True))
        pairs = zip(answers[name], answers[against], strict=False)
        off = max(((a - b).abs().max() / (1e-30 + b.abs().max())).item() for a, b in pairs) if answers[name] else 0.0
        rows[name] = {"milliseconds": 1e3 * statistics.median(seconds), "ratio": ratio, "difference": off}
        print(f"  {name:30s} {rows[name]['milliseconds']:9.1f} ms {ratio:6.3f} x   differs by {off:.0e}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    rounds = 2 if smoke else 7
    torch.manual_seed(0)
    torch.set_num_threads(1)
    keep_freed_memory()
    measured: dict[str, Any] = {"asked": ASKED}
    cases = {f"u to u_xxx, {str(dtype)[6:]}": third_order(dtype) for dtype in (torch.float32, torch.float64)}
    cases |= {"Laplacian in 100 dimensions, float32": laplacians()}
    for title, kinds in cases.items():
        measured[title] = {kind: compared(f"{title}, {kind}", steps, rounds) for kind, steps in kinds.items()}
    title = "Allen-Cahn residual, 2-30x3-1, 4,000 points, float64"
    measured[title] = {"training": compared(f"{title}, training", collocation(), 2 * rounds)}
    if not smoke:
        store("derivatives", measured, PACKAGES)


if __name__ == "__main__":
    main()
