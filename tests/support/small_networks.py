"""Every registered network in a small size, with inputs that it takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from evolvent import create_model, list_models
from evolvent.graphs import SparseMatrix
from evolvent.networks import model_entry
from evolvent.networks.building import GraphOptions, OnGraph

# For families that do not take images of the default size; all others get two 3x32x32 images.
DIGITS = ("odenet", "rknet", "resnet_mnist", "prnet_mnist", "steerable_pdo", "epdo")
INPUTS = {
    "point_resnet": (4, 2),
    "diff_resnet": (12, 2),
    "diff_resnet_fewshot": (2, 12, 512),
    "bsde": (4, 101),
    "perceptron": (4, 2),
}
INPUTS |= {"otflow": (4, 3), "velocity": (4, 3)}
INPUTS |= dict.fromkeys(DIGITS, (2, 1, 28, 28))
SMALL = {"channels": (4, 8), "blocks": 2}
SMALL_OTHERWISE = {
    "cnn": {"channels": (3, 4, 5, 4, 3, 8)},
    "mobilenetv3_isometric": {"blocks": 2},
    "odenet_mobile": {"blocks": 1},
    "prnet_mobile": {"blocks": 1, "image_size": 32},
    "steerable_pdo": {"group": "C8", "fields": (2, 3, 2, 2, 2, 3)},
    "epdo": {"group": "C8", "fields": (2, 2, 4, 2, 2, 3), "partitions": 2},
    "resnet26": {"width": 1 / 16, "blocks": (1, 2, 1, 1)},
    "resnet26_steerable_pdo": {"width": 1 / 16, "blocks": (1, 2, 1, 1)},
    "resnet26_epdo": {"width": 1 / 16, "blocks": (1, 2, 1, 1)},
    "equivariant_hamiltonian": {"fields": (2, 4), "blocks": 2},
    "equivariant_parabolic": {"fields": (2, 4), "blocks": 2},
}
FAMILIES = sorted({model_entry(name).family for name in list_models()})
GRAPH_FAMILIES = [name for name in FAMILIES if issubclass(model_entry(name).options, GraphOptions)]
RING = torch.eye(9).roll(1, 0) + torch.eye(9).roll(-1, 0)


def example(name: str) -> Tensor:
    family = model_entry(name).family
    if family in GRAPH_FAMILIES:
        return torch.randn(9, small_options(name)["in_features"])
    return torch.randn(INPUTS.get(family, (2, 3, 32, 32)))


def extra(name: str) -> tuple:
    """What networks for nodes take besides."""
    return (SparseMatrix.from_dense(RING),) if model_entry(name).family in GRAPH_FAMILIES else ()


def small_options(name: str) -> dict:
    if model_entry(name).family in GRAPH_FAMILIES:
        return {"in_features": 6, "num_classes": 3}
    if name in SMALL_OTHERWISE:
        return SMALL_OTHERWISE[name]
    known = model_entry(name).known_options()
    return {option: value for option, value in SMALL.items() if option in known}


def small_network(name: str, **options: object) -> tuple[nn.Module, Tensor]:
    """A network that takes one tensor, with statistics of some inputs, and such inputs; the same each time."""
    torch.manual_seed(0)
    made, x = create_model(name, **{**_smaller_options(name), **options}), example(name)
    network = OnGraph(made, *extra(name)) if extra(name) else made  # pyright: ignore[reportArgumentType]
    if model_entry(name).family in ("epdo", "resnet26_epdo"):
        x = 0.1 * x
    if model_entry(name).family.startswith("resnet26"):  # whose blocks start as their shortcuts
        for part in network.modules():
            if isinstance(part, nn.BatchNorm2d):
                nn.init.ones_(part.weight)
    with torch.no_grad():
        for _ in range(20):
            network.train()(x)
    return network, x


def least_options(name: str) -> dict:
    """Options of the smallest form that has all kinds of layers, for compilers, which take minutes."""
    least = {"channels": (4,), "blocks": 1}
    given = _smaller_options(name)
    return {option: least[option] for option in given if option in least and given.get(option) == SMALL[option]}


def _smaller_options(name: str) -> dict:
    """Two fields are enough in each layer of equivariant networks, whose exports take long."""
    family = model_entry(name).family
    if family not in ("epdo", "steerable_pdo"):
        return small_options(name)
    options: dict = {"fields": (2,) * 6} | ({"partitions": 2} if family == "epdo" else {})
    return options | ({"group": "C4"} if name == family else {})


def same_form(name: str) -> str:
    """The first registered network that has the same form as this one when it is small."""
    return next(other for other in list_models() if _form(other) == _form(name))


def _form(name: str) -> tuple:
    entry = model_entry(name)
    return entry.family, entry.read_options(_smaller_options(name))
