"""Parameter counts against those printed by Bohn, Griebel, Kannan 2021, Table 1 and Table 3."""

import pytest

from evolvent import create_model
from evolvent.analysis import count_parameters


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("hamiltonian74", {}, 504_938),
        ("hamiltonian74", {"num_classes": 100}, 666_308),
        ("hamiltonian74", {"image_size": 96, "head_pool": 8}, 497_098),
        ("hamiltonian74", {"num_classes": 20, "readout": "segmentation"}, 489_268),
        ("hamiltonian74", {"bias": True, "norm": "batch"}, 508_682),
        ("resnet44", {}, 658_586),
        ("preresnet20", {}, 569_370),
        ("preresnet20", {"num_classes": 100}, 577_740),
    ],
)
def test_parameters(name, options, count):
    assert count_parameters(create_model(name, **options)) == count
