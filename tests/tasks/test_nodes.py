"""Node classification: many initialisations at a time are trainings of their own, each stopped at its best."""

import numpy as np
import pytest
import torch

from evolvent.data import Batches, GraphData, Material
from evolvent.errors import ConfigError, DataError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.graphs import SparseMatrix
from evolvent.networks import create_model, load
from evolvent.networks.building import part_of
from evolvent.report.runs import read_run
from evolvent.report.summary import summary_rows
from evolvent.tasks import TASKS, OptimizerConfig, Plan, Setup, make_optimizer
from evolvent.tasks.nodes import Nodes, NodeSource
from evolvent.testing import check_task

CLASSES, EACH, WIDTH = 7, 12, 1433


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small graph under Cora's name: nodes of one class share words and edges."""
    rng = np.random.default_rng(0)
    nodes = CLASSES * EACH
    y = np.arange(nodes) % CLASSES
    words = np.array([rng.choice(60, 5, replace=False) + 200 * c for c in y]).astype(np.uint16)
    words.sort(axis=1)
    ring = np.array([np.arange(nodes), (np.arange(nodes) + CLASSES) % nodes])
    bridge = np.array([list(range(CLASSES)), [(k + 1) % CLASSES for k in range(CLASSES)]])
    place = tmp_path_factory.mktemp("graphs")
    np.savez(
        place / "cora.npz", edges=np.concatenate([ring, bridge], axis=1), x_indptr=5 * np.arange(nodes + 1),
        x_indices=words.reshape(-1), x_data=np.ones(5 * nodes, np.float32), x_shape=np.array([nodes, WIDTH]),
        y=y.astype(np.int8), train_idx=np.arange(14), val_idx=np.arange(14, 28), test_idx=np.arange(28, nodes),
    )  # fmt: skip
    return place


DATA = {"train_per_class": 2, "validation_per_class": 2}


def recipe(model=None, **changes):
    values = {
        "name": "small", "title": "small", "question": "?",
        "model": model or {"name": "gcn", "options": {"width": 4, "initialisations": 3}},
        "data": DATA, "task": {"name": "nodes"}, "optimizer": {"name": "adam", "lr": 0.05}, "training": {"epochs": 5},
    }  # fmt: skip
    return Recipe.read(values | changes, "test")


def found_by(folder, **data) -> tuple[GraphData, Material]:
    chosen = Nodes.Data(**DATA | data)
    found = Nodes.read(chosen, folder)
    return found, Nodes.material(found, chosen, 0)


def task(folder, name="gcn", settings=None, **options):
    _, material = found_by(folder)
    torch.manual_seed(0)
    model = create_model(name, **{**material.options, "initialisations": 3, **options})
    return Nodes(model, material, Setup(Nodes.Settings(**settings or {}), Nodes.Data(**DATA))), material


def test_it_keeps_the_contract(folder, tmp_path):
    left_out = check_task(recipe(), tmp_path, data_folder=folder)
    assert left_out == ["two processes: a source is not shareable"]


def test_material(folder):
    found, material = found_by(folder)
    assert TASKS.get("nodes") is Nodes
    assert [len(source.batch["nodes"]) for source in (material.train, material.watched, material.test)] == [14, 14, 56]
    assert material.options == {"num_classes": 7, "in_features": WIDTH}
    assert material.held_out
    torch.testing.assert_close(found.features.row_sums(), torch.ones(84))
    whole, public = found_by(folder, split="public", normalise_rows=False)
    assert public.test.batch["nodes"].tolist() == list(range(28, 84))
    assert whole.features.values.unique().tolist() == [1.0]
    others = Nodes.material(found, Nodes.Data(**DATA), 1)
    assert not others.train.batch["nodes"].equal(material.train.batch["nodes"])


def test_wrong_settings(folder):
    with pytest.raises(ConfigError, match="one of the whole graph"):
        found_by(folder, split="public", component="largest")
    with pytest.raises(DataError, match="Ask for fewer"):
        found_by(folder, train_per_class=40)
    with pytest.raises(ConfigError, match="diff_resnet_graph or gcn"):
        Nodes.check_model("resnet", ["num_classes"])


