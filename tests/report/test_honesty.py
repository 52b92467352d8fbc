"""Reports say on which data, with which settings, and whether a difference exceeds the spread of seeds."""

import pytest
import torch
import yaml

from evolvent import Evolution
from evolvent.analysis import measure_stability
from evolvent.dynamics import Hamiltonian
from evolvent.experiments import load_recipe
from evolvent.experiments.catalogue import erased_differences
from evolvent.experiments.departures import departure_sentence, departures, noting_changes, other_data
from evolvent.experiments.grid import run_grid
from evolvent.integrators import Verlet
from evolvent.report.analyses import ANALYSES
from evolvent.report.honesty import data_warning, difference_sentence, honest_title
from evolvent.report.page import report_html
from evolvent.report.runs import read_run
from evolvent.report.summary import SummaryRow, statistic
from evolvent.tasks.findings import Figure

ACCURACY = Figure("accuracy", "accuracy", "share", better="higher")
SMALL = ["training.epochs=1", "data.fraction=0.05", "seeds=[0]", "variants={}", "model.name=hamiltonian",
         "model.options={channels: [4], blocks: 1}"]  # fmt: skip


def row(label: str, values: list[float]) -> SummaryRow:
    found = statistic(values)
    assert found
    return SummaryRow(label, "r", "i", label, (ACCURACY,), {"accuracy": found}, None, "images", None, None,
                      len(values), len(values), ())  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ([0.90, 0.91, 0.89], [0.80, 0.81, 0.79], "differ by 10.00 points, more than twice the spread over seeds"),
        ([0.90, 0.95, 0.85], [0.89, 0.94, 0.84], "does not exceed twice the spread over seeds"),
        ([0.90], [0.80], "the spread over seeds is not known from one seed"),
    ],
)
def test_the_headline_says_whether_a_difference_exceeds_the_spread(one, other, said):
    sentence = difference_sentence([row("b", other), row("a", one)])
    assert said in sentence
    assert "a and b differ" in sentence


def test_one_variant_differs_from_nothing():
    assert difference_sentence([row("a", [0.9, 0.8])]) == ""


def test_settings_that_depart_from_the_shipped_recipe_are_named():
    recipe = load_recipe("demo", ["data.name=fashion-mnist", "training.epochs=1"])
    assert departures(recipe)["data.name"] == ("mnist5k", "fashion-mnist")
    assert "training.epochs 8 → 1" in departure_sentence(recipe)
    assert departure_sentence(load_recipe("demo")) == ""


def test_a_path_of_own_data_departs_from_nothing_where_the_recipe_asks_for_one(tmp_path, monkeypatch):
    recipe = load_recipe("own-images", ["data.folder=flat"])
    monkeypatch.chdir(tmp_path)
    assert departure_sentence(recipe) == ""
    other = load_recipe("own-images", ["data.npz=a.npz", "training.epochs=1"])
    assert departures(other)["data.folder"] == ("images", None)
    assert departures(other)["data.npz"] == (None, str(tmp_path / "a.npz"))
    assert departures(other)["training.epochs"] == (8, 1)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honesty") / "digits"
    run_grid(load_recipe("demo", ["data.name=digits", *SMALL]), folder)
    return folder


def test_header_title_and_summary_name_the_data(digits):
    run = read_run(digits)
    assert honest_title(run).endswith("(here on digits)")
    page = report_html([digits])
    assert "data: digits" in page
    assert "Settings that depart from the recipe demo: " in page
    assert data_warning([run]) == ""


def test_published_figures_of_other_data_are_left_out_and_the_question_is_marked(tmp_path):
    published = "{variant: hamiltonian, value: 92.0, source: Table 1}, {variant: other, value: 91.0, source: Table 1}"
    run_grid(load_recipe("demo", ["data.name=digits", *SMALL, f"published=[{published}]"]), tmp_path)
    page = report_html([tmp_path])
    assert read_run(tmp_path).published == []
    assert "92.00" not in page
    assert "91.00" not in page
    assert "The recipe demo asks this of mnist5k, not of the data here: " in page
    assert "The published figures of the recipe demo belong to mnist5k, so they are left out here." in page


def test_the_data_are_other_data_whatever_key_names_them(tmp_path):
    assert other_data(load_recipe("demo", [f"data.folder={tmp_path}"])) == ["mnist5k"]
    assert other_data(load_recipe("demo", ["data.name=digits"])) == ["mnist5k"]
    assert other_data(load_recipe("demo", ["data.fraction=0.5"])) == []
    assert other_data(load_recipe("own-images", [f"data.folder={tmp_path}"])) == []


def test_changes_of_a_users_own_recipe_are_in_its_report(tmp_path):
    values = load_recipe("demo", ["data.name=digits", *SMALL[:3]]).model_dump(mode="json")
    small = {"name": "hamiltonian", "options": {"channels": [4], "blocks": 1}}
    values |= {"name": "mine", "model": small,
               "variants": {"one": {"optimizer": {"lr": 0.1}}, "two": {"optimizer": {"lr": 0.2}}}}  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
    file, settings = str(tmp_path / "mine.yaml"), ["optimizer.lr=0.05"]
    recipe = noting_changes(load_recipe(file, settings), file, settings)
    assert recipe.identity == load_recipe(file, settings).identity
    run_grid(recipe, tmp_path / "run")
    page = report_html([tmp_path / "run"])
    assert "The variants of mine differ in optimizer.lr, and --set optimizer.lr makes them the same in it." in page
    assert "Settings that depart from the recipe mine: " in page
    assert "variants.one.optimizer.lr 0.1 → 0.05" in page


def test_runs_on_different_data_side_by_side_are_warned_of(digits, tmp_path):
    recipe = load_recipe("spirals", ["variants={}", "seeds=[0]", "training.epochs=1"])
    run_grid(recipe, tmp_path / "spirals")
    runs = [read_run(digits), read_run(tmp_path / "spirals")]
    assert "are on different data" in data_warning(runs)
    assert "are on different data" in report_html([digits, tmp_path / "spirals"])


def test_a_setting_that_erases_a_difference_between_variants_is_warned_of():
    [line] = erased_differences("demo", ["model.name=resnet"])
    assert "the variants of demo differ in model.name" in line
    assert not erased_differences("demo", ["training.epochs=2"])
    assert not erased_differences("demo", ["variants={}"])


def test_steps_too_large_to_keep_the_energy_are_warned_of():
    def told(steps: int, step_size: float) -> tuple[list[str], float]:
        torch.manual_seed(0)
        flow = Evolution(Hamiltonian(4, activation="tanh"), Verlet(), steps=steps, step_size=step_size)
        found = measure_stability(flow, 0.5 * torch.randn(2, 8, 6, 6))
        return ANALYSES["stability"].warnings(found), abs(found[0].energy.values[-1])

    large, drift = told(4, 0.5)
    assert "the energy changes by" in large[-1]
    assert len(large[-1]) < 300
    small, less = told(8, 0.25)
    assert small == []
    assert less < drift / 3
