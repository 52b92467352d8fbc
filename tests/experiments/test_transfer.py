"""A training starts from a trained network: which one is taken, what is kept of it, and what is refused."""

import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.errors import ConfigError, ModelFileError
from evolvent.experiments.catalogue import load_recipe
from evolvent.experiments.engine import DataShelf, Resources, prepare
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import overlay
from evolvent.networks.transfer_learning import last_layer

SHORT = ["training.epochs=1", "schedule.warmup=0", "optimizer.lr=0.01", "data.augment.flip=false"]


@pytest.fixture
def trained(tmp_path, tiny):
    run_grid(tiny(), tmp_path / "first")
    return tmp_path / "first"


def prepared(recipe):
    [cell] = recipe.cells()
    return prepare(cell, DataShelf().material(cell), Resources()).task.model


def test_all_weights_but_the_last_layer_are_taken(trained, tmp_path):
    recipe = load_recipe("transfer", [f"from={trained}", "data=digits", *SHORT])
    [cell] = recipe.cells()
    source = ev.load(trained / "model")
    model, fresh = prepared(recipe), last_layer(source)
    assert cell.model.name == source.spec.name
    assert fresh
    for name, tensor in source.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor) == (name not in fresh), name
    run_grid(recipe, tmp_path / "second")
    assert (tmp_path / "second" / "result.json").is_file()


def test_classes_are_those_of_the_new_data(trained):
    model = ev.networks.transfer(trained / "model", num_classes=3)
    assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 3)


def test_a_network_is_transferred_from_its_run(trained):
    for run in (trained, str(trained)):
        assert ev.networks.transfer(run, num_classes=3)(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    for other in (None, 5):
        with pytest.raises(ConfigError, match=r"transfer takes the path of a folder, got"):
            ev.networks.transfer(other)
    with pytest.raises(ModelFileError, match="there is no folder nowhere"):
        ev.networks.transfer("nowhere")


def test_what_follows_the_last_linear_map_is_new_too():
    assert last_layer(ev.create_model("epdo_c8")) >= {"head.8.weight", "head.9.running_mean"}
    assert last_layer(nn.ReLU()) == set()


def test_the_run_must_be_named_and_have_one_network(trained, tmp_path, tiny):
    with pytest.raises(ConfigError, match="--set from=RUN"):
        prepared(load_recipe("transfer", ["data=digits"]))
    with pytest.raises(ConfigError, match=r"not a run folder|no trained network"):
        load_recipe("transfer", [f"from={tmp_path / 'nothing'}"])
    run_grid(tiny(seeds=[0, 1]), tmp_path / "two")
    with pytest.raises(ConfigError, match=r"has 2 trained networks\. Start from one of them"):
        load_recipe("transfer", [f"from={tmp_path / 'two'}"])


def test_another_number_of_channels_is_refused(trained):
    with pytest.raises(ModelFileError, match="belongs to another network"):
        ev.networks.transfer(trained / "model", in_channels=3)


def test_options_given_by_hand_have_the_last_word(trained):
    recipe = load_recipe("transfer", [f"from={trained}", "model.options.dropout=0.25", "data=digits"])
    [cell] = recipe.cells()
    saved = overlay(ev.load(trained / "model").spec.options, {"dropout": 0.25})
    assert cell.model.options == {key: value for key, value in saved.items() if key not in ("num_classes", "readout")}


def test_a_network_of_nodes_is_no_classifier_of_images(tmp_path):
    ev.save(ev.create_model("gcn", in_features=4, num_classes=3), tmp_path / "gcn")
    with pytest.raises(ConfigError, match="'gcn' is not a classifier of images"):
        prepared(load_recipe("transfer", [f"from={tmp_path / 'gcn'}", "data=digits", *SHORT]))
