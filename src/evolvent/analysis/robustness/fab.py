"""The fast adaptive boundary attack: the nearest misclassified image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from evolvent._core.checks import check_whole
from evolvent.analysis.robustness.apgd import target_by_target
from evolvent.analysis.robustness.attack import ATTACKS, Attack, ascent, at, wrong

_BACK = 0.9  # how far a misclassified point stays from its image
_BEYOND = 1.05  # how far a step goes beyond the boundary
_PULL = 0.1  # largest weight of the image's own projection


@dataclass(frozen=True)
class FAB(Attack):
    r"""Steps onto the linearised boundary to each likely wrong class :math:`t`, pulled towards the image.

    .. math:: x_{k+1} = (1 - \alpha)\,(x_k + \eta\, d(x_k)) + \alpha\,(x + \eta\, d(x)), \qquad
              d(u) = \operatorname{argmin} \{ \|d\|_\infty : w^\top (u + d) = b,\; 0 \le u + d \le 1 \}

    Croce and Hein 2020 (Minimally distorted adversarial examples), as targeted in AutoAttack. :math:`w` is the gradient
    of :math:`f_t - f_y` at :math:`x_k`, and the hyperplane where it is zero to first order. What is found beyond the
    budget does not count.

    Args:
        steps: number of steps towards each target.
        targets: number of targets, at most.
    """

    steps: int = 100
    targets: int = 9
    name = "fab"

    def __post_init__(self) -> None:
        check_whole(steps=self.steps, targets=self.targets)

    def perturb(self, model: nn.Module, images: Tensor, labels: Tensor, eps: float, generator: Generator) -> Tensor:
        def attempt(rows: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
            nearest, distance = self._approach(model, images[rows], labels[rows], target)
            return nearest, distance <= eps

        return target_by_target(model, images, labels, self.targets, attempt)

    def _approach(self, model: nn.Module, images: Tensor, labels: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest misclassified points on the way, and their distances; infinite where there is none."""
        x, origin = images.clone(), images.flatten(1)
        nearest, distance = images.clone(), images.new_full((len(images),), float("inf"))
        for _ in range(self.steps):
            here = ascent(model, x, lambda scores: at(scores, targets) - at(scores, labels))
            w, u = here.gradient.flatten(1), x.flatten(1)
            b = (w * u).sum(1) - here.value
            from_here, from_origin = to_hyperplane(u, w, b), to_hyperplane(origin, w, b)
            near, far = (d.abs().amax(1, keepdim=True).clamp_min(1e-8) for d in (from_here, from_origin))
            pull = (near / (near + far)).clamp_max(_PULL)
            new = (1 - pull) * (u + _BEYOND * from_here) + pull * (origin + _BEYOND * from_origin)
            x = new.clamp(0, 1).view_as(images)
            missed = wrong(model, x, labels)
            away = (x - images).flatten(1).abs().amax(1)
            closer = missed & (away < distance)
            nearest[closer], distance[closer] = x[closer], away[closer]
            x[missed] = images[missed] + _BACK * (x[missed] - images[missed])
        return nearest, distance


def to_hyperplane(u: Tensor, w: Tensor, b: Tensor) -> Tensor:
    r"""The smallest :math:`d` in the maximum norm with :math:`w^\top (u + d) = b` and :math:`0 \le u + d \le 1`.

    Every coordinate moves by the same :math:`\lambda` in the direction that helps, or as far as it has room: so
    :math:`\sum_i |w_i| \min(\lambda, r_i) = |b - w^\top u|`, which sorting the rooms :math:`r_i` solves. Where the
    hyperplane cannot be reached, the nearest corner is taken.

    Shape: u and w (B, n), b (B,) to (B, n).

    >>> to_hyperplane(torch.tensor([[0.2, 0.9]]), torch.tensor([[1.0, 1.0]]), torch.tensor([1.5]))
    tensor([[0.3000, 0.1000]])
    """
    missing = b - (w * u).sum(1)
    direction = torch.sign(w) * torch.sign(missing)[:, None]
    room = torch.where(direction > 0, 1 - u, u) * (direction != 0)
    sorted_room, order = room.sort(1)
    weight = w.abs().gather(1, order)
    spent = (weight * sorted_room).cumsum(1)
    still = weight.sum(1, keepdim=True) - weight.cumsum(1)  # of those with more room
    reach = spent + sorted_room * still  # what a common step as long as each room achieves
    place = (reach < missing.abs()[:, None]).sum(1, keepdim=True)  # how many rooms are used up
    before = (place - 1).clamp_min(0)
    used = torch.where(place > 0, spent.gather(1, before), 0.0)
    rest = torch.where(place > 0, still.gather(1, before), weight.sum(1, keepdim=True))
    step = (missing.abs()[:, None] - used) / rest.clamp_min(1e-30)
    step = torch.where(place < u.shape[1], step, float("inf"))
    return direction * torch.minimum(step, room)


ATTACKS.add(FAB.name, FAB)
