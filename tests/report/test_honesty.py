"""Reports say on which data, with which settings, and whether a difference exceeds the spread of seeds."""

import numpy as np
import pytest
import torch
import yaml

import evolvent as ev
from evolvent import Evolution
from evolvent.analysis import measure_stability
from evolvent.data import from_arrays, from_csv
from evolvent.dynamics import Hamiltonian
from evolvent.experiments import load_recipe, read_record
from evolvent.experiments.catalogue import erased_differences
from evolvent.experiments.departures import departure_sentence, departures, noting_changes, other_data
from evolvent.experiments.grid import run_grid
from evolvent.integrators import Verlet
from evolvent.report.analyses import ANALYSES
from evolvent.report.honesty import data_names, data_warning, difference_sentence, honest_title
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


def own_run(folder, name="mine", shift=0, **more):
    x = np.random.default_rng(0).normal(size=(40, 2)) + shift
    data = from_arrays(x, np.arange(40) % 2, name=name)
    settings = {"training.epochs": 1, "model.options.layers": 2}
    return ev.train("point_resnet", data, settings=settings, out=folder, **more).folder


def test_own_data_are_called_by_their_names_and_compared_by_their_content(tmp_path):
    flowers, cars = (own_run(tmp_path / name, name, shift) for name, shift in (("flowers", 0), ("cars", 1)))
    page = report_html([flowers, cars])
    assert "data: flowers, cars" in page
    assert "on different data" in page
    assert "flowers: flowers; point_resnet on cars cars: cars." in data_warning([read_run(flowers), read_run(cars)])
    one, other, same = (own_run(tmp_path / part / "r", shift=shift) for part, shift in (("a", 0), ("b", 1), ("c", 0)))
    said = data_warning([read_run(one), read_run(other)])
    for part in ("a", "b"):
        content = read_record(tmp_path / part / "r").data_fingerprint[:8]
        assert f"mine ({tmp_path / part / 'r' / 'data.npz'}; content {content})" in said
    assert data_warning([read_run(one), read_run(same)]) == ""


def test_a_table_that_changed_between_runs_is_other_data(tmp_path):
    rows = [f"{k},{k * k},{'ab'[k % 2]}" for k in range(40)]
    for k in range(2):
        (tmp_path / "pts.csv").write_text("\n".join([*rows, f"7,{k},a"]))
        data = from_csv(tmp_path / "pts.csv")
        settings = {"training.epochs": 1, "model.options.layers": 2}
        ev.train("point_resnet", data, settings=settings, out=tmp_path / f"r{k}")
    runs = [read_run(tmp_path / "r0"), read_run(tmp_path / "r1")]
    assert data_names(runs[0]) == ["pts.csv"]
    assert f"r1: pts.csv ({tmp_path / 'pts.csv'}; content " in data_warning(runs)


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
