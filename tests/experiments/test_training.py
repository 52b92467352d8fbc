"""How long a training lasts, what it writes when, and which optimiser acts when."""

import itertools
import json
import time

import pytest
import torch

from evolvent import load
from evolvent.data import Batches
from evolvent.errors import ConfigError
from evolvent.experiments import training
from evolvent.experiments.checkpoints import read_checkpoint
from evolvent.experiments.engine import DataShelf, Resources, prepare
from evolvent.experiments.grid import run_grid
from evolvent.experiments.length import Length
from evolvent.experiments.observer import Observer
from evolvent.experiments.recipe import TrainingConfig
from evolvent.experiments.record import read_metrics, read_record
from evolvent.report import write_report
from evolvent.tasks import TASKS, Figure, OptimizerConfig, Turn, check_turns, images


class Listener(Observer):
    interval = 0.0

    def __init__(self):
        self.progress = []

    def cell_progresses(self, cell, progress):
        self.progress.append(progress)


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by one second with each training step, and not otherwise."""

    class Clock:
        now = 1000.0

    def objective(self, batch, turn):
        Clock.now += 1.0
        return real(self, batch, turn)

    kind = TASKS.get("plane")
    real = kind.objective
    monkeypatch.setattr(kind, "objective", objective)
    monkeypatch.setattr("time.perf_counter", lambda: Clock.now)
    return Clock


def test_the_length_is_counted_in_epochs_steps_or_seconds():
    assert Length.of(TrainingConfig(), 7).steps == 70
    assert Length.of(TrainingConfig(epochs=2, epoch_steps=5), 7).steps == 10
    assert Length.of(TrainingConfig(steps=9), 7).epochs == 2
    length = Length.of(TrainingConfig(budget="1.5m"), 7)
    assert (length.steps, length.epochs, length.budget) == (None, None, 90)
    assert length.share_done(5, 45.0) == 0.5
    assert length.epoch_end(8) == 14


def test_steps_end_inside_an_epoch(plane, tmp_path):
    [result] = run_grid(plane(training={"steps": 5}), tmp_path).values()
    assert (result.steps, result.epochs, result.best_epoch) == (5, 2, 2)
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [3, 5]


@pytest.mark.parametrize("turns", ["one", "alternating", "then lbfgs"])
def test_steps_are_batches_whatever_the_number_of_optimisers(plane, tmp_path, turns):
    [result] = run_grid(plane(training={"steps": 4}, task={"turns": turns}), tmp_path).values()
    assert result.steps == 4


def test_a_budget_ends_the_training_in_time(plane, tmp_path, clock):
    listener = Listener()
    [result] = run_grid(plane(training={"budget": "10s"}), tmp_path, observer=listener).values()
    assert 9 <= result.steps <= 10
    assert result.seconds == result.steps
    shares = [progress.share_done for progress in listener.progress]
    assert shares == sorted(shares)
    assert listener.progress[-1].seconds_left == pytest.approx(10 - result.steps)
    assert (tmp_path / "model").is_dir()


def test_a_resumed_run_counts_the_time_already_used(plane, tmp_path, clock, power_cut):
    recipe = plane(training={"budget": 10, "checkpoint_steps": 1})
    with power_cut().expected:
        run_grid(recipe, tmp_path, observer=power_cut(step=6))
    clock.now += 500  # nobody trains
    state = read_checkpoint(tmp_path)
    assert state is not None
    assert state["used"] == 5
    [result] = run_grid(recipe, tmp_path, resume=True).values()
    assert 9 <= result.steps <= 10


def test_the_best_model_of_a_budget_is_kept(plane, tmp_path, clock):
    recipe = plane(training={"budget": 12}, data={"validation": 8}, optimizer={"lr": 0.3})
    [result] = run_grid(recipe, tmp_path).values()
    errors = read_metrics(tmp_path / "metrics.csv")["val_error"]
    assert result.best_epoch == 1 + errors.index(min(errors))
    [cell] = recipe.cells()
    ready = prepare(cell, DataShelf().material(cell), Resources())
    ready.task.load_kept(tmp_path / "model")
    batches = training.watched_batches(cell, ready.material)
    assert ready.task.test_figures(batches)["error"] == pytest.approx(min(errors), rel=1e-6)


@pytest.mark.slow
def test_a_budget_of_real_time_is_kept_to_a_tenth(plane, tmp_path):
    began = time.perf_counter()
    run_grid(plane(training={"budget": "3s"}), tmp_path)
    assert 2.7 < time.perf_counter() - began < 6  # with the files and the cost measured before


def test_an_epoch_of_many_steps_of_one_row(plane, tmp_path, monkeypatch):
    written = []
    real = training.write_checkpoint
    monkeypatch.setattr(training, "write_checkpoint", lambda *given, **more: (written.append(1), real(*given, **more)))
    recipe = plane(data={"whole": True, "batch_size": None}, training={"epochs": 2, "epoch_steps": 20})
    [result] = run_grid(recipe, tmp_path).values()
    assert (result.steps, result.epochs) == (40, 2)
    assert read_metrics(tmp_path / "metrics.csv")["step"] == [20, 40]
    assert len(written) <= 2


def test_epochs_of_one_step_are_not_all_written(plane, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(training, "write_checkpoint", lambda folder, state, **_: written.append(state["step"]))
    monkeypatch.setattr(training, "_WRITE_SECONDS", 1e9)
    run_grid(plane(data={"whole": True, "batch_size": None}, training={"epochs": 30}), tmp_path)
    assert written == [1, 30]
    assert len(read_metrics(tmp_path / "metrics.csv")["epoch"]) == 30


def test_the_best_epoch_is_kept_though_it_was_not_written_then(plane, tmp_path, monkeypatch):
    """Learning at a rate that makes matters worse later; nothing is written between the first and the last epoch."""
    monkeypatch.setattr(training, "_WRITE_SECONDS", 1e9)
    recipe = plane(
        data={"validation": 8},
        training={"epochs": 12},
        optimizer={"lr": 0.02, "momentum": 0.99},
    )
    [result] = run_grid(recipe, tmp_path).values()
    errors = read_metrics(tmp_path / "metrics.csv")["val_error"]
    assert 1 < result.best_epoch < 12, errors
    [cell] = recipe.cells()
    ready = prepare(cell, DataShelf().material(cell), Resources())
    ready.task.load_kept(tmp_path / "model")
    batches = training.watched_batches(cell, ready.material)
    assert ready.task.test_figures(batches)["error"] == pytest.approx(min(errors), rel=1e-6)


def test_a_turn_acts_on_every_so_many_batches_of_its_time():
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    turn = Turn(parameters, None, every=3, since=2, until=9)  # pyright: ignore[reportArgumentType]
    assert [step for step in range(12) if turn.acts(step)] == [2, 5, 8]


def test_a_turn_may_act_in_some_epochs_alone():
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    turn = Turn(parameters, OptimizerConfig(), every=2, since=1, during=(3, 10))
    assert [step for step in range(25) if turn.acts(step)] == [1, 3, 11, 13, 21, 23]
    for wrong in ((0, 4), (5, 4)):
        with pytest.raises(ConfigError, match=f"{wrong[0]} of 4"):
            check_turns([Turn(parameters, OptimizerConfig(), during=wrong)])


def test_optimisers_act_in_their_turns_alone(plane, tmp_path, monkeypatch):
    """The head has steps 1 and 3, the rest has all of them."""
    seen = []
    real = training.Training._take_turn

    def take(self, turn, optimizer, batch):
        before = [p.detach().clone() for p in self.task.parameters()]
        real(self, turn, optimizer, batch)
        moved = {
            name.split(".")[1]
            for (name, p), old in zip(self.task.named_parameters(), before, strict=True)
            if not torch.equal(p, old)
        }
        seen.append((self.step, turn.name, moved))

    monkeypatch.setattr(training.Training, "_take_turn", take)
    run_grid(plane(training={"steps": 6}, task={"turns": "alternating"}), tmp_path)
    rest = [(step, "network", {"evolution"}) for step in range(6)]
    assert sorted(seen, key=lambda one: one[:2]) == sorted(
        [*rest, (1, "head", {"head"}), (3, "head", {"head"})], key=lambda one: one[:2]
    )
    assert set(read_metrics(tmp_path / "metrics.csv")) >= {"lr", "lr_head"}


@pytest.mark.parametrize("turns", ["alternating", "then lbfgs"])
@pytest.mark.parametrize("cuts", [(1, 4), (2, 6, 7)], ids=str)
def test_several_optimisers_resume_bitwise(plane, tmp_path, power_cut, assert_same_run, turns, cuts):
    recipe = plane(training={"steps": 8, "checkpoint_steps": 2}, task={"turns": turns}, data={"validation": 6})
    run_grid(recipe, tmp_path / "whole")
    for step in cuts:
        with power_cut().expected:
            run_grid(recipe, tmp_path / "cut", resume=True, observer=power_cut(step=step))
    run_grid(recipe, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_quasi_newton_steps_after_adam_go_much_further(plane, tmp_path):
    whole = {"whole": True, "batch_size": None}
    found = {
        turns: run_grid(plane(training={"epochs": 40}, task={"turns": turns}, data=whole), tmp_path / turns)
        for turns in ("one", "then lbfgs")
    }
    one, lbfgs = (next(iter(found[turns].values())).figures["error"] for turns in found)
    assert lbfgs < 0.5 * one


def test_objectives_in_double_precision_are_not_rounded(plane, tmp_path, monkeypatch):
    """Line searches of L-BFGS compare objectives; rounded to float32 they end early."""
    seen = []
    real = training.Training._check_gradient

    def check(self, objective, optimizer):
        seen.append(objective.dtype)
        real(self, objective, optimizer)

    monkeypatch.setattr(training.Training, "_check_gradient", check)
    run_grid(plane(training={"steps": 2, "precision": "64-true"}, task={"turns": "lbfgs"}), tmp_path)
    assert set(seen) == {torch.float64}


def test_gradients_of_other_turns_do_not_pile_up(plane, tmp_path, monkeypatch):
    seen = []
    real = training.Training._check_gradient

    def check(self, objective, optimizer):
        seen.append(max(p.grad.abs().max().item() for p in self.task.parameters() if p.grad is not None))
        real(self, objective, optimizer)

    monkeypatch.setattr(training.Training, "_check_gradient", check)
    run_grid(plane(training={"steps": 60, "epoch_steps": 60}, task={"turns": "alternating"}), tmp_path)
    assert max(seen) < 3 * seen[0]


def test_the_schedule_of_a_turn_runs_over_its_own_time(plane, tmp_path, clock, monkeypatch):
    """Of a budget of 20 steps, a turn that begins at step 10 starts with its full rate."""
    recipe = plane(training={"budget": 20}, schedule={"name": "cosine"})
    rates = []
    real = training.Training._rate_factor

    def factor(self, turn):
        late = Turn(turn.parameters, turn.optimizer, self.task.setup.schedule, since=10)
        if self.step >= 10:
            rates.append(real(self, late))
        return real(self, turn)

    monkeypatch.setattr(training.Training, "_rate_factor", factor)
    run_grid(recipe, tmp_path)
    assert rates[0] == pytest.approx(1.0)
    assert all(a >= b for a, b in itertools.pairwise(rates))
    assert rates[-1] < 0.1


def test_splits_follow_the_seed(plane):
    cells = plane(seeds=[0, 1]).cells()
    shelf = DataShelf()
    first, again, other = (shelf.material(cell) for cell in (cells[0], cells[0], cells[1]))
    assert torch.equal(first.train.columns[0], again.train.columns[0])
    assert not torch.equal(first.train.columns[0], other.train.columns[0])


def test_cells_with_the_same_data_section_read_it_once(tiny, monkeypatch):
    read, real = [], images.load
    monkeypatch.setattr(images, "load", lambda *given: (read.append(given[0]), real(*given))[1])
    shelf = DataShelf()
    variants = {"a": {}, "b": {"optimizer": {"lr": 1.0}}, "c": {"data": {"validation": 0.5}}}
    for cell in tiny(variants=variants, seeds=[0, 1]).cells():
        shelf.material(cell)
    assert read == ["digits", "digits"]


def test_a_score_without_a_direction_chooses_no_model(plane, tmp_path, monkeypatch):
    monkeypatch.setattr(TASKS.get("plane"), "figures", (Figure("error", "error", better=None),))
    [result] = run_grid(plane(data={"validation": 8}), tmp_path).values()
    assert result.best_epoch == 3


def test_figures_are_not_written_as_nan(plane, tmp_path, monkeypatch):
    monkeypatch.setattr(TASKS.get("plane"), "figures_of", lambda self, sums: {"error": float("nan")})
    [result] = run_grid(plane(data={"validation": 8}), tmp_path).values()
    assert result.best_epoch == 1
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == {"error": None}
    assert "NaN" not in (tmp_path / "findings.json").read_text()
    record = read_record(tmp_path)
    assert record.result
    assert record.result.figures == {"error": None}
    assert load(tmp_path / "model")


def test_patience_ends_a_training_that_no_longer_improves(plane, tmp_path):
    settings = {"data": {"rows": 8, "validation": 8}, "optimizer": {"name": "sgd", "lr": 1e-12, "momentum": 0.0}}
    still = plane(**settings, training={"epochs": 40, "patience": 3})
    result = run_grid(still, tmp_path / "run")["point_resnet-seed0"]
    assert result.epochs < 40
    assert result.epochs - result.best_epoch == 3
    with pytest.raises(ConfigError, match="held out"):
        run_grid(plane(training={"epochs": 4, "patience": 3}), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_task_may_end_its_training(plane, tmp_path):
    settings = {"optimizer": {"name": "adam", "lr": 0.02}, "training": {"epochs": 60}}
    long = run_grid(plane(**settings), tmp_path / "long")["point_resnet-seed0"]
    enough = 2 * long.figures["error"]
    short = run_grid(plane(**settings, task={"enough": enough}), tmp_path / "short")["point_resnet-seed0"]
    assert short.epochs < long.epochs == 60
    assert short.figures["error"] < enough


def test_a_task_without_turns_measures_every_train_row_once(plane, tmp_path):
    recipe = plane(task={"turns": "none"}, data={"rows": 23, "batch_size": 4}, training={"epochs": 7})
    listener = Listener()
    result = run_grid(recipe, tmp_path / "run", observer=listener)["point_resnet-seed0"]
    assert (result.steps, result.epochs) == (6, 1)
    assert listener.progress[-1].share_done == 1
    [cell] = recipe.cells()
    material = DataShelf().material(cell)
    task = prepare(cell, material, Resources()).task
    assert result.figures["error"] == pytest.approx(task.figures_of(task.add_up(Batches(material.train)))["error"])
    assert "train_error" not in read_metrics(tmp_path / "run" / "metrics.csv")
    page = write_report([tmp_path / "run"], tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="summary"' in page
    assert 'id="training"' not in page


def test_a_task_without_turns_goes_on_where_it_was_stopped(plane, tmp_path, power_cut):
    recipe = plane(task={"turns": "none"}, data={"rows": 24, "batch_size": 4})
    whole = run_grid(recipe, tmp_path / "whole")["point_resnet-seed0"]
    cut = power_cut(4)
    with cut.expected:
        run_grid(recipe, tmp_path / "cut", observer=cut)
    assert read_checkpoint(tmp_path / "cut")["step"] == 3
    assert run_grid(recipe, tmp_path / "cut", resume=True)["point_resnet-seed0"].figures == whole.figures
