"""Reading a learned equation: as text, as LaTeX, how much it explains, and in a file beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from evolvent._core.errors import ModelFileError
from evolvent._core.seals import read_sealed, why_unfit, write_sealed
from evolvent.equations import Derivatives, GoverningEquation
from evolvent.tasks.findings import Table

_FILE = "equation.json"


def share_explained(equation: GoverningEquation, found: Sequence[Derivatives]) -> float:
    r"""How much of :math:`h_t` the equation accounts for, :math:`1 - \sum g^2 / \sum h_t^2`; 1 is all of it."""
    left = sum(equation.residual_of(u, fixed=True).double().square().sum().item() for u in found)
    total = sum(u.of(equation.time, 1).double().square().sum().item() for u in found)
    return 1 - left / total if total else 0.0


def sentence(equation: GoverningEquation, share: float, threshold: float) -> str:
    """The equation in one sentence."""
    kept, rate = equation.sparsity(threshold), f"{equation.symbol}_{equation.time}"
    return (
        f"The learned equation is {equation.text(threshold)}; {kept.kept} of {kept.total} terms have coefficients of "
        f"at least {threshold:g}, and it explains {100 * share:.1f} % of {rate} on test images."
    )


def equation_tables(equation: GoverningEquation, share: float, threshold: float) -> list[Table]:
    """The equation as text and LaTeX, and the coefficient of every term."""
    summary = Table(
        "Governing equation",
        ["", "value"],
        [
            ["equation", equation.text(threshold)],
            ["LaTeX", equation.latex(threshold)],
            ["terms that survive", str(equation.sparsity(threshold))],
            [f"share of {equation.symbol}_{equation.time} explained", f"{100 * share:.1f} %"],
        ],
    )
    dropped = set(equation.sparsity(threshold).dropped)
    pairs = zip(equation.terms, equation.alpha.tolist(), strict=True)
    rows = [[term.text, number, "no" if term.text in dropped else "yes"] for term, number in pairs]
    return [summary, Table("Coefficients of the governing equation", ["term", "coefficient", "survives"], rows)]


def save_equation(equation: GoverningEquation, folder: Path) -> None:
    """Write the coefficients, by term, beside a saved model, which does not need them."""
    values = dict(zip((term.text for term in equation.terms), equation.alpha.tolist(), strict=True))
    found = {"equation": equation.text(), "latex": equation.latex(), "coefficients": values}
    write_sealed(folder / _FILE, found)


@torch.no_grad()
def load_equation(equation: GoverningEquation, folder: Path) -> None:
    """Read what :func:`save_equation` wrote into an equation with the same terms."""
    path = folder / _FILE
    try:
        values = read_sealed(path)["coefficients"]
        numbers = [float(values[term.text]) for term in equation.terms]
    except (OSError, ValueError, KeyError, TypeError) as error:
        lack = "does not hold the coefficients of this equation"
        raise ModelFileError(why_unfit(path, error, lack, "train again")) from None
    equation.alpha.copy_(torch.tensor(numbers, dtype=torch.float64))
