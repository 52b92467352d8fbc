"""Each verb as a user types it."""

import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

from evolvent import cli
from evolvent._core.errors import EvolventError

runner = CliRunner()

FAST = ["--set", "data.name=digits", "--set", "data.fraction=0.2", "--set", "training.epochs=1", "--set", "seeds=[0]",
        "--set", "variants={a: {model: {name: hamiltonian, options: {channels: [4], blocks: 1}}}, "
        "b: {model: {name: resnet, options: {channels: [4], blocks: 1}}}}"]  # fmt: skip


def answer(*arguments: str) -> str:
    done = runner.invoke(cli.app, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    return folder, answer("run", "demo", "--out", str(folder), *FAST)


def test_run_shows_costs_progress_summary_and_report(run):
    folder, text = run
    assert "parameters" in text
    assert "multiply-adds" in text
    assert "epoch 1/1" in text
    assert "images/s" in text
    assert "accuracy" in text
    assert (folder / "report.html").is_file()
    assert (folder / "summary.csv").read_text().startswith("variant,n,")


def test_resume_skips_what_is_finished(run):
    folder, _ = run
    assert answer("run", "demo", "--out", str(folder), "--resume", *FAST).count("finished before") == 2


def test_evaluate_and_report(run, tmp_path):
    folder, _ = run
    text = answer("evaluate", str(folder))
    assert "accuracy" in text
    assert "Accuracy of each class" in text
    assert "report.html" in answer("report", str(folder))
    both = tmp_path / "both.html"
    answer("report", str(folder / "cells/a-seed0"), str(folder / "cells/b-seed0"), "--out", str(both))
    assert both.is_file()


def test_recipes_models_and_citations():
    recipes = answer("recipes")
    for words in ("mnist-hamiltonian", "task", "classification", "segmentation", "study"):
        assert words in recipes
    assert "504,938" in answer("models", "hamiltonian74")
    assert "set by" in answer("models", "hamiltonian74")
    assert "set by" not in answer("models", "hamiltonian")  # a family sets nothing
    assert "@techreport{bohn2021," in answer("cite", "hamiltonian74")
    assert "@inproceedings{he2016deep," in answer("cite", "demo")
    assert "@inproceedings{he2016identity," in answer("cite", "he2016identity")


def test_data_verbs(tmp_path):
    assert "fashion-mnist" in answer("data", "list")
    text = answer("data", "check", "digits")
    assert "digits is complete" in text
    assert "1,437" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "dmo"], "unknown recipe 'dmo'. Did you mean 'demo'?"),
        (["run", "demo", "--set", "optimizer.lrr=1"], "Did you mean 'optimizer.lr'"),
        (["run", "demo", "--set", "training.epochs=many"], "training.epochs"),
        (["run", "demo", "--set", "lr"], "--set takes key=value"),
        (["run", "demo", "transfer"], "settings as KEY=VALUE"),
        (["run", "demo", "optimizer.lrr=1"], "Did you mean 'optimizer.lr'"),
        (["run", "demo", "--set", "optimizer.lr=1", "training.epochs=many"], "training.epochs"),
        (["run", "demo", "--set", "variants={}", "--set", "model.name=resnt44"], "Did you mean 'resnet44'"),
        (["run", "demo", "--set", "data.name=minst"], "Did you mean 'mnist'"),
        (["run", "nowhere.yaml"], "no recipe file"),
        (["run", "multilevel", "--set", "settings.chanels=1"], "Did you mean 'settings.channels'"),
        (["run", "multilevel", "--set", "settings.batch=0"], "batch"),
        (["run", "multilevel", "--set", "settings=3"], "settings"),
        (["run", "multilevel", "--devices", "2"], "one process"),
        (["run", "spiral"], "Did you mean 'spirals'"),
        (["models", "resnt"], "Did you mean 'resnet'"),
        (["cite", "chang2017"], "Did you mean 'chang2018'"),
        (["data", "check", "cifar"], "Did you mean 'cifar10'"),
        (["data", "fetch", "digits"], "cannot be downloaded"),
        (["evaluate", "nowhere"], "not a run folder"),
        (["report", "nowhere"], "not a run folder"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["evolvent", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not list(tmp_path.iterdir())


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(cli, "app", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_an_interrupt_says_how_to_go_on(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["evolvent", "run", "demo"])
    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 130
    assert "--resume" in capsys.readouterr().err


def test_the_module_runs_too():
    done = subprocess.run([sys.executable, "-m", "evolvent.cli", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "recipes" in done.stdout


def test_every_error_type_is_a_user_error():
    from evolvent import errors

    assert all(issubclass(getattr(errors, name), EvolventError) for name in errors.__all__)


def test_one_network_is_described_in_words():
    text = answer("models", "resnet44")
    for words in ("658,586", "feature maps of each unit", "[16, 32, 64]", "this name", "list of integers", "He, Zhang",
                  "evolvent run pide-table1-cifar10", "classification or segmentation"):  # fmt: skip
        assert words in text, words


def test_the_version_is_printed():
    from evolvent import __version__

    assert answer("--version").strip() == f"evolvent {__version__}"


def test_warnings_are_lines_and_shown_once(monkeypatch, capsys):
    def warn_twice():
        for _ in range(2):
            with warnings.catch_warnings():  # which makes Python forget what it has shown
                warnings.simplefilter("always")
                warnings.warn("steps are\n too large", UserWarning, stacklevel=2)

    before = warnings.showwarning
    monkeypatch.setattr(cli, "app", warn_twice)
    cli.main()
    shown = capsys.readouterr()
    assert (shown.out + shown.err).splitlines() == ["warning: steps are too large"]
    assert warnings.showwarning is before
