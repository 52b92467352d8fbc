"""``evolvent analyze`` as a user types it, on a small trained grid, and what the report then shows."""

import json
import re
import shutil
import sys

import pytest
from typer.testing import CliRunner

from evolvent import cli
from evolvent.report import report_html

VARIANTS = (
    "variants={hamiltonian: {training: {gradient: reversible}, "
    "model: {name: hamiltonian, options: {channels: [4, 8], blocks: 3}}}, "
    "resnet: {model: {name: resnet, options: {channels: [4], blocks: 2}}}, "
    "stiff: {model: {name: parabolic, options: {channels: [4], blocks: 2, step_size: 20.0}}}}"
)
CELLS = ["hamiltonian-seed0", "hamiltonian-seed1", "resnet-seed0", "resnet-seed1", "stiff-seed0", "stiff-seed1"]


def answer(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("analyze") / "run"
    settings = ["data.name=digits", "data.fraction=0.2", "training.epochs=1", "seeds=[0, 1]", VARIANTS]
    answer("run", "demo", "--out", str(folder), *(part for value in settings for part in ("--set", value)))
    return folder


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the trained grid, to be written to."""
    return shutil.copytree(trained, tmp_path / "run")


def read(folder, cell, what):
    return json.loads((folder / "cells" / cell / "analysis" / f"{what}.json").read_text())


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("solved") / "run"
    settings = ["training.steps=1", "model.options.width=8", "data.points=64"]
    chosen = [part for value in settings for part in ("--set", value)]
    answer("solve", "heat", "--budget", "10s", "--no-second", "--out", str(folder), *chosen)
    return folder


@pytest.mark.parametrize(
    ("what", "said"),
    [("stability", "nothing to measure"), ("spectra", "nothing to measure"), ("cost", "multiply-adds")],
)
def test_networks_in_double_precision_are_measured(solved, what, said, tmp_path):
    assert said in answer("analyze", str(solved), what, "--inputs", "2", "--out", str(tmp_path))


def test_stability_is_shown_written_and_drawn(run):
    assert 'id="stability"' not in (run / "report.html").read_text()
    text = answer("analyze", str(run), "stability", "--inputs", "2")
    for part in ("worst growth", "Verlet()", "body.2", "energy", "norm", "report:", "largest stable h"):
        assert part in text, part
    assert "warning: evolution 'body.0': the step 20 of Euler() lies beyond the largest stable one" in text
    for cell in CELLS:
        evolutions = read(run, cell, "stability")["evolutions"]
        assert evolutions[0]["growth"]["worst"][0] == 1.0
    first = read(run, CELLS[0], "stability")["evolutions"][0]
    assert first["bound"]["decay"] is None  # infinity has no place in JSON
    assert first["bound"]["oscillation"] > 0
    assert [r["dtype"] for r in first["reconstructions"]] == ["float32", "float64"]
    report = (run / "report.html").read_text()
    body = section(report, "stability")
    for part in ("Growth of perturbations", "Change of energy", "Eigenvalues of the Jacobian", "Error on the way back",
                 "Steps that are too large", "Evolution 2", "Largest for oscillation"):  # fmt: skip
        assert part in body, part
    assert body.count("<svg") == 2 * 4
    assert "any grows" in body or "none" in body


def test_cost_per_layer_adds_up_and_is_drawn(run):
    text = answer("analyze", str(run), "cost", "--inputs", "3")
    for part in ("body.0.dynamics.1", "Hamiltonian", "multiply-adds", "total", "100.0 %", "ms"):
        assert part in text, part
    table = read(run, CELLS[0], "cost")
    assert table["batch_size"] == 3
    rows = table["layers"] + table["between"]
    for what in ("parameters", "multiply_adds", "activation_bytes"):
        assert sum(layer[what] for layer in rows) == table["total"][what]
    result = json.loads((run / "cells" / CELLS[0] / "result.json").read_text())
    assert table["total"]["parameters"] == result["cost"]["parameters"]
    assert table["total"]["multiply_adds"] == result["cost"]["multiply_adds"]
    per_image = result["cost"]["activation_bytes"] / result["cost"]["batch_size"]  # by the strategy of the training
    assert table["total"]["activation_bytes"] == pytest.approx(3 * per_image)
    body = section((run / "report.html").read_text(), "layers")
    assert "Cost per layer" in body
    assert body.count("<svg") == 3
    assert body.count("<details>") == 3


def test_field_of_view_is_drawn(run):
    text = answer("analyze", str(run), "field-of-view", "--inputs", "2")
    assert "feature pixel" in text
    assert "of 64" in text
    fields = read(run, CELLS[0], "field-of-view")["fields"]
    assert [len(fields), len(fields[0]["map"])] == [2, 8]
    body = section((run / "report.html").read_text(), "field-of-view")
    assert body.count("<img") == 2 + 1 + 1
    assert "Share of the image" in body


def test_spectra_of_the_maps_are_listed(run):
    text = answer("analyze", str(run), "spectra", "--inputs", "2")
    assert "symmetric part from" in text
    assert "body.0.dynamics.0.layer1" in text
    maps = read(run, CELLS[0], "spectra")["maps"]
    assert [one["grid"] for one in maps] == [[8, 8]] * 6 + [[4, 4]] * 6
    assert 0 < maps[0]["positive_share"] < 1
    body = section((run / "report.html").read_text(), "spectra")
    assert "12 maps of the trained network" in body


def test_accuracy_over_angles_is_that_of_the_test_and_is_drawn(run):
    text = answer("analyze", str(run), "angles")
    for part in ("rotated by", "345°", "accuracy on 360 images", "mean", "report:"):
        assert part in text, part
    for cell in CELLS:
        found = read(run, cell, "angles")
        assert found["angles"] == list(range(0, 360, 15))
        assert found["count"] == 360  # all there are, of 1000 at most
        result = json.loads((run / "cells" / cell / "result.json").read_text())
        assert found["accuracy"][0] == pytest.approx(result["figures"]["accuracy"], abs=1.01 / 360)
    body = section((run / "report.html").read_text(), "angles")
    assert body.count("<svg") == 1
    for part in ("Mean over angles", "Lowest at", "Accuracy at each angle", "345°", "medians over seeds", "stiff"):
        assert part in body, part


def test_fewer_images_are_a_draw_that_all_seeds_share(run):
    answer("analyze", str(run), "angles", "--inputs", "50")
    assert {read(run, cell, "angles")["count"] for cell in CELLS} == {50}


def test_a_network_without_evolutions_is_passed_over(tmp_path):
    folder = tmp_path / "run"
    cnn = "variants={cnn: {model: {name: cnn, options: {channels: [2, 2, 2, 2, 2, 2]}}}}"
    settings = ["data.fraction=0.05", "training.epochs=1", "seeds=[0]", cnn]
    answer("run", "demo", "--out", str(folder), *(part for value in settings for part in ("--set", value)))
    for what in ("stability", "field-of-view", "spectra"):
        assert "cnn-seed0: nothing to measure" in answer("analyze", str(folder), what)
    assert not list(folder.rglob("analysis"))
    assert "accuracy on 100 images" in answer("analyze", str(folder), "angles", "--inputs", "100")


def test_equivariance_and_coefficients_are_shown_written_and_drawn(tmp_path):
    folder = tmp_path / "run"
    networks = ("epdo: {model: {name: epdo_c8, options: {fields: [8, 8, 8, 8, 8, 8]}}}, "
                "cnn: {model: {name: cnn, options: {channels: [2, 2, 2, 2, 2, 2]}}}")  # fmt: skip
    settings = ["data.fraction=0.02", "training.epochs=1", "seeds=[0]", f"variants={{{networks}}}"]
    answer("run", "demo", "--out", str(folder), *(part for value in settings for part in ("--set", value)))
    text = answer("analyze", str(folder), "equivariance", "--inputs", "2")
    for part in ("pixels onto pixels", "other elements", "body.0.0", "NeuralEPDO", "answer", "nothing is claimed"):
        assert part in text, part
    assert "warning" not in text
    found = read(folder, "epdo-seed0", "equivariance")
    assert max(layer["exact"] for layer in found["layers"]) < 1e-5
    assert found["answer"]["exact"] < 1e-5
    assert read(folder, "cnn-seed0", "equivariance")["answer"]["others"] is None
    text = answer("analyze", str(folder), "coefficients", "--inputs", "2")
    assert "order 4" in text
    assert "cnn-seed0: nothing to measure" in text
    assert len(read(folder, "epdo-seed0", "coefficients")["layers"]) == 5
    report = (folder / "report.html").read_text()
    assert section(report, "equivariance").count("<svg") == 1
    assert section(report, "coefficients").count("<svg") == 2


def test_equivariance_is_of_networks_that_take_images(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    answer("run", "spirals", "--out", str(folder), "--set", "training.steps=2", "--set", "training.epoch_steps=1")
    error = refused(["analyze", str(folder), "equivariance"], tmp_path, monkeypatch, capsys)
    assert "equivariance is measured of networks that take images" in error


def test_a_task_without_labelled_images_is_refused(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    answer("run", "spirals", "--out", str(folder), "--set", "training.steps=2", "--set", "training.epoch_steps=1")
    error = refused(["analyze", str(folder), "angles"], tmp_path, monkeypatch, capsys)
    assert "the task points has no images with a class each" in error


def test_a_single_cell_and_another_folder(run, tmp_path):
    cell, out = run / "cells" / CELLS[0], tmp_path / "out"
    before = (run / "report.html").read_text()
    text = answer("analyze", str(cell), "field-of-view", "--inputs", "2", "--out", str(out))
    assert "report:" not in text
    assert (out / CELLS[0] / "field-of-view.json").is_file()
    assert not (cell / "analysis").exists()
    answer("analyze", str(cell), "field-of-view", "--inputs", "2")
    assert 'id="field-of-view"' in (cell / "report.html").read_text()
    assert (run / "report.html").read_text() == before
    assert 'id="field-of-view"' in report_html([run])  # the grid's own report shows it when it is drawn next


def test_unfinished_cells_are_left_out(run):
    (run / "cells" / CELLS[0] / "result.json").unlink()
    text = answer("analyze", str(run), "field-of-view", "--inputs", "2")
    assert CELLS[0] not in text
    assert CELLS[1] in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "stabilty"], "unknown analysis 'stabilty'. Did you mean 'stability'?"),
        (["nowhere", "costs"], "Did you mean 'cost'?"),
        (["nowhere", "zzz"], "equivariance, coefficients, features, inversion, robustness, masking."),
        (["nowhere", "cost"], "not a run folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, tmp_path, monkeypatch, capsys):
    assert message in refused(["analyze", *arguments], tmp_path, monkeypatch, capsys)
    assert not list(tmp_path.iterdir())


def test_a_run_without_a_finished_training_is_refused(run, monkeypatch, capsys, tmp_path):
    for path in run.glob("cells/*/result.json"):
        path.unlink()
    assert "no training in" in refused(["analyze", str(run), "cost"], tmp_path, monkeypatch, capsys)


def refused(arguments, folder, monkeypatch, capsys) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["evolvent", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def section(report: str, anchor: str) -> str:
    found = re.search(rf'<section id="{anchor}">.*?</section>', report, re.S)
    assert found, anchor
    return found[0]


def test_features_are_mapped_and_scored(run):
    text = answer("analyze", str(run), "features", "--inputs", "60")
    assert "silhouette score" in text
    assert "on the map (t-SNE)" in text
    found = read(run, CELLS[0], "features")
    assert len(found["points"]) == len(found["labels"]) == 60
    answer("analyze", str(run / "cells" / CELLS[0]), "features", "--inputs", "60", "--layer", "body.0")
    assert read(run, CELLS[0], "features")["layer"] == "body.0"
    body = section(report_html([run]), "clusters")
    assert body.count("<svg") == 3
    assert "hamiltonian at body.0: silhouette" in body
    assert "medians over seeds" in body


def test_representations_are_inverted_layer_by_layer(run):
    text = answer("analyze", str(run / "cells" / CELLS[0]), "inversion", "--inputs", "2")
    assert "error of the representation" in text
    assert [one["layer"] for one in read(run, CELLS[0], "inversion")["layers"]] == ["body.0", "body.2"]
    body = section(report_html([run]), "inversion")
    assert body.count("<img") == 2 * 3
    assert "from body.2" in body
    text = answer("analyze", str(run / "cells" / CELLS[0]), "inversion", "--inputs", "2", "--layer", "stem")
    assert "stem" in text


def test_a_layer_is_chosen_only_where_it_can_be(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evolvent", "analyze", str(run), "cost", "--layer", "stem"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "--layer is for features, inversion" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["evolvent", "analyze", str(run), "inversion", "--layer", "boddy.0"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Did you mean 'body.0'" in capsys.readouterr().err
