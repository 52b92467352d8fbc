"""``evolvent evaluate`` with attacks, corruptions and the audit, as a user types it."""

import json
import shutil
import sys

import pytest
from typer.testing import CliRunner

from evolvent import cli

VARIANTS = (
    "variants={hamiltonian: {training: {gradient: reversible}, "
    "model: {name: hamiltonian, options: {channels: [4, 8], blocks: 2}}}, "
    "resnet: {model: {name: resnet, options: {channels: [4], blocks: 1}}}}"
)


def answer(*arguments: str) -> str:
    done = CliRunner().invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate") / "run"
    settings = ["data.name=digits", "data.fraction=0.5", "training.epochs=2", "seeds=[0]", VARIANTS]
    answer("run", "demo", "--out", str(folder), *(part for value in settings for part in ("--set", value)))
    return folder


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def read(run, cell, what):
    return json.loads((run / "cells" / f"{cell}-seed0" / "analysis" / f"{what}.json").read_text())


def test_attacks_and_corruptions_are_shown_stored_and_drawn(run):
    pytest.importorskip("kornia")
    text = answer("evaluate", str(run), "--attack", "fgsm, pgd", "--eps", "8/255,32/255", "--corrupt", "noise,jitter",
                  "--images", "50", "--steps", "4", "--step-size", "8/255")  # fmt: skip
    for part in ("50 test images", "pgd 32/255", "jitter", "hamiltonian-seed0", "resnet-seed0", "top-5", "report:"):
        assert part in text, part
    for cell in ("hamiltonian", "resnet"):
        found = read(run, cell, "robustness")
        by_name = {(one["name"], one["eps"] and round(255 * one["eps"])): one["top1"] for one in found["accuracies"]}
        assert set(by_name) == {("clean", None), ("noise", None), ("jitter", None), ("fgsm", 8), ("fgsm", 32),
                                ("pgd", 8), ("pgd", 32)}  # fmt: skip
        assert by_name["pgd", 32] <= by_name["pgd", 8] <= by_name["clean", None]
        assert found["count"] == 50
    report = (run / "report.html").read_text()
    assert 'id="robustness"' in report
    assert "clean image" in report
    again = read(run, "resnet", "robustness")
    answer("evaluate", str(run), "--attack", "fgsm,pgd", "--eps", "8/255,32/255", "--corrupt", "noise,jitter",
           "--images", "50", "--steps", "4", "--step-size", "8/255")  # fmt: skip
    assert read(run, "resnet", "robustness") == again


def test_clean_accuracy_is_that_of_the_run(run):
    answer("evaluate", str(run), "--attack", "fgsm", "--eps", "1/255", "--images", "100000")
    for cell in ("hamiltonian", "resnet"):
        result = json.loads((run / "cells" / f"{cell}-seed0" / "result.json").read_text())
        clean = read(run, cell, "robustness")["accuracies"][0]
        assert clean["top1"] == pytest.approx(result["figures"]["accuracy"], abs=1e-4)


def test_the_audit_gives_one_line_for_each_network(run):
    text = answer("evaluate", str(run / "cells" / "resnet-seed0"), "--audit", "--eps", "16/255", "--images", "30")
    assert "larger budgets" in text
    assert "resnet-seed0, 16/255, 30 images" in text
    [line] = [line for line in text.splitlines() if line.startswith("resnet-seed0: ")]
    assert "trust the figure" in line
    assert read(run, "resnet", "masking")["verdict"] in line
    assert "Masked gradients" in (run / "cells" / "resnet-seed0" / "report.html").read_text()


def test_networks_of_one_name_are_told_apart(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    text = answer("evaluate", str(run), str(other), "--corrupt", "noise", "--images", "20")
    assert "run resnet-seed0" in text
    assert "other resnet-seed0" in text
    assert "fgsm" not in text


def test_without_perturbations_runs_are_tested_again(run):
    text = answer("evaluate", str(run), str(run))
    assert text.count("top-5 accuracy") == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--attack", "pgdd"], "Did you mean 'pgd'"),
        (["--corrupt", "noize"], "Did you mean 'noise'"),
        (["--attack", "fgsm", "--eps", "3"], "Did you mean 3/255?"),
        (["--attack", "fgsm", "--eps", "three"], "a fraction such as 3/255"),
        (["--attack", "pgd", "--step-size", "1"], "step_size is 1"),
        (["--eps", "3/255"], "add --attack"),
        (["--images", "5"], "add --attack"),
        (["--steps", "3"], "add --attack"),
        (["--step-size", "1/255"], "add --attack"),
        (["--attack", "fgsm", "--steps", "3"], "add --attack pgd"),
        (["--corrupt", "noise", "--eps", "3/255"], "--eps is the budget of attacks"),
    ],
)
def test_bad_input_is_one_line(arguments, message, run, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["evolvent", "evaluate", str(run), *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def test_a_run_that_is_no_classifier_of_images_is_refused(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "spirals"
    short = ("--set", "training.steps=4", "--set", "training.epoch_steps=2", "--seed", "0")
    answer("run", "spirals", "--out", str(folder), *short)
    monkeypatch.setattr(sys, "argv", ["evolvent", "evaluate", str(folder), "--attack", "fgsm"])
    with pytest.raises(SystemExit):
        cli.main()
    assert "has no images with a class each" in capsys.readouterr().err


def test_unfinished_runs_are_refused(run, monkeypatch, capsys):
    for result in run.glob("cells/*/result.json"):
        result.unlink()
    monkeypatch.setattr(sys, "argv", ["evolvent", "evaluate", str(run), "--audit"])
    with pytest.raises(SystemExit):
        cli.main()
    assert f"no training in {run} is finished" in capsys.readouterr().err
