"""Gradient descent with momentum and decay as a recurrence of numbers, the same for every weight of every episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evolvent._core.checks import check_not_negative, check_positive, check_share, told
from evolvent._core.errors import ConfigError


@dataclass(frozen=True)
class Descent:
    r"""Gradient descent as :class:`torch.optim.SGD` does it, with a learning rate for each epoch.

    .. math:: v \leftarrow m v + g + \omega \theta, \qquad \theta \leftarrow \theta - \eta_t v

    All weights and biases decay. In steps :math:`\delta_t = \theta_{t+1} - \theta_t` it is

    .. math:: \delta_t = m \tfrac{\eta_t}{\eta_{t-1}} \delta_{t-1} - \eta_t (g_t + \omega \theta_t)

    Args:
        rates: learning rate :math:`\eta_t` of each epoch.
        momentum: :math:`m`.
        weight_decay: :math:`\omega`.
    """

    rates: Sequence[float]
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        if not isinstance(self.rates, Sequence) or not self.rates:
            raise ConfigError(
                f"rates are the learning rates of the epochs in a few-shot task, at least one, got {told(self.rates)}."
            )
        check_positive(**{f"learning rate of epoch {t}": rate for t, rate in enumerate(self.rates)})
        object.__setattr__(self, "rates", tuple(float(rate) for rate in self.rates))
        check_share(momentum=self.momentum)
        check_not_negative(weight_decay=self.weight_decay)

    @property
    def epochs(self) -> int:
        return len(self.rates)

    def carried(self, epoch: int) -> float:
        """The factor of the step before."""
        return self.momentum * self.rates[epoch] / self.rates[epoch - 1] if epoch else 0.0

    def coefficients(self) -> tuple[list[float], Tensor]:
        r"""Numbers :math:`a_t` and :math:`c_{ts}` with :math:`\theta_t = a_t \theta_0 + \sum_{s < t} c_{ts} g_s`.

        Shape: a of epochs + 1 entries, c float64 (epochs + 1, epochs).

        >>> a, c = Descent([0.5, 0.5], momentum=0.0, weight_decay=0.0).coefficients()
        >>> a, c[2].tolist()
        ([1.0, 1.0, 1.0], [-0.5, -0.5])
        """
        response = torch.zeros(self.epochs + 1, self.epochs + 1, dtype=torch.float64)
        response[0, -1] = 1.0  # the last column is that of the initial weights
        step = torch.zeros(self.epochs + 1, dtype=torch.float64)
        for t, rate in enumerate(self.rates):
            step = self.carried(t) * step - rate * self.weight_decay * response[t]
            step[t] -= rate
            response[t + 1] = response[t] + step
        return response[:, -1].tolist(), response[:, :-1].contiguous()
