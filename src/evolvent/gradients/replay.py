"""Computing a step again exactly as it was computed before: random numbers, mixed precision, running statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import get_device_states, set_device_states

from evolvent._core.errors import ConfigError
from evolvent.gradients._contract import Propagator


class Replay:
    """What steps depend on besides their arguments, kept from their first run so that they can be run again.

    The first run happens inside :meth:`first`, with :meth:`mark` before each piece of work; piece ``i`` is repeated
    inside :meth:`again` after :meth:`rewind` ``(i)``. Random states are kept only where random numbers were drawn.
    Parameters are not kept, but must not have changed.

    Args:
        modules: all modules the work may call; their running statistics are those of one run.
        tensors: some of the work's arguments, which tell the devices.

    Attributes:
        mixed: whether the precision is mixed.
    """

    def __init__(self, modules: Iterable[nn.Module], tensors: tuple[Tensor, ...]) -> None:
        self._modules = list(modules)
        self._weights = Weights(self._modules)
        self._tensors = tuple(t for t in tensors if t.device.type != "cpu")[:1]
        self._device = tensors[0].device.type
        self.mixed = torch.is_autocast_enabled(self._device)
        self._dtype = torch.get_autocast_dtype(self._device)
        self._marks: list[_RandomState] = []

    @contextmanager
    def first(self) -> Iterator[None]:
        with self._precision():
            yield
        if self._marks and _RandomState(self._tensors) == self._marks[0]:
            self._marks = []

    def mark(self) -> None:
        state = _RandomState(self._tensors)
        same = bool(self._marks) and state == self._marks[-1]
        self._marks.append(self._marks[-1] if same else state)

    def rewind(self, i: int) -> None:
        if self._marks:
            self._marks[i].restore()

    @contextmanager
    def again(self) -> Iterator[None]:
        self._weights.check()
        with ExitStack() as stack:
            stack.enter_context(self._precision())
            stack.enter_context(untouched_statistics(self._modules))
            if self._marks:
                stack.callback(_RandomState(self._tensors).restore)
            yield

    @contextmanager
    def _precision(self) -> Iterator[None]:
        """Mixed precision as in the first run, but without its cache of cast weights, which would carry casts made
        without a graph into places that need one."""
        if self.mixed or torch.is_autocast_enabled(self._device):
            with torch.autocast(self._device, dtype=self._dtype, enabled=self.mixed, cache_enabled=False):
                yield
        else:
            yield


class _RandomState:
    """The state of the random numbers on the processor and on the devices of some tensors."""

    def __init__(self, tensors: tuple[Tensor, ...]) -> None:
        self.cpu = torch.get_rng_state()
        self.devices, self.states = get_device_states(*tensors) if tensors else ([], [])

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.devices:
            set_device_states(self.devices, self.states)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _RandomState):
            return NotImplemented
        pairs = zip((self.cpu, *self.states), (other.cpu, *other.states), strict=True)
        return all(torch.equal(a, b) for a, b in pairs)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


class Weights:
    """The parameters of modules, which must be the same tensors and unchanged when steps are computed again."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._modules = list(modules)
        self._then = self._now()

    def check(self) -> None:
        """Refuse parameters that were changed or exchanged since this object was made."""
        now = self._now()
        if len(now) == len(self._then) and all(_same(a, b) for a, b in zip(now, self._then, strict=True)):
            return
        raise ConfigError(
            "weights were changed or exchanged (an optimiser's step, functional_call) between the forward and the "
            "backward pass, which computes steps again with them. Run the forward pass again first, or use "
            "gradient='backprop'."
        )

    def _now(self) -> list[tuple[Tensor, int]]:
        found = [p for module in self._modules for p in module._parameters.values() if p is not None]
        return [(p, 0 if p.is_inference() else p._version) for p in found]


def _same(one: tuple[Tensor, int], other: tuple[Tensor, int]) -> bool:
    return one[0] is other[0] and one[1] == other[1]


@contextmanager
def untouched_statistics(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Let normalisations in training compute as ever, but on copies of their running statistics."""
    shielded = [m for m in modules if isinstance(m, _NormBase) and m.training and m.track_running_stats]
    real = [dict(m._buffers) for m in shielded]
    try:
        for m, buffers in zip(shielded, real, strict=True):
            m._buffers.update({name: b if b is None else b.clone() for name, b in buffers.items()})
        yield
    finally:
        for m, buffers in zip(shielded, real, strict=True):
            m._buffers.update(buffers)


class Accumulator:
    """Sums gradients of parameters over steps, and hands them out in the order they were given in."""

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.known: dict[Tensor, Tensor | None] = dict.fromkeys(parameters)

    def add(self, parameters: Iterable[Tensor], gradients: Iterable[Tensor | None]) -> None:
        for p, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                before = self.known[p]
                self.known[p] = gradient if before is None else before + gradient

    def gradients(self) -> list[Tensor | None]:
        return list(self.known.values())


def trainable(evolution: Propagator) -> list[nn.Parameter]:
    """The parameters of an evolution that require a gradient."""
    return [p for p in evolution.parameters() if p.requires_grad]
