"""Networks with twice the steps that compute almost the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

import torch
from torch import nn

from evolvent._core.errors import ConfigError
from evolvent.evolution import evolutions, refine_evolutions
from evolvent.networks._registry import ModelSpec, create_model, model_entry

_DEPTH = ("blocks", "steps", "layers")  # what families call the number of steps


def refine(
    model: nn.Module,
    interpolation: Literal["constant", "linear"] = "constant",
    knots: Literal["kept", "doubled"] = "kept",
) -> nn.Module:
    """A new network with twice the steps of half the size in every evolution that computes almost the same.

    Everything is copied; the function changes by :math:`O(h)`, see :meth:`evolvent.Evolution.refine`. A registered
    network's ``spec`` follows (``blocks`` doubled, ``step_size`` halved), so that saving and loading work.

    Raises:
        ConfigError: if the network has no evolution, or its family cannot be built with that: for example a ResNet
            whose later units begin with a transition, which is a block that has no halves, or a network with nonlocal
            blocks, which have a step size of their own.

    >>> import evolvent as ev
    >>> fine = refine(ev.create_model("hamiltonian", channels=(4,), blocks=2, step_size=0.2))
    >>> fine.spec.options["blocks"], fine.spec.options["step_size"]
    (4, 0.1)
    """
    if not any(True for _ in evolutions(model)):
        raise ConfigError(f"{type(model).__name__} contains no Evolution that could be refined.")
    finer = refine_evolutions(model, interpolation, knots)
    spec = getattr(model, "spec", None)
    if isinstance(spec, ModelSpec):
        vars(finer)["spec"] = _refined_spec(spec)
        _check_rebuilds(finer)
    return finer


def _refined_spec(spec: ModelSpec) -> ModelSpec:
    entry = model_entry(spec.name)
    options = asdict(entry.read_options(spec.options))
    changes: dict[str, Any] = {name: _doubled(options[name]) for name in _DEPTH if name in options}
    if not changes:
        raise ConfigError(f"{spec.name} has no option for its number of steps ({' or '.join(_DEPTH)}) to be doubled.")
    if "step_size" in options:
        changes["step_size"] = options["step_size"] / 2
    return replace(spec, options={**spec.options, **changes})


def _doubled(count: Any) -> Any:
    return 2 * count if isinstance(count, int) else tuple(2 * n for n in count)


def _check_rebuilds(model: nn.Module) -> None:
    spec: ModelSpec = vars(model)["spec"]
    with torch.random.fork_rng(devices=[]):
        twin = create_model(spec.name, **spec.options)
    found, expected = ({name: (e.steps, e.step_size) for name, e in evolutions(m)} for m in (twin, model))
    if found != expected or _shapes(twin) != _shapes(model):
        raise ConfigError(
            f"{spec.name} cannot be refined: with {spec.options} its evolutions make {_steps(found)} steps, refined "
            f"ones make {_steps(expected)}. Families whose units begin with a transition count it as a block; use one "
            "unit, or a family such as hamiltonian."
        )
    for (name, expected), found in zip(_settings(model).items(), _settings(twin).values(), strict=True):
        if found != expected:
            raise ConfigError(
                f"{spec.name} cannot be refined: {name!r} has {expected} and is not an evolution, but would be built "
                f"with {found}. Use a family such as hamiltonian."
            )


def _settings(model: nn.Module) -> dict[str, str]:
    """Of all modules outside evolutions, which must stay as they are."""
    inside = {part for _, evolution in evolutions(model) for part in evolution.modules()}
    return {name: part.extra_repr() for name, part in model.named_modules() if part not in inside}


def _shapes(model: nn.Module) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in model.state_dict().items()}


def _steps(evolutions: Mapping[str, tuple[int, float]]) -> str:
    return " + ".join(str(steps) for steps, _ in evolutions.values())
