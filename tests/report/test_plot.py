"""Pictures and tables for notebooks: figures with the right curves, and matplotlib only when one is drawn."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import evolvent as ev
from evolvent.analysis import measure_stability
from evolvent.dynamics import from_module
from evolvent.errors import ConfigError
from evolvent.integrators import RK4
from evolvent.tasks.prediction import MaskPredictions, Predictions


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    labels = np.arange(60) % 3
    noise = np.random.default_rng(0).normal(50, 9, (60, 8, 6))
    x = np.clip(noise + 80 * labels[:, None, None], 0, 255).astype(np.uint8)
    network = ev.create_model("hamiltonian", channels=(4,), blocks=1, step_size=0.4)
    data = ev.data.from_arrays(x, labels, classes=["dark", "grey", "light"])
    return ev.train(network, data, settings={"training.epochs": 3}, out=tmp_path_factory.mktemp("plot") / "run")


def test_what_a_confusion_matrix_is_drawn_of_is_said(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 2))
    settings = {"training.epochs": 1, "model.options.layers": 2}
    points = ev.train("point_resnet", ev.data.from_arrays(x, np.arange(40) % 2), settings=settings, out=tmp_path)
    with pytest.raises(ConfigError, match=r"of the task classification, segmentation or nodes; .* has 0 of them"):
        ev.plot.confusion(points.folder)


@pytest.fixture
def turning():
    """A rotation of the plane, whose eigenvalues are 2i and -2i."""
    f = from_module(lambda u: 2 * torch.stack((-u[:, 1], u[:, 0]), dim=1))
    return ev.Evolution(f, RK4(), steps=10, step_size=0.1)


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def test_importing_plot_does_not_import_matplotlib():
    code = "import evolvent as ev, sys; ev.plot.curves; print('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_paths_and_norms(turning):
    figure = ev.plot.trajectory(turning, torch.randn(5, 2))
    assert titles(figure) == ["paths", "size of the features"]
    path = figure.axes[0].lines[0].get_xydata()
    assert path.shape == (11, 2)
    np.testing.assert_allclose(np.linalg.norm(path, axis=1), np.linalg.norm(path[0]), rtol=1e-3)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_networks_of_images_show_norms_through_all_units():
    model = ev.create_model("hamiltonian", channels=(4, 8), blocks=2, image_size=8)
    figure = ev.plot.trajectory(model, torch.randn(3, 3, 8, 8))
    assert titles(figure) == ["size of the features"]
    assert len(figure.axes[0].lines) == 6
    with pytest.raises(ConfigError, match="has no evolution"):
        ev.plot.trajectory(nn.Linear(2, 2), torch.randn(3, 2))


@pytest.mark.parametrize("state", [torch.ones(3), torch.ones(3, 2, dtype=torch.complex64)])
def test_states_that_lie_in_no_plane_show_norms_alone(state):
    figure = ev.plot.trajectory(ev.Evolution(from_module(lambda u: -u), RK4(), steps=2, step_size=0.1), state)
    assert titles(figure) == ["size of the features"]
    assert len(figure.axes[0].lines) == 3


def test_spectrum_and_stability(turning):
    u = torch.randn(3, 2)
    figure = ev.plot.spectrum(turning, u, points=2)
    assert sorted(figure.axes[0].lines[0].get_ydata()) == pytest.approx([-2, 2], abs=1e-5)
    measured = measure_stability(turning, u)
    assert titles(ev.plot.stability(measured)) == titles(ev.plot.stability(turning, u))
    assert len(ev.plot.spectrum(measured[0].spectra).axes[0].lines) == 3
    with pytest.raises(ConfigError, match="give an input"):
        ev.plot.stability(turning)
    with pytest.raises(ConfigError, match="give an evolution and its initial state"):
        ev.plot.spectrum(turning)


def test_curves_and_confusion_of_a_run(run, tmp_path):
    figure = ev.plot.curves(run.folder)
    assert titles(figure) == ["accuracy", "loss"]
    assert len(figure.axes[0].lines[0].get_xdata()) == 3
    matrix = ev.plot.confusion(run.folder)
    assert [label.get_text() for label in matrix.axes[0].get_xticklabels()] == ["dark", "grey", "light"]
    matrix.savefig(tmp_path / "confusion.png")
    with pytest.raises(ConfigError, match="is not a run folder"):
        ev.plot.curves(tmp_path)


def test_one_epoch_is_marked_and_epochs_are_whole_numbers(run, tmp_path):
    folder = shutil.copytree(run.folder, tmp_path / "run")
    (folder / "result.json").unlink()
    (folder / "metrics.csv").write_text("epoch,train_loss\n1,0.5\n")
    [panel] = ev.plot.curves(folder).axes
    assert panel.lines[0].get_marker() == "o"
    low, high = panel.get_xlim()
    assert [tick for tick in panel.get_xticks() if low <= tick <= high] == [1]


def test_cells_and_colour_bar_of_a_confusion_matrix_are_in_percent(run):
    matrix, bar = ev.plot.confusion(run.folder).axes
    assert bar.get_ylabel() == "percent of the true class"
    assert matrix.images[0].get_clim() == (0, 100)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: ev.plot.stability(5),
        lambda: ev.plot.stability([5]),
        lambda: ev.plot.spectrum(None, torch.zeros(2, 2)),
        lambda: ev.plot.curves(None),
        lambda: ev.plot.confusion(None),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw):
    with pytest.raises(ConfigError, match=r", got (5|\[5\]|None)\."):
        draw()


@pytest.mark.parametrize("given", [torch.zeros(3), []])
def test_tensors_and_empty_lists_are_no_measurements(given):
    with pytest.raises(ConfigError, match=r"measurements, got (float32 of shape \(3,\)|\[\])\."):
        ev.plot.stability(given)


def test_what_is_not_finished_has_no_pictures(run, tmp_path):
    config = (run.folder / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(config)
    with pytest.raises(ConfigError, match="has no metrics yet"):
        ev.plot.curves(tmp_path)
    with pytest.raises(ConfigError, match="has 0 of them"):
        ev.plot.confusion(tmp_path)


def test_notebooks_show_tables(run, turning):
    assert "hamiltonian-seed0" in run._repr_html_()
    plan = ev.plan(ev.create_model("hamiltonian", channels=(4,), blocks=2, image_size=8), (4, 3, 8, 8), rounds=1)
    assert "(chosen)" in plan._repr_html_()
    assert "largest eigenvalue" in measure_stability(turning, torch.randn(3, 2))[0]._repr_html_()
    many = Predictions([f"<{k}>" for k in range(50)], ("a", "b"), torch.full((50, 2), 0.5))
    assert "&lt;0&gt;" in many._repr_html_()
    assert "and 10 more" in many._repr_html_()
    assert "0.25" in MaskPredictions(["m"], ("a", "b"), [np.array([[0, 0, 0, 1]], np.uint8)], [0.5])._repr_html_()
    assert json.loads((run.folder / "result.json").read_text())["figures"]["accuracy"] is not None
