r"""Few-shot networks trained for many episodes at once, by algebra that is exact.

With points :math:`X` (N, d) of an episode and :math:`P = (I - \gamma L)^r`, the answers of a few-shot network are

.. math:: Z = P\,[X C^\top + R\, T^\top] + 1 (b_2 C^\top + c), \qquad R = \sigma(H),\; H = X W_1^\top + 1 b_1,\;
          T = C W_2

since :math:`P 1 = 1`. Let :math:`G = \partial \ell / \partial Z`, :math:`\bar G = P^\top G` and
:math:`U = \bar G^\top R`. Then descent needs neither :math:`W_1` nor :math:`W_2`, both (d, d):

- the gradient of :math:`W_1` and :math:`b_1` moves :math:`H` by :math:`(X X^\top + 1)\, \partial\ell/\partial H`, so
  that :math:`H` itself follows the recurrence of :class:`Descent`;
- the gradient of :math:`W_2` is :math:`C^\top U`, so that :math:`W_2(t) = a_t W_2(0) + \sum_{s<t} c_{ts} C_s^\top U_s`
  with numbers that are the same for all episodes: :math:`C W_2` and :math:`W_2 U^\top` are products with thin factors.

All episodes begin with the same weights; products with :math:`W_2(0)` are therefore one for all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from evolvent._core.checks import check_numbers
from evolvent.networks.diff_resnet_fewshot import FewShotNetwork
from evolvent.tasks.fewshot.descent import Descent
from evolvent.tasks.fewshot.objective import EpisodeObjective

_AT_ONCE = 8  # episodes whose factors stay in a processor's cache; more are slower


def train_episodes(network: FewShotNetwork, x: Tensor, objective: EpisodeObjective, descent: Descent) -> Tensor:
    """The answers of a network after it was trained for each episode by itself, from the weights that it has.

    The same as :func:`train_plainly` up to rounding. The network is not changed.

    Args:
        network: with the initial weights, the same for all episodes.
        x: points of the episodes, the support first.
        objective: of the episodes.
        descent: how they are trained.

    Shape: (T, N, in_features) to (T, N, num_classes).
    """
    check_numbers(x, network, "train_episodes")
    objective.check_fits(x, network.options.num_classes)
    parts = [slice(first, first + _AT_ONCE) for first in range(0, len(x), _AT_ONCE)]
    with torch.no_grad():
        network.convect(x[:1, :1])  # refuses what does not fit
        return torch.cat([_Training(network, x[part], objective.part(part), descent).run() for part in parts])


class _Training:
    """Some episodes in training; thin factors are (T, classes, d), so that rows lie together in memory."""

    def __init__(self, network: FewShotNetwork, x: Tensor, objective: EpisodeObjective, descent: Descent) -> None:
        self.objective, self.descent = objective, descent
        tasks, points, width = x.shape
        classes, support = network.options.num_classes, objective.labels.shape[1]
        self.width, self.classes = width, classes
        self.propagator = network.propagator(x) if network.diffuses else None
        local = self.propagator is None and objective.sees_support_alone
        self.active = support if local else points  # points with a derivative
        self.decayed, coefficients = descent.coefficients()
        self.coefficients = coefficients.repeat_interleave(classes, 1).to(x)
        # Pairs side by side, so that one product takes both: X | R, C | T, and by both of the latter X'G | U.
        self.inputs = x.new_empty(tasks, points, 2 * width)
        self.readout = x.new_empty(tasks, classes, 2 * width)
        self.both = torch.empty_like(self.readout)
        self.inputs[..., :width] = x
        self.R, self.C, self.T = self.inputs[..., width:], self.readout[..., :width], self.readout[..., width:]
        self.from_points, self.U = self.both[..., :width], self.both[..., width:]
        self.kernel = torch.bmm(x, x[:, : self.active].mT).add_(1)
        self.w2 = network.fc2.weight.to(x)
        self.H = torch.addmm(network.fc1.bias, x.reshape(-1, width), network.fc1.weight.T).view(x.shape)
        self.C.copy_(network.classifier.weight)
        self.b2 = network.fc2.bias.repeat(tasks, 1, 1)
        self.c = network.classifier.bias.repeat(tasks, 1)
        self.states = (self.H, self.C, self.b2, self.c)
        self.steps = [x.new_zeros(state.shape) for state in self.states]
        self.by_H = x.new_empty(tasks, self.active, width)
        self.by_C = x.new_empty(tasks, classes, width)
        self.C_history = x.new_empty(tasks, descent.epochs * classes, width)
        self.U_history = torch.empty_like(self.C_history)

    def run(self) -> Tensor:
        for epoch in range(self.descent.epochs):
            self._descend(epoch, self.objective.derivative(self._answers(epoch)))
        return self._answers(self.descent.epochs).mT

    def _answers(self, epoch: int) -> Tensor:
        """Shape: (T, classes, N)."""
        self._through_w2(epoch, self.C, self.w2, self.C_history, self.U_history, self.T)
        torch.clamp_min(self.H, 0, out=self.R)
        shift = torch.bmm(self.C, self.b2.mT).add_(self.c[..., None])
        answers = torch.bmm(self.readout, self.inputs.mT)
        if self.propagator is None:
            return answers.add_(shift)
        return torch.baddbmm(shift, answers, self.propagator.mT)

    def _descend(self, epoch: int, by_answers: Tensor) -> None:
        moved = by_answers if self.propagator is None else torch.bmm(by_answers, self.propagator)
        moved = moved[..., : self.active]
        sums = moved.sum(-1, keepdim=True)
        torch.bmm(moved, self.inputs[:, : self.active], out=self.both)
        self._through_w2(epoch, self.U, self.w2.T, self.U_history, self.C_history, self.by_C)
        self.by_C.add_(self.from_points).addcmul_(sums, self.b2)
        by_b2, by_c = torch.bmm(sums.mT, self.C), by_answers.sum(-1)
        torch.bmm(moved.mT, self.T, out=self.by_H)
        torch.ops.aten.threshold_backward.grad_input(self.by_H, self.R[:, : self.active], 0, grad_input=self.by_H)
        now = slice(epoch * self.classes, (epoch + 1) * self.classes)
        self.C_history[:, now], self.U_history[:, now] = self.C, self.U
        rate, carried = self.descent.rates[epoch], self.descent.carried(epoch)
        self.steps[0].baddbmm_(self.kernel, self.by_H, beta=carried, alpha=-rate)
        for step, by in zip(self.steps[1:], (self.by_C, by_b2, by_c), strict=True):
            step.mul_(carried).sub_(by, alpha=rate)
        for step, state in zip(self.steps, self.states, strict=True):
            if self.descent.weight_decay:
                step.sub_(state, alpha=rate * self.descent.weight_decay)
            state.add_(step)

    def _through_w2(self, epoch: int, thin: Tensor, w2: Tensor, before: Tensor, after: Tensor, out: Tensor) -> None:
        r"""``out`` = thin (a W + sum of c before' after), the product of a thin factor with :math:`W_2`."""
        flat = out.flatten(0, 1)
        torch.addmm(flat, thin.flatten(0, 1), w2, beta=0, alpha=self.decayed[epoch], out=flat)
        past = epoch * self.classes
        if past:
            overlap = torch.bmm(thin, before[:, :past].mT).mul_(self.coefficients[epoch, :past])
            out.baddbmm_(overlap, after[:, :past])


def train_plainly(network: FewShotNetwork, x: Tensor, objective: EpisodeObjective, descent: Descent) -> Tensor:
    """Train the network itself for one episode with :class:`torch.optim.SGD`, and return its answers.

    For trained weights and features, and as a check: :func:`train_episodes` gives the same answers many times faster.

    Shape: (1, N, in_features) to (1, N, num_classes).
    """
    check_numbers(x, network, "train_plainly")
    objective.check_fits(x, network.options.num_classes)
    parameters = list(network.parameters())
    optimizer = torch.optim.SGD(parameters, momentum=descent.momentum, weight_decay=descent.weight_decay)
    with torch.enable_grad():
        for rate in descent.rates:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            objective.value(network(x)).sum().backward()
            optimizer.step()
    with torch.no_grad():
        return network(x)
