"""Every registered network as a file, and the stored table of what compilers and exporters make of them."""

import json
from pathlib import Path

import pytest
import torch
from small_networks import least_options, same_form, small_network

from evolvent import create_model, list_models
from evolvent.errors import ConfigError
from evolvent.networks import OnGraph, export_network, with_fixed_steps
from evolvent.networks.fixed_steps import is_adaptive
from evolvent.testing import check_compiles

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "exports.json"
COLUMNS = ("compile", "torch-export", "onnx", "aot")
LONG = ("epdo_c16", "epdo_c16_quotient", "epdo_c8", "epdo_d16_c16")
KERNELS = ("fractional_hamiltonian74", "riesz_hamiltonian74", "log_hamiltonian74")
FORMS = [name for name in list_models() if same_form(name) == name]


def fixed(network) -> int | None:
    return 2 if is_adaptive(network) else None


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in FORMS])
def test_every_network_becomes_an_onnx_file(name, tmp_path):
    """ONNX files are made of what torch.export gives, so that this tries both."""
    network, x = small_network(name)
    found = export_network(network, x, tmp_path / "network.onnx", "onnx", fixed_steps=fixed(network))
    assert found.any_batch or name == "diff_resnet" or isinstance(network, OnGraph)
    assert (found.off_adaptive is not None) == is_adaptive(network)


@pytest.mark.parametrize("name", [*KERNELS, "odenet", "gcn", "diff_resnet", "diff_resnet_fewshot"])
def test_networks_that_need_another_form_become_programs(name, tmp_path):
    network, x = small_network(name)
    path = export_network(network, x, tmp_path / "network.pt2", "torch-export", fixed_steps=fixed(network)).path
    program = torch.export.load(path)
    parts = [part for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
    assert not [node for part in parts for node in part.graph.nodes if "evolvent" in str(node.target)]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.filterwarnings("ignore")  # compilers warn of their own inner life
def test_nonlocal_networks_train_when_they_are_compiled(name):
    network, x = small_network(name, **least_options(name))
    check_compiles(network.train(), x, backend="aot_eager")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["hamiltonian", *KERNELS])
def test_a_share_is_compiled_to_machine_code(name, tmp_path):
    network, x = small_network(name, **least_options(name))
    check_compiles(network, x)
    export_network(network, x, tmp_path / "network.pt2", "aot")


def test_adaptive_networks_offer_their_fixed_form(tmp_path):
    network, x = small_network("odenet")
    with pytest.raises(ConfigError, match=r"--fixed-steps 8.*rknet") as error:
        export_network(network, x, tmp_path / "network.pt2", "torch-export")
    assert len(str(error.value)) < 300
    rknet = create_model("rknet", steps=4)
    rknet.load_state_dict(network.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(with_fixed_steps(network, 4).eval()(x), rknet.eval()(x))


def test_adaptive_evolutions_with_weights_of_each_step_are_fixed_too():
    network, x = small_network("odenet_mobile")
    network.eval()
    with torch.no_grad():
        torch.testing.assert_close(with_fixed_steps(network, 6)(x), network(x), rtol=1e-2, atol=1e-3)
    assert is_adaptive(network)
    assert not is_adaptive(with_fixed_steps(network, 6))


@pytest.mark.parametrize("flow", ["explicit", "implicit", "exponential"])
@pytest.mark.parametrize("normalisation", ["row", "symmetric", "gcn"])
def test_dense_graphs_give_the_answers_of_sparse_ones(flow, normalisation):
    options = {"gamma": 0.2, "n_top": 4, "flow": flow, "normalisation": normalisation}
    network, x = create_model("diff_resnet", **options).double().eval(), torch.randn(15, 2, dtype=torch.float64)
    with torch.no_grad():
        expected = network(x)
        network.prepare_for_export()
        torch.testing.assert_close(network(x), expected, rtol=1e-8, atol=1e-8)


def test_the_stored_table_names_every_network_with_a_figure_or_a_reason():
    rows = json.loads(RESULTS.read_text())["networks"]
    assert sorted(rows) == list_models()
    for name, row in rows.items():
        assert set(row) == set(COLUMNS), name
        for column, found in row.items():
            assert ("reason" in found) or 0 <= found["difference"] < 1e-2, f"{name}, {column}: {found}"
