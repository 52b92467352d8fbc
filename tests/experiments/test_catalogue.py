"""Recipes that ship, and settings laid over them."""

import pytest

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.data import list_datasets
from evolvent.experiments.catalogue import load_recipe, recipe_names
from evolvent.experiments.recipe import StudyRecipe
from evolvent.experiments.studies._registry import study_names
from evolvent.networks import PAPERS, list_models
from evolvent.tasks.images import ImageDataSettings


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_ships_names_things_that_exist(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert set(recipe.papers) <= set(PAPERS)
    if isinstance(recipe, StudyRecipe):
        assert recipe.study in study_names()
        return
    kinds = {cell.variant: [figure.name for figure in cell.kind.figures] for cell in recipe.cells()}
    assert all(figure.metric in kinds[figure.variant] for figure in recipe.published)
    for cell in recipe.cells():
        assert cell.model.name in list_models() or cell.model.start == ""  # it is named by the user
        if isinstance(cell.data, ImageDataSettings):
            assert cell.data.name in list_datasets() or cell.data.folder  # the user's own images


def test_a_setting_has_the_last_word_over_variants():
    recipe = load_recipe("demo", ["model.options.step_size=0.3", "training.epochs=1"])
    assert {cell.model.options["step_size"] for cell in recipe.cells()} == {0.3}
    assert {cell.model.name for cell in recipe.cells()} == {"hamiltonian", "resnet"}
    assert {cell.training.epochs for cell in recipe.cells()} == {1}


def test_another_model_drops_the_options_of_the_old_one():
    recipe = load_recipe("mnist-hamiltonian", ["model.name=resnet44"])
    assert recipe.cells()[0].model.options == {}


def test_seed_replaces_seeds():
    assert load_recipe("demo", seed=7).seeds == [7]


def test_a_file_is_a_recipe_too(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("title: Mine\nquestion: Why?\nmodel: {name: resnet44}\ndata: {name: digits}\n")
    recipe = load_recipe(str(path))
    assert recipe.name == "mine"
    assert [cell.label for cell in recipe.cells()] == ["resnet44-seed0"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("- a\n- b\n", ConfigError),
        ("title: [", ConfigError),
        ("title: x\n", ConfigError),
        ("ttle: x\n", UnknownNameError),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, error):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(error) as caught:
        load_recipe(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", ["=1", "a..b=1", "optimizer.=1", ".lr=1", "lr"])
def test_a_malformed_setting_is_refused(setting):
    with pytest.raises((ConfigError, UnknownNameError)):
        load_recipe("demo", [setting])


@pytest.mark.parametrize("setting", ["training.epochs=", "training.epochs= ", "seeds="])
def test_a_setting_without_a_value_is_refused(setting):
    with pytest.raises(ConfigError, match=r"has no value. Write \S+=null for the default"):
        load_recipe("demo", [setting])
    assert load_recipe("demo", ["training.clip_norm=null"])


def test_a_recipe_without_a_network_is_named_alone():
    with pytest.raises(ConfigError, match=r"^recipe 'demo': the key 'model.name' is missing"):
        load_recipe("demo", ["model={}", "variants={}"])
