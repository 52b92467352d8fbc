"""Whether a network survives being saved, pickled and copied, and keeps only what must be kept."""

from __future__ import annotations

import copy
import pickle
import tempfile
from typing import Any

import torch
from torch import Tensor, nn

from evolvent.networks import ModelSpec, load, save
from evolvent.testing._claims import claim


def check_state_dict(model: nn.Module, x: Tensor, *extra: Any) -> None:
    """The state_dict holds parameters and buffers only, with the same keys in training and evaluation."""
    keys = list(model.train().state_dict())
    model(x, *extra)
    for mode, found in (("a training pass", list(model.state_dict())), ("eval()", list(model.eval().state_dict()))):
        odd = sorted(set(keys) ^ set(found))
        claim(not odd, f"{mode} changes the keys of the state_dict: {odd[:3]}.")
    known = {name for name, _ in model.named_parameters()} | {name for name, _ in model.named_buffers()}
    strange = sorted(set(keys) - known)
    claim(not strange, f"the state_dict holds {strange[:3]}, which are neither parameters nor buffers.")
    missing = sorted(name for name, _ in model.named_parameters() if name not in keys)
    claim(not missing, f"the state_dict lacks the parameters {missing[:3]}.")


def check_buffers_are_true(model: nn.Module, another: nn.Module, x: Tensor, *extra: Any) -> None:
    """Every saved buffer is learned in training or drawn at random: what the options determine is not to be saved.

    Args:
        model: a network that is not used otherwise; it makes a training pass.
        another: built with the same options.
    """
    kept = {name: b for name, b in model.named_buffers() if name in model.state_dict()}
    before = {name: b.clone() for name, b in kept.items()}
    model.train()(x, *extra)
    drawn = dict(another.named_buffers())
    live = {_owner(name) for name, b in kept.items() if not torch.equal(b, before[name])}
    for name, b in kept.items():
        claim(
            _owner(name) in live or not torch.equal(b, drawn[name]),
            f"the buffer {name!r} of {b.numel()} numbers follows from the options, so it must not be saved: "
            "register it with persistent=False.",
        )


def _owner(name: str) -> str:
    """The module a buffer belongs to: one that learns in training may have parts that happen to stay."""
    return name.rpartition(".")[0]


def check_copies(model: nn.Module, x: Tensor, *extra: Any) -> None:
    """A pickled and a deep copy answer bitwise as the model does."""
    expected = _answer(model, x, *extra)
    try:
        pickled = pickle.loads(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(f"the network cannot be pickled, networks can: {error}") from error
    for kind, twin in (("pickled", pickled), ("deep", copy.deepcopy(model))):
        claim(torch.equal(_answer(twin, x, *extra), expected), f"a {kind} copy answers differently.")


def check_saved(model: nn.Module, x: Tensor, *extra: Any) -> None:
    """The model answers bitwise the same after ``ev.save`` and ``ev.load``.

    A module that :func:`evolvent.create_model` did not make is taken through its state_dict instead.
    """
    expected = _answer(model, x, *extra)
    if isinstance(getattr(model, "spec", None), ModelSpec):
        with tempfile.TemporaryDirectory() as folder:
            save(model, folder)
            twin = load(folder)
    else:
        twin = copy.deepcopy(model)
        for p in twin.parameters():
            nn.init.zeros_(p)
        twin.load_state_dict(model.state_dict())
    off = (_answer(twin, x, *extra) - expected).abs().max().item()
    claim(
        torch.equal(_answer(twin, x, *extra), expected),
        f"after save and load answers differ by up to {off:.1e}, not bitwise 0.",
    )


def _answer(model: nn.Module, x: Tensor, *extra: Any) -> Tensor:
    """What the model says in evaluation mode, in which it is left."""
    with torch.no_grad():
        return model.eval()(x, *extra)
