"""The training loop of studies."""

import pytest
import torch
from torch import nn

from evolvent.data import Batches, PointCloud, TensorSource
from evolvent.experiments.studies.fitting import answers_of, fit
from evolvent.tasks.accuracy import accuracy


@pytest.fixture
def blobs():
    return PointCloud(kind="blobs", points=30, noise=0.1).draw(seed=0)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_it_takes_the_steps_of_a_loop_written_out(blobs, model):
    x, y = blobs
    twin = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    twin.load_state_dict(model.state_dict())
    adams = [torch.optim.Adam(net.parameters(), lr=0.1) for net in (model, twin)]
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(adam, 9) for adam in adams]
    losses = []
    for _ in range(9):
        loss = nn.functional.cross_entropy(twin(x), y)
        adams[1].zero_grad()
        loss.backward()
        adams[1].step()
        schedules[1].step()
        losses.append(loss.item())
    told = []
    found = fit(model, adams[0], lambda step: (x, y), range(9), schedule=schedules[0], every=3, tell=told.append,
                measure=lambda step, loss: {"step": step, "loss": loss})  # fmt: skip
    assert found == {"step": [3, 6, 9], "loss": losses[2::3]}
    assert told == [3 / 9, 6 / 9, 1]
    for one, other in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_batches_are_asked_by_number_and_training_can_be_continued(blobs, model):
    batches = Batches(TensorSource(*blobs), 20)
    asked = []

    def at(step):
        asked.append(step)
        return batches.at(step)

    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    assert fit(model, sgd, at, range(3)) == {}
    assert fit(model, sgd, at, range(3, 6), every=3, measure=lambda step, loss: {"step": step}) == {"step": [3]}
    assert asked == list(range(6))


def test_training_goes_on_in_training_mode_after_a_measurement(blobs, model):
    modes = []
    model.register_forward_hook(lambda *_: modes.append(model.training))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(
        model,
        sgd,
        lambda step: blobs,
        range(2),
        measure=lambda *_: {"a": accuracy(answers_of(model, blobs[0]), blobs[1])},
    )
    assert modes == [True, False, True, False]


def test_optimisers_that_evaluate_the_objective_themselves_are_taken(blobs):
    model = nn.Linear(2, 2)
    lbfgs = torch.optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")
    found = fit(model, lbfgs, lambda step: blobs, range(3), measure=lambda step, loss: {"loss": loss})
    assert found["loss"][-1] < found["loss"][0]
    assert accuracy(answers_of(model, blobs[0]), blobs[1]) == 1


def test_accuracy_counts_where_it_is_told():
    answers = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    classes = torch.tensor([0, 1, 1])
    assert accuracy(answers, classes) == pytest.approx(2 / 3)
    assert accuracy(answers, classes, torch.tensor([True, False, True])) == 1
