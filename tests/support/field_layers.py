"""The layers over fields of a network, each on the features that it meets."""

from __future__ import annotations

from torch import Tensor, nn

from evolvent.analysis.field_layers import trace_layers


def layer_errors(model: nn.Module, x: Tensor) -> dict[str, float]:
    """For each layer its own largest :math:`|L(g u) - g L(u)| / |L(u)|` over the symmetries of the grid.

    What layers before it add is left out, so that this is rounding once, however deep the network is.
    """
    return {one.name: _error(one.module, one.before) for one in trace_layers(model, x)[0] if one.field is not None}


def _error(layer: nn.Module, u: Tensor) -> float:
    before, after = layer.in_field, layer.out_field
    inside, v = before.group.embedding(after.group), layer(u)
    changes = [layer(before.transform(u, int(inside[g]))) - after.transform(v, g) for g in after.group.grid_symmetries]
    return max((change.norm() / v.norm()).item() for change in changes)
