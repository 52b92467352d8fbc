"""Whether the steps of a network are too large, found in about a second, before it is trained."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from evolvent._core.state import State
from evolvent.analysis.spectrum import jacobians, ritz_values
from evolvent.analysis.states import EvolutionInput, evolution_inputs, first_sample
from evolvent.analysis.step_size import StepBound, bound_for_modes, steps_needed
from evolvent.evolution import Evolution

_PIXELS = 32  # features are cropped to this height and width
_POINTS = 3  # first, middle and last step
_PRODUCTS = 16  # of each Jacobian with a vector


def step_advice(model: nn.Module, example: Tensor) -> str:
    """One line on a network whose steps exceed the stability limit of its methods; empty if none do.

    It names the evolution whose step is the farthest beyond its bound. Dynamics that normalise are left out: what they
    add in a step is bounded, so that no step makes values blow up, and they train with steps far beyond the bound that
    the initial statistics give. :func:`~evolvent.analysis.check_step_size` looks at them too and more closely, for some
    twenty times the cost.

    Args:
        model: a network, or a bare evolution; measured in evaluation mode.
        example: what the model takes; the first sample is used.

    >>> import torch
    >>> import evolvent as ev
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> model = ev.create_model("parabolic", channels=(4,), blocks=2, image_size=8, norm=None, step_size=9.0)
    >>> print(step_advice(model, torch.randn(1, 3, 8, 8)))  # doctest: +ELLIPSIS
    the step 9 of Euler() lies beyond the largest stable one, about ..., in evolution 'body.0'. Make it smaller, ...
    """
    looked_at = [start for start in evolution_inputs(model, first_sample(example)) if not _normalises(start.evolution)]
    found = [(start, quick_step_bound(start.evolution, start.u0)) for start in looked_at]
    beyond = [(start, bound) for start, bound in found if bound.exceeded_by(start.evolution.step_size)]
    if not beyond:
        return ""
    start, bound = max(beyond, key=lambda pair: pair[0].evolution.step_size / pair[1].attainable)
    return _advice(start, bound, others=len(beyond) - 1)


def quick_step_bound(evolution: Evolution, u0: State) -> StepBound:
    """An estimate of :func:`~evolvent.analysis.largest_stable_step`, mostly a few percent too large.

    The spectrum is estimated at the first, the middle and the last step, on a part of the features where they are large
    images.
    """
    method = evolution.integrator
    if not (method.real_stability or method.imaginary_stability):
        return StepBound(math.inf, math.inf)
    part = u0[..., :_PIXELS, :_PIXELS] if isinstance(u0, Tensor) and u0.ndim == 4 else u0
    found = [ritz_values(jacobian, _PRODUCTS) for _, jacobian in jacobians(evolution, part, _POINTS)]
    return bound_for_modes(method, [value for values in found for value in values])


def _normalises(evolution: Evolution) -> bool:
    return any(isinstance(module, (_NormBase, nn.GroupNorm, nn.LayerNorm)) for module in evolution.modules())


def _advice(start: EvolutionInput, bound: StepBound, others: int) -> str:
    evolution, limit = start.evolution, bound.attainable
    where = f", in evolution {start.name!r}" if start.name else ""
    more = f" and in {others} other{'s' if others > 1 else ''}" if others else ""
    return (
        f"the step {evolution.step_size:g} of {evolution.integrator} lies beyond the largest stable one, about "
        f"{limit:.3g}{where}{more}. Make it smaller, make {steps_needed(evolution, limit)} steps in place of "
        f"{evolution.steps}, or use an IMEX network such as 'imex', which is stable for any step of its stiff part."
    )
