"""The examples run as they stand, and do what they say."""

from __future__ import annotations

import re
from pathlib import Path

SHOWN_WITHOUT_SCREEN = "FigureCanvasAgg is non-interactive"


def test_example_runs(example, run_script):
    printed = run_script(example, ignored=[SHOWN_WITHOUT_SCREEN])
    claims = {
        "train_by_hand": _accuracy_above_90,
        "plot_feature_trajectory": _accuracy_above_90,
        "plot_few_labels": _few_labels_are_enough,
        "plot_hamiltonian_energy": _verlet_keeps_energy,
        "plot_step_size": _orders_are_one_one_two,
        "plot_diffusion_of_points": _growth_is_as_predicted,
    }
    claims[Path(example).stem](printed)


def _accuracy_above_90(printed: str) -> None:
    assert float(re.findall(r"test accuracy ([\d.]+)%", printed)[-1]) > 90


def _few_labels_are_enough(printed: str) -> None:
    assert min(map(float, re.findall(r"accuracy ([\d.]+)%", printed))) > 90


def _verlet_keeps_energy(printed: str) -> None:
    low, high = map(float, re.findall(r"Verlet .* between ([\d.]+) and ([\d.]+)", printed)[0])
    assert 0.9 < low <= high < 1.1
    assert float(re.findall(r"Euler .* between ([\d.]+)", printed)[0]) > 2


def _orders_are_one_one_two(printed: str) -> None:
    assert [round(float(order), 1) for order in re.findall(r"observed order ([\d.]+)", printed)] == [1.0, 1.0, 2.0]


def _growth_is_as_predicted(printed: str) -> None:
    predicted, measured = map(float, re.findall(r"rate (\S+), measured (\S+)", printed)[0])
    assert abs(measured - predicted) < 0.02 * predicted
    assert "13 parameters" in printed
