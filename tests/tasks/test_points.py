"""Points of the plane: material, objective, turns of two optimisers, and the flow that is shown."""

import numpy as np
import pytest
import torch
from torch import nn

from evolvent.data import Batches
from evolvent.errors import ConfigError
from evolvent.networks import create_model
from evolvent.tasks import TASKS, OptimizerConfig, Plan, Setup, check_turns, make_optimizer
from evolvent.tasks.flow_view import turning_view
from evolvent.tasks.points import Points

ADAM = OptimizerConfig(name="adam", lr=0.02)


def material(seed=0, **data):
    chosen = Points.Data(**{"points": 40, "turns": 0.75} | data)
    return Points.material(Points.read(chosen, None), chosen, seed)


@pytest.fixture
def task():
    def make(data=None, optimizer=ADAM, network=None, **settings) -> Points:
        found = material(**data or {})
        torch.manual_seed(0)
        model = network or create_model("point_resnet", layers=4, step_size=0.5, dynamics="antisymmetric")
        chosen = Points.Settings(**{"shown": 30, "grid": 5} | settings)
        return Points(model, found, Setup(chosen, Points.Data(**data or {}), optimizer))

    return make


def train(task: Points, steps: int, **data) -> dict[str, float]:
    """What a training does, by hand."""
    found = material(**data)
    turns = task.turns(Plan(steps, steps))
    check_turns(turns)
    batches = Batches(found.train)
    optimizers = [make_optimizer(turn.parameters, turn.optimizer) for turn in turns]
    for step in range(steps):
        for turn, optimizer in zip(turns, optimizers, strict=True):

            def objective(step=step, turn=turn):
                task.zero_grad()
                loss, _ = task(batches.at(step), turn.name)
                loss.backward()
                return loss

            if turn.acts(step):
                optimizer.step(objective)
    return task.test_figures(Batches(found.test))


def test_it_is_registered():
    assert TASKS.get("points") is Points
    assert Points.figures[0].name == "accuracy"


def test_material_follows_the_seed_and_parts_differ():
    found = material(seed=3, classes=3)
    assert (len(found.train), len(found.test)) == (120, 120)
    assert found.watched is found.test
    assert found.options == {"num_classes": 3, "in_features": 2}
    assert not torch.equal(found.train.columns[0], found.test.columns[0])
    assert torch.equal(found.train.columns[0], material(seed=3, classes=3).train.columns[0])
    assert not torch.equal(found.train.columns[0], material(seed=4, classes=3).train.columns[0])
    assert found.example is not None
    assert len(found.example) == 60


def test_validation_points_are_further_ones():
    found = material(validation=5)
    assert found.held_out
    assert len(found.watched) == 10
    assert not torch.equal(found.watched.columns[0][:5], found.test.columns[0][:5])


def test_figures_are_shares_of_all_points(task):
    it, found = task(), material()
    x, y = found.test.columns
    with torch.no_grad():
        answers = it.model(x)
    expected = {"accuracy": (answers.argmax(1) == y).double().mean().item(),
                "loss": nn.functional.cross_entropy(answers, y).item()}  # fmt: skip
    for batch_size in (None, 7):
        assert it.test_figures(Batches(found.test, batch_size)) == pytest.approx(expected)
    loss, sums = it(found.test.columns, "network")
    assert it.figures_of(sums) == pytest.approx(expected)
    assert loss.item() == pytest.approx(expected["loss"])


def test_smoothed_labels_change_the_objective_alone(task):
    batch = material().train.columns
    plain, sums = task()(batch, "network")
    smooth, same = task(label_smoothing=0.2)(batch, "network")
    assert smooth.item() != plain.item()
    assert same["loss"].item() == sums["loss"].item()


@pytest.mark.parametrize("optimizer", [ADAM, OptimizerConfig(name="lbfgs", lr=1.0)], ids=lambda o: o.name)
def test_spirals_are_learnt(task, optimizer):
    it = task(optimizer=optimizer)
    assert train(it, 100 if optimizer is ADAM else 20)["accuracy"] > 0.9


def test_the_head_has_turns_of_its_own(task):
    it = task(head_optimizer=OptimizerConfig(name="lbfgs", lr=1.0), head_every=5)
    rest, head = it.turns(Plan(10, 100))
    assert (rest.optimizer.name, head.optimizer.name) == ("adam", "lbfgs")
    assert head.parameters == [it.model.head.weight, it.model.head.bias]
    assert len(rest.parameters) + 2 == len(list(it.model.parameters()))
    assert [step for step in range(11) if head.acts(step)] == [0, 5, 10]
    assert all(rest.acts(step) for step in range(11))
    assert train(it, 60)["accuracy"] > 0.9


def test_a_network_without_head_has_no_turn_for_it(task):
    it = task(network=nn.Sequential(nn.Linear(2, 2)), head_optimizer=ADAM)
    with pytest.raises(ConfigError, match="'head'"):
        check_turns(it.turns(Plan(1, 1)))


def test_networks_for_images_are_refused():
    Points.check_model("point_resnet", ["num_classes", "in_features", "width"])
    with pytest.raises(ConfigError, match="does not take points"):
        Points.check_model("resnet20", ["num_classes", "in_channels"])


