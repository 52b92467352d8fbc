"""PR-Net's losses against naive forms, which turn trains what, and what happens when an equation goes wrong."""

import json
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evolvent import create_model, load
from evolvent.data import Batches, ImageSet, ImageSource, Material
from evolvent.equations import GoverningEquation, polynomial_terms
from evolvent.errors import ConfigError, ModelFileError, NonFiniteError
from evolvent.experiments.grid import run_grid
from evolvent.experiments.recipe import Recipe
from evolvent.networks import SolutionBlock, solution_blocks
from evolvent.networks.prnet import CoordinateField
from evolvent.networks.solution_block import lattice
from evolvent.tasks import TASKS, OptimizerConfig, Plan, ScheduleConfig, Setup
from evolvent.tasks.classification import ClassificationData
from evolvent.tasks.prnet import CoordinateLostWarning, DrownedLossWarning, PRNet
from evolvent.tasks.prnet.losses import Entered, derivatives, governing_loss, initial_loss, observed, training_only
from evolvent.tasks.prnet.reading import load_equation, save_equation, sentence, share_explained
from evolvent.tasks.prnet.task import PRNetSettings

SMALL = {"width": 6, "groups": 3, "image_size": 20}
BATCH = torch.arange(8)


def make_task(model: dict[str, Any] | nn.Module | None = None, example: bool = True, **settings) -> tuple[PRNet, Any]:
    """A small task on random images in double precision, and a batch of it."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (24, 1, 20, 20), dtype=torch.uint8, generator=draw)
    source = ImageSource(ImageSet(images, torch.arange(24) % 10, tuple("0123456789")))
    network = model if isinstance(model, nn.Module) else create_model("prnet_mnist", **SMALL, **(model or {}))
    seen = torch.randn(4, 1, 20, 20) if example else None
    setup = Setup(
        PRNetSettings(**settings), ClassificationData(name="random", batch_size=8),
        OptimizerConfig(name="adam", lr=1e-3), ScheduleConfig(), seed=0,
    )  # fmt: skip
    task = PRNet(network, Material("random", source, source, source, example=seen), setup).double()
    return task, task.placed(source.take(BATCH, 0, 0))


def randomise(equation: GoverningEquation, size: float = 0.1) -> None:
    nn.init.normal_(equation.alpha, std=size)


def gradients_of(task: PRNet, batch: Any, turn: str) -> dict[str, Tensor]:
    task.zero_grad()
    task.objective(batch, turn)[0].backward()
    return {name: p.grad.clone() for name, p in task.named_parameters() if p.grad is not None}


def naive_losses(task: PRNet, h0: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives by nested autograd of the shifts, terms written out, means over everything."""
    [block] = solution_blocks(task.model)
    shifts = [torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in range(3)]
    coordinates = [c.detach() + s for c, s in zip(block.coordinates(), shifts, strict=True)]
    layers = block.field
    joined = torch.cat([h0, torch.cat(coordinates, dim=1).expand(len(h0), -1, -1, -1)], dim=1)
    u = nn.functional.conv2d(joined, layers.conv1.weight, layers.conv1.bias, padding=1)
    for norm, after in ((layers.norm1, layers.conv2), (layers.norm2, torch.relu)):
        grouped = u.reshape(len(u), norm.num_groups, -1)
        centred = grouped - grouped.mean(2, keepdim=True)
        u = (centred / (centred.square().mean(2, keepdim=True) + norm.eps).sqrt()).view_as(u)
        u = after(u * norm.weight.view(-1, 1, 1) + norm.bias.view(-1, 1, 1))

    def slope(u: Tensor, s: Tensor) -> Tensor:
        """By differentiating twice backwards, since the shift is one number."""
        weights = torch.zeros_like(u, requires_grad=True)
        (transposed,) = torch.autograd.grad(u, s, weights, create_graph=True)
        return torch.autograd.grad(transposed, weights, create_graph=True)[0]

    alpha, total, k = task.equation.alpha, torch.zeros_like(u), 0
    for power in range(4):
        total, k = total + alpha[k] * u**power, k + 1
    for s in shifts[:2]:
        derivative = u
        for _ in range(3):
            derivative = slope(derivative, s)
            for power in range(4):
                total, k = total + alpha[k] * u**power * derivative, k + 1
    assert k == 28
    initial = (block.initial(h0) - h0).square().mean()
    return initial, (slope(u, shifts[2]) - total).square().mean()


