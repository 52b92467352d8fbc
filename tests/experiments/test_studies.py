"""What each study claims, with settings that take seconds."""

import math

import pytest
import torch

from evolvent._core.errors import ConfigError, UnknownNameError
from evolvent.experiments.catalogue import load_recipe, recipe_names
from evolvent.experiments.recipe import Recipe, StudyRecipe
from evolvent.experiments.studies import discretise_optimise, find_study, study_names
from evolvent.experiments.studies import imex_global_view as imex
from evolvent.experiments.studies import multilevel as levels
from evolvent.experiments.studies.scaling_model import StepCosts, critical_path, modelled_speedup
from evolvent.gradients import LayerParallel
from evolvent.networks import PAPERS
from evolvent.tasks import Findings

SMALL = {
    "diffresnet-figure3": {},
    "discretise-optimise": {"steps": [4, 8, 16], "epochs": 40, "training_steps": [2], "horizons": [0.5, 2.0, 8.0]},
    "epdo-discretisation": {"orders": [2, 4], "sizes": [5], "draws": 1},
    "imex-global-view": {"size": 16, "shortest": 13, "blocks": 1, "images": 200, "iterations": 150, "channels": 8},
    "multilevel": {"epochs": [2, 2], "images": 300, "repeats": 1, "channels": 8},
    "pide-decay": {"images": 2, "steps": 10},
    "pide-stages": {"stages": [1, 4], "images": 100, "epochs": 1, "repeats": 1, "channels": 4, "blocks": 2},
    "pide-table4": {"data": ["cifar10"], "curve_sizes": [8, 16]},
    "prnet-table8": {"data": ["mnist"], "batch": 4, "repeats": 1},
    "prnet-table9": {"widths": [1], "size": 16, "batch": 2},
    "layer-parallel": {"refinements": 3, "batch": 4, "width": 4, "solves": [(2, 2), (4, 2)], "rounds": 3},
}


@pytest.fixture(scope="module")
def results() -> dict[str, Findings]:
    return {}


@pytest.fixture
def find(results):
    def run(name: str) -> Findings:
        if name not in results:
            told = []
            study = find_study(name)
            results[name] = study.run(study.settings(**SMALL[name]), 0, lambda *told_now: told.append(told_now))
            shares = [share for share, _ in told]
            assert shares == sorted(shares)
            assert min(shares) >= 0
            assert max(shares) <= 1
        return results[name]

    return run


@pytest.mark.parametrize("name", study_names())
def test_every_study_has_a_recipe_and_a_result_of_plain_data(name, find):
    recipe = load_recipe(name)
    assert isinstance(recipe, StudyRecipe)
    assert recipe.study == name
    assert recipe.minutes
    assert recipe.minutes <= 3
    assert set(recipe.papers) <= set(PAPERS)
    assert recipe.settings == {}  # a recipe says what it changes; defaults are the study's
    result = find(name)
    assert result.answer.endswith(".")
    assert "\n" not in result.answer
    for table in result.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert all(value is None or type(value) in (str, int, float) for row in table.rows for value in row)
    for curve in result.curves:
        for x, y in curve.series.values():
            assert len(x) == len(y) > 0
            assert {type(value) for value in (*x, *y)} <= {int, float}


def test_the_same_seed_gives_the_same_figures(find):
    study = find_study("multilevel")
    again = study.run(study.settings(**SMALL["multilevel"]), 0, lambda share, text: None)
    assert again.tables == find("multilevel").tables
    other = study.run(study.settings(**SMALL["multilevel"]), 1, lambda share, text: None)
    assert other.tables != again.tables


def test_a_study_leaves_the_random_state_alone():
    state = torch.random.get_rng_state()
    for name in ("discretise-optimise", "layer-parallel"):
        study = find_study(name)
        study.run(study.settings(**SMALL[name]), 0, lambda share, text: None)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_adjoint_converges_with_the_order_of_the_method(find):
    for row in find("discretise-optimise").tables[0].rows:
        *_, observed, claimed = row
        assert observed > claimed - 0.3


def test_exact_gradients_learn_better_at_less_cost(find):
    exact, adjoint = find("discretise-optimise").tables[1].rows
    assert exact[1] < adjoint[1]
    assert exact[3] * 4 == adjoint[3] * 3


def test_dynamics_that_forget_cannot_be_reversed(find):
    turning, *dissipative = find("discretise-optimise").tables[2].rows
    assert turning[1] < 1e-4
    assert turning[2] < 1e-4
    for row in dissipative:
        assert row[1] > 1
        assert row[2] > 0.5


def test_slope_of_errors():
    assert discretise_optimise.slope_of_errors([2, 4, 8], [1.0, 0.4, 0.1]) == pytest.approx(2)


