import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from torch import nn

from evolvent import create_model, load, save
from evolvent.errors import ConfigError, ModelFileError

OPTIONS = {"channels": (4, 8), "blocks": 2, "image_size": 8, "in_channels": 1}


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def folder(tmp_path) -> Path:
    save(create_model("hamiltonian", **OPTIONS), tmp_path / "model")
    return tmp_path / "model"


def refusal(folder: Path) -> str:
    with pytest.raises(ModelFileError) as error:
        load(folder)
    message = str(error.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_round_trip_is_bitwise_and_in_evaluation_mode(tmp_path, dtype):
    model = create_model("resnet", channels=(4, 8), blocks=2, dropout=0.5).to(dtype)
    x = torch.randn(2, 3, 8, 8, dtype=dtype)
    model(x)
    save(model, tmp_path)
    again = load(tmp_path)
    assert not again.training
    assert torch.equal(again(x), model.eval()(x))
    assert again.spec.name == "resnet"
    assert all(p.requires_grad for p in again.parameters())


def test_folder_holds_two_plain_files(folder):
    assert sorted(p.name for p in folder.iterdir()) == ["config.yaml", "model.safetensors"]
    assert yaml.safe_load((folder / "config.yaml").read_text())["options"]["channels"] == [4, 8]


def test_saved_again_after_loading_is_the_same(folder, tmp_path):
    save(load(folder), tmp_path / "again")
    for name in ("config.yaml", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("blocks", range(1, 26))
def test_no_good_file_is_taken_for_a_pickle(tmp_path, blocks):
    """A safetensors file begins with the length of its header, which may be the bytes of a pickle's beginning."""
    model = create_model("hamiltonian", channels=(2,), blocks=blocks)
    save(model, tmp_path)
    assert load(tmp_path).state_dict().keys() == model.state_dict().keys()


def test_missing_folder(tmp_path):
    assert "there is no folder" in refusal(tmp_path / "nowhere")
    assert "not a saved model" in refusal(tmp_path)


def test_foreign_folder(tmp_path):
    (tmp_path / "holiday.jpg").write_bytes(b"\xff\xd8")
    assert "Save one with ev.save" in refusal(tmp_path)


def test_missing_weights(folder):
    (folder / "model.safetensors").unlink()
    assert "is missing" in refusal(folder)


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, -1])
def test_truncated_weights(folder, kept):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert "truncated" in refusal(folder)


def test_foreign_weights(folder):
    (folder / "model.safetensors").write_bytes(b"GIF89a" + bytes(1000))
    assert "not a safetensors file" in refusal(folder)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_pickle_file_offered(tmp_path, writer):
    path = tmp_path / "model.pt"
    if writer == "torch":
        torch.save(nn.Linear(1, 1), path)
    else:
        path.write_bytes(pickle.dumps(Malicious(tmp_path / "mark")))
    assert "refused, because reading one can run any code" in refusal(path)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5, "torch"])
def test_pickle_disguised_as_safetensors(folder, tmp_path, protocol):
    path = folder / "model.safetensors"
    if protocol == "torch":
        torch.save({"a": torch.ones(2)}, path)
    else:
        path.write_bytes(pickle.dumps(Malicious(tmp_path / "mark"), protocol=protocol))
    assert "is a pickle, not safetensors" in refusal(folder)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just words",
        "[]",
        "network: hamiltonian",
        "network: hamiltonian\noptions: {channels: [4,",
        "network: hamiltonian\noptions: 3",
        "network: hamiltonian\noptions: {1: 2}",
        "network: [a]\noptions: {}",
        "network: hamiltoniam\noptions: {}",
        "network: hamiltonian\noptions: {blcks: 3}",
        "network: hamiltonian\noptions: {blocks: many}",
        "network: !!python/object/apply:os.system [exit 3]\noptions: {}",
        "\x00",
    ],
)
def test_torn_or_foreign_config(folder, text):
    (folder / "config.yaml").write_text(text)
    refusal(folder)


def test_config_that_is_no_text(folder):
    (folder / "config.yaml").write_bytes(b"\xff\xfe\x00")
    assert "not YAML" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("resnet", {"channels": (4, 8), "blocks": 2, "in_channels": 1}, "it has no"),
        ("hamiltonian", OPTIONS | {"channels": (4, 6)}, "where the network has"),
        ("hamiltonian", OPTIONS | {"blocks": 3}, "it also has"),
        ("hamiltonian", OPTIONS | {"blocks": 1}, "it has no"),
    ],
    ids=["family", "widths", "deeper", "shallower"],
)
def test_weights_of_another_network(folder, tmp_path, name, options, reason):
    save(create_model(name, **options), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", folder)
    message = refusal(folder)
    assert "belongs to another network" in message
    assert reason in message


def test_weights_of_another_kind_of_number(folder):
    path = folder / "model.safetensors"
    whole = {name: tensor.int() for name, tensor in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(whole, path)
    assert "torch.int32" in refusal(folder)


def test_foreign_modules_cannot_be_saved(tmp_path):
    with pytest.raises(ConfigError, match=r"made by ev\.create_model"):
        save(nn.Linear(1, 1), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_full_disk_keeps_the_earlier_model(folder):
    program = """
        import resource, signal, sys
        import evolvent as ev
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = ev.load(sys.argv[1])
        model.head.linear.bias.data += 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
        try:
            ev.save(model, sys.argv[1])
        except ev.errors.StorageError as error:
            assert "no space left" in str(error) and "intact" in str(error)
            sys.exit(7)
    """
    before = (folder / "model.safetensors").read_bytes()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(folder)], check=False)
    assert done.returncode == 7
    assert (folder / "model.safetensors").read_bytes() == before
    assert len(list(folder.iterdir())) == 2


def test_a_model_of_a_later_format_is_refused(tmp_path):
    save(create_model("hamiltonian", channels=(4,), blocks=1), tmp_path)
    config = tmp_path / "config.yaml"
    assert "\nformat: 1\n" in config.read_text()
    config.write_text(config.read_text().replace("format: 1", "format: 2"))
    with pytest.raises(ModelFileError, match=r"has format 2, this version reads 1\. Use the version that wrote it"):
        load(tmp_path)