def train(task, material, epochs):
    [turn] = task.turns(Plan(1, epochs))
    optimizer = make_optimizer(turn.parameters, OptimizerConfig(name="adam", lr=0.05))
    path = []
    for step in range(epochs):
        task.train().zero_grad()
        objective, _ = task(Batches(material.train).at(step), turn.name)
        objective.backward()
        optimizer.step()
        measured = task.add_up(Batches(material.watched))
        path.append((measured["hits"], measured["loss"], [p.detach().clone() for p in turn.parameters]))
        if task.epoch_ends(measured):
            break
    return path


@pytest.mark.parametrize("choose_by", ["accuracy", "loss"])
def test_every_initialisation_keeps_its_own_best_weights(folder, tmp_path, choose_by):
    job, material = task(folder, settings={"choose_by": choose_by}, dropout=0.5)
    path = train(job, material, 12)
    job.save_kept(tmp_path)
    kept = list(load(tmp_path).parameters())
    for k in range(3):
        rank = [(int(h[k]), -float(loss[k])) if choose_by == "accuracy" else -float(loss[k]) for h, loss, _ in path]
        best = rank.index(max(rank))
        assert int(job.best_epoch[k]) == best + 1
        for p, q in zip(kept, path[best][2], strict=True):
            assert part_of(p, 3)[..., k, :].equal(part_of(q, 3)[..., k, :])
    assert all(map(torch.equal, job.model.parameters(), path[-1][2]))  # saving changes nothing


def test_a_stack_trains_as_single_networks_do(folder):
    stack, material = task(folder, dropout=0.0)
    singles = [stack.model.initialisation(k) for k in range(3)]
    path = train(stack, material, 8)
    for k, single in enumerate(singles):
        job = Nodes(single, material, stack.setup)
        alone = train(job, material, 8)
        for (hits, loss, _), (own_hits, own_loss, _) in zip(path, alone, strict=True):
            assert hits[k] == own_hits[0]
            assert float(loss[k]) == pytest.approx(float(own_loss[0]), rel=1e-4)


def test_patience(folder):
    job, material = task(folder, settings={"patience": 2})
    sums = job.add_up(Batches(material.watched))
    assert [job.epoch_ends(sums) for _ in range(3)] == [False, False, True]
    better = sums | {"hits": sums["hits"] + torch.tensor([0, 1, 0])}
    assert not job.epoch_ends(better)


def test_figures_are_means_over_initialisations(folder):
    job, material = task(folder)
    findings = job.conclude(Batches(material.test))
    accuracies = torch.tensor(findings.samples["accuracy"], dtype=torch.float64)
    assert findings.figures["accuracy"] == pytest.approx(accuracies.mean().item())
    assert findings.figures["deviation"] == pytest.approx(accuracies.std().item(), abs=1e-7)
    assert [row[2] for row in findings.tables[0].rows] == findings.samples["accuracy"]
    assert findings.matrices[0].counts.sum() == 3 * 56
    assert findings.matrices[0].counts.trace() == round(float(accuracies.sum()) * 56)
    single, _ = task(folder, initialisations=1)
    assert single.conclude(Batches(material.test)).figures["deviation"] == 0.0


def test_the_summary_is_over_all_trainings(folder, tmp_path):
    """Seeds and initialisations together have one mean and standard deviation."""
    given = recipe(seeds=[0, 1], training={"epochs": 2, "keep_checkpoint": False})
    results = run_grid(given, tmp_path, data_folder=folder)
    assert not list(tmp_path.rglob("*.ckpt"))
    every = np.concatenate([result.samples["accuracy"] for result in results.values()])
    assert every.shape == (6,)
    [row] = summary_rows(read_run(tmp_path))
    assert row.figures["accuracy"].mean == pytest.approx(every.mean())
    assert row.figures["accuracy"].std == pytest.approx(every.std(ddof=1))
    assert row.n == 2


def test_networks_learn_the_classes(folder, tmp_path):
    diffusion = {"name": "diff_resnet_graph", "options": {"gamma": 0.2, "diffusion_steps": 3, "initialisations": 2}}
    for model in (diffusion, {"name": "gcn", "options": {"initialisations": 2}}):
        given = recipe(model, training={"epochs": 12}, optimizer={"name": "adam", "lr": 0.02})
        [result] = run_grid(given, tmp_path / model["name"], data_folder=folder).values()
        assert result.figures["accuracy"] > 0.8


def test_a_source_is_one_graph(folder):
    found, _ = found_by(folder)
    source = NodeSource(found, torch.tensor([1, 2]))
    assert len(source) == 1
    assert isinstance(source.take(torch.zeros(1), 0, 0)["graph"], SparseMatrix)