def test_losses_are_those_of_the_naive_form():
    task, batch = make_task()
    randomise(task.equation)
    [entered] = observed(task.model, task.preprocess(batch.images))[1]
    some = [entered.some(8)]
    expected = naive_losses(task, some[0].features)
    along = derivatives(task.equation, some)
    torch.testing.assert_close(initial_loss(some), expected[0])
    for fixed in (True, False):
        torch.testing.assert_close(governing_loss(task.equation, along, fixed), expected[1], rtol=1e-9, atol=1e-12)
    weights = list(solution_blocks(task.model)[0].field.parameters())
    found = torch.autograd.grad(governing_loss(task.equation, along, True), weights)
    for one, other in zip(found, torch.autograd.grad(expected[1], weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-9)


def test_each_turn_has_gradients_for_its_own_parameters():
    task, batch = make_task()
    randomise(task.equation)
    names = {name for name, _ in task.named_parameters()}
    points, alpha = {"model.body.0.points"}, {"equation.alpha"}
    solution = {name for name in names if name.startswith("model.body.0.field.")}
    expected = {
        "network": names - points - alpha, "task": names - points - alpha, "solution": solution, "points": points,
        "equation": alpha,
    }  # fmt: skip
    assert {turn: set(gradients_of(task, batch, turn)) for turn in expected} == expected
    assert all(p.requires_grad for p in task.parameters())


def test_stem_and_head_are_trained_by_the_classes_alone():
    task, batch = make_task()
    randomise(task.equation)
    fused, plain = gradients_of(task, batch, "network"), gradients_of(task, batch, "task")
    alone = gradients_of(task, batch, "solution")
    for name, gradient in fused.items():
        inside = name.startswith("model.body.0.field.")
        torch.testing.assert_close(gradient, alone[name] if inside else plain[name], rtol=1e-9, atol=1e-12)
    changed = {name for name, gradient in fused.items() if not torch.allclose(gradient, plain[name], 1e-6, 1e-9)}
    assert {name.removeprefix("model.body.0.field.") for name in changed} >= {"conv1.weight", "conv2.weight"}


def test_weights_of_the_losses_count():
    task, batch = make_task(initial=0.5, governing=3.0)
    randomise(task.equation)
    loss, sums = task.objective(batch, "network")
    parts = {name: sums[name] / sums["count"] for name in ("loss", "initial", "governing")}
    torch.testing.assert_close(loss.detach(), parts["loss"] + 0.5 * parts["initial"] + 3 * parts["governing"])
    assert task.figures_of(sums)["governing"] == pytest.approx(parts["governing"].item())


def test_the_equation_pays_for_its_size():
    found = []
    for sparsity in (0.25, 0.0):
        torch.manual_seed(0)
        task, batch = make_task(sparsity=sparsity)
        randomise(task.equation)
        found.append(task.objective(batch, "equation")[0])
    torch.testing.assert_close(found[0] - found[1], 0.25 * task.equation.l1())


def test_a_share_of_the_batch_is_the_same_loss_on_fewer_images():
    task, batch = make_task(share=0.25)
    randomise(task.equation)
    [entered] = observed(task.model, task.as_trained(batch)[0])[1]
    sums = task.objective(batch, "network")[1]
    expected = governing_loss(task.equation, derivatives(task.equation, [entered.some(2)]), fixed=True)
    torch.testing.assert_close(sums["governing"] / sums["count"], expected.detach())


def test_turns_are_those_of_algorithm_1():
    task, _ = make_task(fused=False, points={"epochs": 5}, equation={"every": 2, "optimizer": {"lr": 0.5}})
    network, points, equation = task.turns(Plan(epoch_steps=4, steps=80))
    assert (network.name, tuple(network.objectives)) == ("network", ("task", "solution"))
    assert [step for step in range(30) if points.acts(step)] == [0, 1, 2, 3, 20, 21, 22, 23]
    assert [step for step in range(6) if equation.acts(step)] == [0, 2, 4]
    assert equation.parameters == [task.equation.alpha]
    assert equation.optimizer.lr == 0.5
    owned = [id(p) for turn in (network, points, equation) for p in turn.parameters]
    assert len(owned) == len(set(owned)) == len(list(task.parameters()))
    assert [turn.name for turn in make_task(points=None, governing=0)[0].turns(Plan(4, 8))] == ["network"]


class Wave(nn.Module):
    """Solves h_t = 0.5 h_x: a wave that moves."""

    def forward(self, h: Tensor, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
        return h * torch.sin(3 * (x + 0.5 * t) + y)


def test_a_hidden_equation_is_found():
    block = SolutionBlock(Wave(), (5, 5)).double()
    equation = GoverningEquation(polynomial_terms(("x",), powers=1, orders=1, symbol="h"), symbol="h").double()
    along = derivatives(equation, [Entered(block, torch.randn(4, 2, 5, 5, dtype=torch.float64))])
    optimizer = torch.optim.Adam(equation.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        (governing_loss(equation, along, fixed=False) + 1e-5 * equation.l1()).backward()
        optimizer.step()
    share = share_explained(equation, along)
    assert equation.text(threshold=0.01, digits=2) == "h_t = 0.5 h_x"
    assert share > 0.9999
    assert "1 of 4 terms" in sentence(equation, share, 0.01)
    assert share_explained(GoverningEquation(polynomial_terms(("x",)), symbol="u"), along) == 0.0


def test_statistics_of_batches_neither_move_nor_hide_the_coordinates():
    """Batch normalisation in training removes a shift; with running statistics it is there, and they stay."""
    model = create_model("prnet_mobile", blocks=1, image_size=20, in_channels=1).double().train()
    images, equation = torch.randn(4, 1, 20, 20, dtype=torch.float64), GoverningEquation(polynomial_terms(("x", "y")))
    [entered] = observed(model, images)[1]
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    [along] = derivatives(equation, [entered.some(4)])
    initial_loss([entered.some(4)])
    assert all(torch.equal(b, buffers[name]) for name, b in model.named_buffers())
    assert along.of("x", 1).abs().max() > 1e-3
    assert all(module.training for module in model.modules())


def test_losses_are_exact_under_reduced_precision():
    task, batch = make_task()
    task.float()
    batch = task.placed(batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, sums = task.objective(batch, "network")
        assert sums["governing"].dtype == torch.float32
    loss.backward()
    assert all(p.grad.isfinite().all() for p in task.parameters() if p.grad is not None)


def test_lost_coordinates_are_warned_of():
    """One pixel of features in a group of its own is always 0."""
    with pytest.warns(CoordinateLostWarning, match=r"x, y|norm=joint"):
        make_task(_with_field(partial(CoordinateField, 6, 3, padding_mode="circular")))


def test_derivatives_that_the_activation_does_not_have_are_refused():
    with pytest.raises(ConfigError, match=r"h_xx.*softplus"):
        make_task({"norm": "none"})
    make_task({"norm": "none", "activation": "softplus"})
    make_task({"norm": "none"}, orders=1)


def _with_field(make) -> nn.Module:
    model = create_model("prnet_mnist", **SMALL)
    solution_blocks(model)[0].field = make()
    return model


def test_networks_without_solution_blocks_are_refused():
    with pytest.raises(ConfigError, match="prnet_mnist"):
        make_task(create_model("rknet", width=6, groups=3))


def test_a_loss_that_is_not_finite_stops_the_training():
    task, batch = make_task()
    with torch.no_grad():
        task.equation.alpha.fill_(torch.inf)
    with pytest.raises(NonFiniteError, match=r"governing equation.*task\.equation\.optimizer\.lr"):
        task.objective(batch, "network")


def test_coefficients_that_run_away_stop_the_training():
    task, _ = make_task()
    with torch.no_grad():
        task.equation.alpha[5] = -1e6
    with pytest.raises(NonFiniteError, match=r"'h h_x'.*1e\+06"):
        task.epoch_ends({})


def test_a_drowned_classifier_is_warned_of():
    task, batch = make_task(governing=1e6)
    randomise(task.equation)
    task.objective(batch, "network")
    with pytest.warns(DrownedLossWarning, match=r"task\.governing"):
        task.epoch_ends({})
    assert not task.epoch_ends({})  # nothing is left from the last epoch
    task.objective(batch, "network")
    task.epoch_ends({})  # which does not warn again


def test_the_equation_lies_beside_the_model_and_not_in_it(tmp_path):
    task, _ = make_task()
    randomise(task.equation)
    task.float().save_kept(tmp_path)
    assert not [name for name in load(tmp_path).state_dict() if "alpha" in name]
    assert json.loads((tmp_path / "equation.json").read_text())["equation"].startswith("h_t = ")
    other, _ = make_task()
    other.float().load_kept(tmp_path)
    assert torch.equal(other.equation.alpha, task.equation.alpha)
    with pytest.raises(ModelFileError, match="equation"):
        load_equation(GoverningEquation(polynomial_terms(("z",))), tmp_path)
    save_equation(GoverningEquation(polynomial_terms(("z",))), tmp_path)
    load_equation(GoverningEquation(polynomial_terms(("z",))), tmp_path)


def test_findings_have_the_equation():
    task, _ = make_task(example=False)
    randomise(task.equation)
    source = ImageSource(
        ImageSet(torch.randint(256, (12, 1, 20, 20), dtype=torch.uint8), torch.arange(12) % 10, tuple("0123456789"))
    )
    found = task.float().conclude(Batches(source, 5, 0))
    assert found.answer.startswith("The learned equation is h_t = ")
    assert {"initial", "governing", "sparsity", "accuracy"} <= set(found.figures)
    summary, coefficients = found.tables[:2]
    assert [row[0] for row in summary.rows][:2] == ["equation", "LaTeX"]
    assert len(coefficients.rows) == 28
    plain = make_task(governing=0, example=False)[0].float().conclude(Batches(source, 5, 0))
    assert not plain.answer


def test_parameters_are_frozen_only_inside():
    task, _ = make_task()
    task.model.stem[0].bias.requires_grad_(False)
    before = [p.requires_grad for p in task.parameters()]
    with training_only(task, [task.equation.alpha]):
        assert [name for name, p in task.named_parameters() if p.requires_grad] == ["equation.alpha"]
    assert [p.requires_grad for p in task.parameters()] == before


@pytest.mark.parametrize("fused", [True, False])
def test_the_engine_takes_the_turns_in_order(fused, tmp_path, monkeypatch):
    """A whole small training; the objectives of each step as Algorithm 1 lists them."""
    asked: list[str] = []

    class Watched(PRNet):
        def objective(self, batch, turn):
            asked.append(turn)
            return super().objective(batch, turn)

    monkeypatch.setitem(TASKS._entries, "prnet", Watched)
    recipe = {
        "name": "short", "title": "Short", "question": "?", "model": {"name": "prnet_mnist", "options": {
            "width": 8, "groups": 4, "norm": "joint"}},
        "data": {"name": "digits", "batch_size": 32, "fraction": 0.1},
        "task": {"name": "prnet", "governing": 0.01, "fused": fused, "points": {"every": 2}, "equation": {"every": 3}},
        "optimizer": {"name": "adam", "lr": 1e-3}, "training": {"steps": 3, "epoch_steps": 3},
    }  # fmt: skip
    [result] = run_grid(Recipe.read(recipe, "test"), tmp_path).values()
    first = ["network"] if fused else ["task", "solution"]
    assert asked == [*first, "points", "equation", *first, *first, "points"]
    row = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert {"train_loss", "train_initial", "train_governing", "train_sparsity", "lr_points", "lr_equation"} <= set(
        row.split(",")
    )
    assert result.figures["governing"] is not None


def test_a_lattice_of_one_pixel_is_its_corner():
    x, y, t = lattice((1, 1), torch.float32)
    assert x.item() == y.item() == t.item() == 0


def test_coefficients_begin_at_zero_or_at_random_numbers_of_the_seed():
    assert not make_task()[0].equation.alpha.any()
    first, again = (make_task(start=0.1)[0].equation.alpha for _ in range(2))
    assert torch.equal(first, again)
    assert 0.05 < first.std() < 0.2