def test_far_pixels_see_neither_end():
    """Within an explicit network's reach of a far pixel there is a bare line, whatever the number of knobs."""
    settings = imex.Settings()
    rods = imex.make_rods(settings, 40, 0)
    reach = settings.reach
    assert reach == 7
    assert rods.images.shape == (40, 1, 32, 32)
    assert rods.classes.flatten(1).max(dim=1).values.bincount(minlength=4)[1:].min() > 0
    for classes, far in zip(rods.classes, rods.far, strict=True):
        rod = classes.nonzero()
        assert len(rod) == (rod.max(0).values - rod.min(0).values).max() + 1 + 6 * (classes.max() - 1)
        assert far.any()
        for row, column in far.nonzero().tolist():
            window = classes[max(0, row - reach) : row + reach + 1, max(0, column - reach) : column + reach + 1]
            assert (window > 0).sum() == 2 * reach + 1


def test_only_implicit_layers_see_all(find):
    implicit, explicit = find("imex-global-view").tables[0].rows
    assert implicit[1] == explicit[1]
    assert implicit[4] == "256 of 256"
    assert int(explicit[4].split()[0]) <= 25
    assert implicit[3] > explicit[3] + 0.15


def test_multilevel_and_direct_training_cost_the_same(find):
    result = find("multilevel")
    multilevel, direct = result.tables[0].rows
    assert multilevel[0] == "multilevel 2 → 4"
    assert multilevel[2] == direct[2] == 3
    assert min(multilevel[3], direct[3]) < 1
    assert levels.work_to_reach({"work": [0, 1], "loss": [2.0, 1.0]}, 1.5) == 1
    assert levels.work_to_reach({"work": [0, 1], "loss": [2.0, 1.0]}, 0.5) is None


def test_layer_parallel_solves_end_at_the_serial_gradient(find):
    result = find("layer-parallel")
    for row in result.tables[0].rows:
        assert row[5] < 1e-13
    for curve in result.curves[:2]:
        for _, residuals in curve.series.values():
            assert residuals[-1] < 1e-9
    assert all("MODEL" in curve.title for curve in result.curves[2:])
    assert "model" in result.answer


@pytest.mark.parametrize(("coarsening", "depth", "cycles"), [(4, 3, 2), (2, 2, 1), (2, 3, 3)])
def test_the_model_counts_the_steps_that_one_worker_makes(coarsening, depth, cycles, monkeypatch):
    from evolvent.experiments.studies.layer_parallel import Settings, _evolution

    evolution = _evolution(Settings(refinements=4, width=2))
    made, real = [0], type(evolution).step

    def counted(self, j, u, stride=1):
        made[0] += 1
        return real(self, j, u, stride)

    monkeypatch.setattr(type(evolution), "step", counted)
    strategy = LayerParallel(coarsening, depth, tolerance=0.0, max_iterations=cycles)
    strategy.warns = False
    evolution.gradient = strategy
    with torch.no_grad():
        evolution(torch.ones(1, 2).double())
    assert critical_path(evolution.steps, coarsening, depth, 1, cycles) == (made[0], 0)


def test_modelled_speedup_grows_with_workers_until_messages_eat_it():
    costs = StepCosts(1, 1, 1, 1, 2, message=0)
    free = [modelled_speedup(1024, 8, 2, w, (2, 2), costs) for w in (1, 4, 16, 64)]
    assert free == sorted(free)
    assert free[0] < 1 < free[-1]
    dear = modelled_speedup(1024, 8, 2, 64, (2, 2), StepCosts(1, 1, 1, 1, 2, message=100))
    assert dear < free[-1]
    assert math.isfinite(dear)


def test_grid_recipes_stay_grid_recipes():
    kinds = {name: type(load_recipe(name)) for name in recipe_names()}
    assert {name for name, kind in kinds.items() if kind is StudyRecipe} == set(study_names())
    assert kinds["demo"] is Recipe


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["settings.chanels=3"], "Did you mean 'settings.channels'"),
        (["settings.coarsest=many"], "coarsest"),
        (["settings.coarsest=0"], "coarsest"),
        (["study=multilevels"], "Did you mean 'multilevel'"),
        (["stdy=multilevel"], "Did you mean 'study'"),
        (["seeds=[]"], "seeds"),
    ],
)
def test_bad_settings_are_one_line(settings, message):
    with pytest.raises((ConfigError, UnknownNameError)) as caught:
        load_recipe("multilevel", settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rods_too_short_are_refused():
    with pytest.raises(ConfigError, match="rods must be longer"):
        load_recipe("imex-global-view", ["settings.shortest=12"])


def test_batches_that_cannot_be_filled_are_refused():
    study = find_study("pide-stages")
    with pytest.raises(ConfigError, match="do not fill one batch of 50"):
        study.run(study.settings(images=20, channels=4), 0, lambda share, text: None)


def test_identity_changes_with_settings_not_with_words_or_seeds():
    recipe = load_recipe("multilevel")
    assert load_recipe("multilevel", ["title=Other"]).identity == recipe.identity
    assert load_recipe("multilevel", ["settings.coarsest=3"]).identity != recipe.identity
    assert load_recipe("multilevel", seed=3).identity == recipe.identity
