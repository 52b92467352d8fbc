"""A small loss with a wrong solution is flagged."""

import pytest

import evolvent as ev
from evolvent.experiments.record import read_metrics


@pytest.mark.parametrize("name", ["allen-cahn", "kuramoto-sivashinsky"])
def test_a_network_that_fits_too_few_points_is_not_trusted(name, tmp_path, quick):
    """Thirty points are fitted until the loss is small; the solution between them is wrong."""
    few = quick(24, "data.points=30", "data.face_points=20")
    found = ev.solve(name, second=False, reference=False, settings=few, out=tmp_path / "run")
    losses = read_metrics(tmp_path / "run" / "metrics.csv")
    assert losses["train_loss_equation"][-1] < 1e-3 * losses["train_loss_equation"][0]
    failed = {check.name for check in found.trust.checks if not check.passed}
    assert {"fresh over training residual", "linearised error"} <= failed
    assert found.trust.verdict.startswith("Do not trust it: the residual on fresh points is")


def test_a_short_training_is_not_trusted(tmp_path, quick):
    found = ev.solve("allen-cahn", second=False, reference=False, settings=quick(3), out=tmp_path / "run")
    assert not found.trust.trusted
    assert "linearised equation it is off by" in found.trust.verdict
