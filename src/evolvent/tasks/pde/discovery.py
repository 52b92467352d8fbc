"""An unknown equation whose coefficients are eliminated: at any time they are the best for the network as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from evolvent._core.errors import DataError
from evolvent._core.seals import read_sealed, why_unfit, write_sealed
from evolvent.equations import Derivatives, GoverningEquation, Term
from evolvent.tasks.pde.uncertainty import Uncertainty


class Discovery(nn.Module):
    r"""The residual :math:`g = u_t - \sum_k \alpha_k T_k` with :math:`\alpha = \arg\min_\alpha \sum_i g(x_i)^2`.

    Since :math:`\alpha` is a minimum, the gradient of :math:`\min_\alpha \sum_i g_i^2` in the weights of the network is
    that with :math:`\alpha` held fixed (variable projection, Golub and Pereyra 1973). So coefficients of very different
    size need neither learning rates nor penalties. Terms that are not needed are left out one by one: the one without
    which the residual grows least, or, from noisy samples, the one that is smallest beside its standard error.

    Args:
        terms: the library.
        time: the coordinate of time.
    """

    active: Tensor

    def __init__(self, terms: Sequence[Term], time: str = "t") -> None:
        super().__init__()
        self.equation = GoverningEquation(terms, time=time).double().requires_grad_(False)
        self.register_buffer("active", torch.ones(len(terms), dtype=torch.bool))

    @property
    def needed(self) -> list[str]:
        """Names of the derivatives that all terms need."""
        return [coordinate * order for coordinate, order in self.equation.orders().items() if order]

    @property
    def kept(self) -> list[int]:
        """Numbers of the terms that were not left out."""
        return self.active.nonzero()[:, 0].tolist()

    def residual(self, u: Derivatives) -> Tensor:
        """At points, (N, 1); the coefficients are set to the best ones."""
        u_t, columns = u.of(self.equation.time, 1), self.columns(u, self.kept)
        alpha = best_coefficients(columns.detach(), u_t.detach())
        self._set(alpha)
        return u_t - columns @ alpha

    def residual_of(self, u: Derivatives) -> Tensor:
        """At points, (N, 1), with the coefficients as they are."""
        return self.equation.residual_of(u)

    def eliminate(self, u: Derivatives, growth: float) -> list[str]:
        """Leave out terms as long as each makes the squared residual grow by less than a factor; returns names."""
        dropped: list[str] = []
        u_t, present = u.of(self.equation.time, 1), self._loss(u, self.kept)
        while len(self.kept) > 1:
            without = {k: self._loss(u, [j for j in self.kept if j != k]) for k in self.kept}
            k = min(without, key=without.__getitem__)
            if without[k] > growth * present:
                break
            self.active[k], present = False, without[k]
            dropped.append(self.equation.terms[k].text)
        if dropped:
            self._set(best_coefficients(self.columns(u, self.kept), u_t))
        return dropped

    def keep_significant(self, known: Uncertainty, least: float) -> list[str]:
        """Leave out terms whose coefficients are less than so many standard errors; returns names.

        Args:
            known: of the coefficients of the terms that are kept.
            least: standard errors.
        """
        kept = self.kept
        left = {kept[k] for k in known.significant(self.equation.alpha[self.active], least)}
        dropped = [k for k in kept if k not in left]
        self.active[dropped] = False
        self.equation.alpha[dropped] = 0.0
        return [self.equation.terms[k].text for k in dropped]

    def text(self) -> str:
        """The equation in one line, or why there is none: eliminations always leave a term, so all are 0 only if the
        weight of the equation was 0 throughout.
        """
        if self.equation.alpha.any():
            return self.equation.text()
        return "no term is significant: the training ended before the equation was fitted."

    def _set(self, alpha: Tensor) -> None:
        self.equation.alpha.zero_()
        self.equation.alpha[self.active] = alpha[:, 0].to(self.equation.alpha)

    def write(self, path: Path) -> None:
        """Write the coefficients of all terms as JSON."""
        texts = [term.text for term in self.equation.terms]
        write_sealed(path, dict(zip(texts, self.equation.alpha.tolist(), strict=True)))

    def read(self, path: Path) -> None:
        """Read what :meth:`write` wrote; terms whose coefficient is 0 are left out."""
        try:
            numbers = read_sealed(path)
            values = [float(numbers[term.text]) for term in self.equation.terms]
        except (OSError, ValueError, KeyError, TypeError) as error:
            lack = "does not have the coefficients of the equation"
            raise DataError(why_unfit(path, error, lack, "train again")) from None
        alpha = torch.tensor(values, dtype=torch.float64)
        self.equation.alpha.copy_(alpha)
        self.active.copy_(alpha != 0)

    def _loss(self, u: Derivatives, kept: Sequence[int]) -> float:
        u_t, columns = u.of(self.equation.time, 1), self.columns(u, kept)
        return (u_t - columns @ best_coefficients(columns, u_t)).square().mean().item()

    def columns(self, u: Derivatives, kept: Sequence[int]) -> Tensor:
        """Terms of these numbers at points, (N, terms)."""
        return torch.cat([self.equation.terms[k](u) for k in kept], dim=1)


def best_coefficients(columns: Tensor, target: Tensor) -> Tensor:
    """Least squares with columns of very different size, (N, terms) and (N, 1) to (terms, 1)."""
    sizes = columns.square().mean(0).sqrt().clamp_min(torch.finfo(columns.dtype).tiny)
    return torch.linalg.lstsq(columns / sizes, target).solution / sizes[:, None]
