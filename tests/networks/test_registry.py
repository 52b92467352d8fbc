import inspect

import pytest
import torch

from evolvent import create_model, list_models
from evolvent.errors import ConfigError, UnknownNameError
from evolvent.experiments.catalogue import recipe_names
from evolvent.networks import PAPERS, ModelSpec, model_entry

every_network = pytest.mark.parametrize("name", list_models())


@every_network
def test_network_knows_its_papers(name):
    assert model_entry(name).papers
    for key in model_entry(name).papers:
        assert PAPERS.get(key).bibtex().startswith("@")


@every_network
def test_network_has_a_recipe(name):
    assert model_entry(name).recipe in recipe_names()


@every_network
def test_docstring_has_equation_and_shape(name):
    entry = model_entry(name)
    text = inspect.getdoc(entry.build) or ""
    for part in (".. math::", "Shape:"):
        assert part in text, f"{name}: the docstring has no {part!r}"
    assert entry.summary.endswith(".")


@every_network
def test_options_have_defaults_and_descriptions(name):
    options = model_entry(name).options
    options()
    for option, description in options.descriptions().items():
        assert description, f"{name}: the option {option!r} is not explained"


@every_network
def test_members_fix_known_options(name):
    entry = model_entry(name)
    assert set(entry.fixed) <= set(entry.known_options())
    assert model_entry(entry.family).family == entry.family


def test_papers_are_bibtex_under_their_own_key():
    for key in PAPERS:
        entry = PAPERS.get(key).bibtex()
        assert entry.startswith(f"@{PAPERS.get(key).kind}{{{key},")
        assert entry.count("{") == entry.count("}")
        assert "{" not in PAPERS.get(key).reference()


def test_spec_says_how_a_network_was_made():
    assert create_model("resnet44", num_classes=3).spec == ModelSpec("resnet44", {"num_classes": 3})


def test_names_are_listed_by_pattern():
    assert list_models("hamiltonian*") == ["hamiltonian", "hamiltonian1202", "hamiltonian74"]
    assert list_models("none*") == []


def test_options_of_a_member_can_be_changed():
    model = create_model("resnet44", channels=(4,), blocks=1)
    assert sum(p.numel() for p in model.parameters()) < 1000


def test_unknown_network_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown network 'resnet4'\. Did you mean 'resnet44'"):
        create_model("resnet4")


def test_unknown_option_is_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"option of resnet44 'num_clases'\. Did you mean 'num_classes'\?"):
        create_model("resnet44", num_clases=3)


@pytest.mark.parametrize(
    ("name", "options", "key"),
    [
        ("resnet", {"num_classes": "ten"}, "num_classes"),
        ("resnet", {"num_classes": 2.5}, "num_classes"),
        ("resnet", {"num_classes": 0}, "num_classes"),
        ("resnet", {"in_channels": -1}, "in_channels"),
        ("resnet", {"channels": 16}, "channels"),
        ("resnet", {"channels": ()}, "channels"),
        ("preresnet", {"channels": (8, -4)}, "channels"),
        ("resnet", {"blocks": (1, 2)}, "3 numbers for 3 units"),
        ("resnet", {"blocks": 0}, "blocks"),
        ("resnet", {"step_size": 0}, "step_size"),
        ("resnet", {"step_size": float("nan")}, "step_size"),
        ("resnet", {"dropout": 1.5}, "dropout"),
        ("hamiltonian", {"readout": "regression"}, "readout"),
        ("hamiltonian", {"image_size": (32,)}, "image_size"),
        ("hamiltonian", {"image_size": -4}, "image_size"),
        ("hamiltonian", {"head_pool": 0}, "head_pool"),
        ("hamiltonian", {"bias": "perhaps"}, "bias"),
        ("hyperbolic_wavelet", {"image_size": 30}, "multiples of 4"),
        ("odenet", {"augment": -1}, "augment"),
    ],
)
def test_wrong_option_is_one_line_that_names_it(name, options, key):
    with pytest.raises(ConfigError) as error:
        create_model(name, **options)
    assert key in str(error.value)
    assert "got" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["cnn", "steerable_pdo_c16", "resnet26", "hamiltonian"])
def test_a_misprint_is_refused_though_only_one_layer_would_grow(name):
    with pytest.raises(ConfigError, match=r"in_channels .*would take"):
        create_model(name, in_channels=10**20)


@pytest.mark.parametrize("value", [torch.full((3,), 0.125), [torch.full((3,), 0.125)]])
def test_messages_name_tensors_among_options_by_shape(value):
    with pytest.raises(ConfigError, match=r"blocks: .* float32 of shape \(3,\)"):
        create_model("hamiltonian", blocks=value)