def test_the_flow_begins_at_the_points(task):
    found = task().conclude(Batches(material().test))
    assert set(found.figures) == {"accuracy", "loss"}
    [flow] = found.animations
    assert flow.frames.shape == (5, 30, 2)
    assert flow.labels.shape == (30,)
    points = material().test.columns[0].numpy()
    assert all(np.isclose(points, place, atol=1e-6).all(1).any() for place in flow.frames[0])
    assert flow.regions is not None
    assert flow.regions.shape == (5, 5)
    assert set(flow.regions.flat) <= {0, 1}


def test_rows_of_the_regions_go_up(task):
    class Above(nn.Linear):
        """Class 1 above the first axis."""

        def forward(self, x):
            return torch.stack((-x[:, 1], x[:, 1]), dim=1)

    it = task()
    it.model.head = Above(2, 2)
    it.model.forward_features = lambda x: x
    flow = it.conclude(Batches(material().test)).animations[0]
    assert flow.regions.tolist()[0] == [0] * 5
    assert flow.regions.tolist()[-1] == [1] * 5


@pytest.mark.parametrize("width", [1, 6])
def test_a_learnt_lift_is_preceded_by_the_points(task, width):
    it = task(network=create_model("point_resnet", layers=4, lift="linear", width=width), projection="features")
    flow = it.conclude(Batches(material().test)).animations[0]
    assert flow.frames.shape == (6, 30, 2)
    assert np.abs(flow.frames[0]).max() < 1.2


def test_only_finite_flows_of_point_networks_are_shown(task):
    assert task(network=nn.Sequential(nn.Linear(2, 2))).conclude(Batches(material().test)).animations == []
    broken = task()
    nn.init.constant_(next(broken.model.parameters()), float("nan"))
    assert broken.conclude(Batches(material().test)).animations == []


def test_the_view_turns_to_the_principal_plane():
    path = torch.zeros(3, 50, 4)
    path[0, :, :2] = torch.randn(50, 2)
    path[2] = torch.randn(50, 4) * torch.tensor([0.1, 0.1, 3.0, 5.0])
    seen = turning_view(path)
    torch.testing.assert_close(seen[0], path[0, :, :2])
    assert seen[2].var(0).sum() > 0.99 * path[2].var(0).sum()


def diffusing(**options) -> nn.Module:
    return create_model("diff_resnet", **{"n_top": 5, "diffusion_steps": 3} | options)


def test_the_same_points_may_be_tested():
    found = material(test="same", kind="moon")
    assert torch.equal(found.train.columns[0], found.test.columns[0])
    assert torch.equal(found.train.columns[1], found.test.columns[1])
    assert not found.held_out


def test_few_labels_are_trained_on_and_all_are_tested(task):
    found = material(labelled=3, test="same")
    hidden, true = found.train.columns[1], found.test.columns[1]
    assert [(hidden == k).sum().item() for k in (-1, 0, 1)] == [74, 3, 3]
    assert torch.equal(hidden[hidden >= 0], true[hidden >= 0])
    assert torch.equal(hidden, material(labelled=3).train.columns[1])
    assert not torch.equal(hidden, material(seed=1, labelled=3).train.columns[1])
    it = task(data={"labelled": 3})
    loss, sums = it(found.train.columns, "network")
    answers = it.model(found.train.columns[0])[hidden >= 0]
    assert loss.item() == pytest.approx(nn.functional.cross_entropy(answers, true[hidden >= 0]).item())
    assert sums["count"] == 6
    assert it.add_up(Batches(found.test))["count"] == 80


@pytest.mark.parametrize("wrong", [{"labelled": 41}, {"labelled": 2, "batch_size": 8}])
def test_labels_that_cannot_be_chosen_are_refused(wrong):
    with pytest.raises(ConfigError, match="labelled"):
        material(**wrong)


def test_a_flow_on_a_graph_is_that_of_all_points_and_has_no_regions(task):
    it, found = task(network=diffusing()), material()
    flow = it.conclude(Batches(found.test)).animations[0]
    assert flow.regions is None
    assert flow.captions == it.model.moments()
    assert len(flow.captions) == len(flow.frames)
    x = found.test.columns[0]
    rows = torch.linspace(0, len(x) - 1, 30).long()
    with torch.no_grad():
        expected = it.model.forward_features(x)[rows]
    np.testing.assert_allclose(flow.frames[-1], expected.numpy(), atol=1e-6)
    assert task(network=diffusing(gamma=0.0)).conclude(Batches(found.test)).animations[0].regions is not None


def test_features_are_recorded_epoch_by_epoch(task):
    it, found = task(network=diffusing(), recorded_epochs=2), material()
    paths = []
    for _ in range(3):  # more than are recorded
        with torch.no_grad():
            paths.append(it.model.forward_features(found.test.columns[0])[torch.linspace(0, 79, 30).long()].clone())
        assert not it.epoch_ends({})
        nn.init.normal_(it.model.head.weight)
        for p in it.model.evolution.parameters():
            nn.init.normal_(p)
    kept = {name for name in it.state_dict() if not name.startswith("model.")}
    assert kept == {"record.frames", "record.count"}
    [_, shown] = it.conclude(Batches(found.test)).animations
    assert shown.captions == ["epoch 0", "epoch 1", "epoch 2"]
    np.testing.assert_allclose(shown.frames[0], paths[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(shown.frames[1], paths[0].numpy(), atol=1e-6)
    np.testing.assert_allclose(shown.frames[2], paths[1].numpy(), atol=1e-6)
