"""The first layer whose gradient is not finite."""

import pytest
import torch
from torch import nn
from torch.nn.utils import get_total_norm

from evolvent._core.errors import NonFiniteError
from evolvent.tasks.nonfinite import check_finite


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    return model


def norm(model: nn.Module) -> torch.Tensor:
    return get_total_norm([parameter.grad for parameter in model.parameters()])


def test_finite_gradients_pass():
    assert check_finite(network(), torch.tensor(1.0), 3, norm(network())) is None
    assert check_finite(network(), torch.tensor(1.0), 3, None) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_the_layer_nearest_to_the_output_is_named(bad):
    model = network()
    model[0].weight.grad[0, 0] = bad
    model[1].weight.grad[1, 0] = bad
    with pytest.raises(NonFiniteError, match=r"at step 3: the loss is 1 and the gradient of '1.weight' was the first"):
        check_finite(model, torch.tensor(1.0), 3, norm(model))


def test_a_loss_that_is_not_finite_stops_even_with_finite_gradients():
    with pytest.raises(NonFiniteError, match="only the loss overflowed"):
        check_finite(network(), torch.tensor(float("inf")), 0, None)


def test_weights_that_are_not_finite_are_named_where_no_gradient_is_to_blame():
    model = network()
    with torch.no_grad():
        model[1].bias[0] = float("nan")
    with pytest.raises(NonFiniteError, match=r"the loss is nan and '1.bias' is the first of the weights"):
        check_finite(model, torch.tensor(float("nan")), 0, None)


def test_only_settings_that_resume_accepts_are_advised_with_it():
    with pytest.raises(NonFiniteError, match=r"from step 7 with --resume and .*step_size needs a new run") as caught:
        check_finite(network(), torch.tensor(float("inf")), 9, None, lambda: 7)
    assert len(str(caught.value)) < 300
