"""What each layer of a network costs: parameters, multiply-adds, activation memory, time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from evolvent.analysis.cost import KeptBytes, flop_counter, on_a_copy
from evolvent.evolution import Evolution, evolutions

Reading = Callable[[], float]


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer, or of all."""

    name: str
    kind: str
    parameters: int  # trainable
    multiply_adds: int  # of one image, forward
    activation_bytes: int  # kept for the backward pass of the batch, by the gradient strategy at the moment
    seconds: float  # of the batch, forward, in evaluation mode


@dataclass(frozen=True)
class LayerTable:
    """The layers in order, what runs between them, and the sum of both."""

    layers: list[LayerCost]
    between: list[LayerCost]  # such as the sums that an evolution makes in its steps
    total: LayerCost
    batch_size: int
    plain_seconds: float  # the whole network without the hooks that time its layers


def layer_costs(model: nn.Module, images: Tensor, repeats: int = 5) -> LayerTable:
    """Cost of each layer: each step of an evolution, and whatever else stands between images and answer.

    All but the time are exact: the sums are what :func:`~evolvent.analysis.count_parameters`,
    :func:`~evolvent.analysis.count_multiply_adds` and :func:`~evolvent.analysis.activation_bytes` give for the whole.
    What modules do by themselves counts for the layer they lie in.

    Args:
        model: a network; neither its state nor the random numbers are touched.
        images: (B, C, H, W) with B >= 2, as batch normalisation needs.
        repeats: number of timed runs; the fastest counts, as other work on the machine disturbs it least.

    >>> table = layer_costs(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()), torch.zeros(2, 1, 8, 8))
    >>> [(layer.name, layer.parameters, layer.multiply_adds) for layer in table.layers]
    [('0', 20, 648), ('1', 0, 0)]
    """
    found = dict(layers_of(model))
    names = [name for name, _ in model.named_modules()]
    parameters = dict.fromkeys(names, 0.0)
    for name, parameter in model.named_parameters():
        parameters[name.rpartition(".")[0]] += parameter.numel() * parameter.requires_grad
    measured = {
        "parameters": parameters,
        "multiply_adds": _multiply_adds(model, images[:1]),
        "activation_bytes": _activation_bytes(model, images),
        "seconds": _seconds(model, images, repeats),
    }
    places = [*found, *(name for name, _ in evolutions(model))]
    sums = {what: _by_layer(values, places) for what, values in measured.items()}
    others = [name for values in sums.values() for name in values if name not in found]
    kinds = {name: type(module).__name__ for name, module in model.named_modules()}
    layers, between = (
        [_cost(name, kinds[name], {what: values.get(name, 0.0) for what, values in sums.items()}) for name in names]
        for names in (found, dict.fromkeys(others))
    )
    total = _cost("total", type(model).__name__, {what: sum(values.values()) for what, values in measured.items()})
    return LayerTable(layers, between, total, len(images), _plain_seconds(model, images, repeats))


def layers_of(module: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Names of what counts as a layer: the steps of evolutions, and what stands beside evolutions.

    >>> import evolvent as ev
    >>> [name for name, _ in layers_of(ev.create_model("hamiltonian", channels=(4, 8), blocks=(2, 1)))]
    ['stem', 'body.0.dynamics.0', 'body.0.dynamics.1', 'body.1', 'body.2.dynamics.0', 'head']
    """
    opened = not name or isinstance(module, nn.ModuleList) or any(isinstance(m, Evolution) for m in module.modules())
    children = list(module.named_children())
    if not opened or not children or (isinstance(module, Evolution) and module.steps == 0):
        if name:
            yield name, module
        return
    for child, inner in children:
        yield from layers_of(inner, f"{name}.{child}" if name else child)


def _cost(name: str, kind: str, values: dict[str, float]) -> LayerCost:
    whole = {what: round(value) for what, value in values.items() if what != "seconds"}
    return LayerCost(name or "in between", kind, **whole, seconds=values["seconds"])


def _by_layer(values: dict[str, float], layers: list[str]) -> dict[str, float]:
    """Sums over the modules of each layer; what lies outside all of them is under an empty name."""
    sums: dict[str, float] = {}
    for name, value in values.items():
        inside = next((layer for layer in layers if name == layer or name.startswith(f"{layer}.")), "")
        if value:
            sums[inside] = sums.get(inside, 0.0) + value
    return dict(sorted(sums.items(), key=lambda item: item[0] == ""))


def _multiply_adds(model: nn.Module, image: Tensor) -> dict[str, float]:
    counter = flop_counter()

    def run(twin: nn.Module) -> dict[str, float]:
        with counter, torch.no_grad():
            return _shares(twin.eval(), image, counter.get_total_flops)

    return {name: value / 2 for name, value in on_a_copy(model, run).items()}


def _activation_bytes(model: nn.Module, images: Tensor) -> dict[str, float]:
    def run(twin: nn.Module) -> dict[str, float]:
        with KeptBytes(twin) as kept:
            return _shares(twin.train(), images, lambda: kept.total)

    return on_a_copy(model, run)


def _seconds(model: nn.Module, images: Tensor, repeats: int) -> dict[str, float]:
    @torch.no_grad()
    def run(twin: nn.Module) -> dict[str, float]:
        twin.eval()(images)  # the first run pays for what is set up once
        runs = [_shares(twin, images, _clock(images)) for _ in range(repeats)]
        return {name: min(run[name] for run in runs) for name in runs[0]}

    return on_a_copy(model, run)


def _plain_seconds(model: nn.Module, images: Tensor, repeats: int) -> float:
    @torch.no_grad()
    def run(twin: nn.Module) -> float:
        twin.eval()(images)
        clock, durations = _clock(images), []
        for _ in range(repeats):
            start = clock()
            twin(images)
            durations.append(clock() - start)
        return min(durations)

    return on_a_copy(model, run)


def _clock(images: Tensor) -> Reading:
    if images.device.type == "cpu":
        return time.perf_counter
    synchronise = partial(torch.cuda.synchronize, images.device)

    def read() -> float:
        synchronise()
        return time.perf_counter()

    return read


def _shares(model: nn.Module, images: Tensor, reading: Reading) -> dict[str, float]:
    """How a reading rises during one forward pass, shared out to the innermost module at work."""
    shares = {name: 0.0 for name, _ in model.named_modules()}
    working = [""]
    last = reading()

    def settle() -> None:
        nonlocal last
        now = reading()
        shares[working[-1]] += now - last
        last = now

    def enter(name: str, *_: object) -> None:
        settle()
        working.append(name)

    def leave(*_: object) -> None:
        settle()
        working.pop()

    handles = [module.register_forward_pre_hook(partial(enter, name)) for name, module in model.named_modules()]
    handles += [module.register_forward_hook(leave) for module in model.modules()]
    last = reading()
    output = model(images)
    settle()
    del output  # until here it holds on to what was kept for the backward pass
    for handle in handles:
        handle.remove()
    return shares
