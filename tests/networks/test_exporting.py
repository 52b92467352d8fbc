"""Networks written as files that run without the library."""

import json

import pytest
import torch
from torch import Tensor, nn

from evolvent import create_model
from evolvent.errors import ConfigError, StorageError, UnknownNameError
from evolvent.networks import exporting
from evolvent.networks.exporting import export_network


class Counting(nn.Module):
    """Depends on a value, which no format can express."""

    def forward(self, x: Tensor) -> Tensor:
        return x * int(x.sum())


def network() -> nn.Module:
    return create_model("hamiltonian", in_channels=1, image_size=(8, 6), channels=(4,), blocks=1, num_classes=3)


@pytest.mark.parametrize("to", ["onnx", "torch-export"])
def test_a_file_answers_as_the_network_for_any_number_of_inputs(tmp_path, to):
    model, x = network().train(), torch.randn(2, 1, 8, 6)
    found = export_network(model, x, tmp_path / "out" / "model.x", to, notes={"classes": ["a", "b", "c"]})
    assert found.any_batch
    assert found.difference < 1e-5
    assert model.training
    assert [path.name for path in found.path.parent.iterdir()] == ["model.x"]
    more = torch.randn(5, 1, 8, 6)
    torch.testing.assert_close(exporting._answer(found.path, more, to), model.eval()(more), rtol=1e-4, atol=1e-5)


def test_an_onnx_file_carries_the_names_of_classes(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    found = export_network(network(), torch.randn(2, 1, 8, 6), tmp_path / "m.onnx", notes={"classes": ["a", "b"]})
    session = onnxruntime.InferenceSession(found.path)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["a", "b"]


def test_a_network_that_cannot_be_expressed_is_refused_with_the_reason(tmp_path):
    with pytest.raises(
        ConfigError, match=r"torch-export cannot express this network: \w+: .* Try another format"
    ) as error:
        export_network(Counting(), torch.ones(2, 2), tmp_path / "m.pt2", "torch-export")
    assert len(str(error.value)) < 300
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*a part of its path is a file"):
        export_network(network(), torch.randn(2, 1, 8, 6), tmp_path / "file" / "m.pt2", "torch-export")
    with pytest.raises(ConfigError, match="an export takes the path of a file, got None"):
        export_network(network(), torch.randn(2, 1, 8, 6), None, "torch-export")


def test_a_file_that_answers_otherwise_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_answer", lambda path, x, to: torch.full((2, 3), 9.0))
    with pytest.raises(ConfigError, match="differ by"):
        export_network(network(), torch.randn(2, 1, 8, 6), tmp_path / "m.pt2", "torch-export")
    assert not list(tmp_path.iterdir())


def test_a_batch_that_must_be_fixed_is_said(tmp_path):
    class Two(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(2, -1)

    assert not export_network(Two(), torch.ones(2, 3), tmp_path / "m.pt2", "torch-export").any_batch


def test_a_folder_is_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "exportable", lambda *given: pytest.fail("it is refused before the work"))
    with pytest.raises(ConfigError, match=r"is a folder. Name the file to write in it, such as .*model.onnx"):
        export_network(network(), torch.randn(2, 1, 8, 6), tmp_path)
    assert not list(tmp_path.iterdir())


def test_other_formats_are_unknown(tmp_path):
    with pytest.raises(UnknownNameError, match="onx"):
        export_network(network(), torch.randn(2, 1, 8, 6), tmp_path / "m", "onx")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_compiled_package_answers_as_the_network(tmp_path):
    found = export_network(network(), torch.randn(2, 1, 8, 6), tmp_path / "m.pt2", "aot")
    assert found.difference < 1e-5


def test_a_layer_that_happens_to_be_called_dense_is_left_alone(tmp_path):
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.dense(x)

    assert export_network(Named(), torch.randn(2, 3), tmp_path / "m.pt2", "torch-export").difference < 1e-6
