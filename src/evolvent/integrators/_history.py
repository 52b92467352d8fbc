"""The state of a multistep method: a value and one more of its kind, as one flat tuple."""

from __future__ import annotations

from evolvent._core.state import State, parts


def join(u: State, past: State) -> State:
    """The parts of ``u``, then those of ``past``."""
    return parts(u) + parts(past)


def split(state: State) -> tuple[State, State]:
    """Undoes :func:`join`; two tensors are the history of a tensor, more of them that of a tuple.

    A tuple of one tensor is thus taken for the tensor.
    """
    tensors = parts(state)
    half = len(tensors) // 2
    return (tensors[0], tensors[1]) if half == 1 else (tensors[:half], tensors[half:])
