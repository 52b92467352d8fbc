"""The Jacobian of quantities at points in the weights, against one gradient at a time."""

import torch

import evolvent as ev
from evolvent.equations import parameter_jacobian
from evolvent.equations.problems import create_problem


def test_rows_are_the_gradients_of_residuals():
    torch.manual_seed(0)
    problem = create_problem("kdv")
    net = ev.create_model("perceptron", width=5, layers=2, **problem.network_options()).double()
    net.layers[0].bias.requires_grad_(False)
    points = problem.sobol(300, 0)  # more than one chunk
    quantity = lambda f, x: problem.residual(problem.derivatives(f, x))  # noqa: E731
    found = parameter_jacobian(net, quantity, points)
    trained = [p for p in net.parameters() if p.requires_grad]
    assert found.shape == (300, sum(p.numel() for p in trained))
    residual = quantity(net, points)
    for i in (0, 150, 299):
        one = torch.autograd.grad(residual[i, 0], trained, retain_graph=True)
        torch.testing.assert_close(found[i], torch.cat([g.flatten() for g in one]), rtol=1e-9, atol=1e-11)
