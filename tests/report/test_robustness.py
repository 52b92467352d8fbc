"""The sections on robustness and masked gradients: medians, pictures, verdicts; absent without an analysis."""

import pytest
import torch

from evolvent.analysis import MaskingAudit, Robustness
from evolvent.analysis.robustness import Check, Example, PerturbedAccuracy
from evolvent.report.analyses import analysis_path, write_analysis
from evolvent.report.robustness import masking_section, robustness_section
from evolvent.report.runs import list_series, read_runs

GREY = torch.full((3, 8, 8), 128, dtype=torch.uint8)


def found(seed: int) -> Robustness:
    accuracies = [
        PerturbedAccuracy("clean", None, 0.9, None, 0.9, 0.01),
        PerturbedAccuracy("pgd", 3 / 255, 0.5 + 0.1 * seed, None, 0.5, 0.02),
    ]
    examples = [
        Example(title, row, GREY, GREY, 42.5, label=0, predicted=k, confidence=0.75)
        for k, title in enumerate(("clean", "pgd 3/255"))
        for row in (0, 5)
    ]
    return Robustness(accuracies, 1000, examples, ["cat", "dog <big>"])


def audited(seed: int) -> MaskingAudit:
    checks = [Check("gradients", True, "0.0 % of the images have no usable gradient"),
              Check("transfer", seed == 0, "an attack on a substitute leaves 3.0 %, PGD 50.0 %"),
              Check("expectation", None, "answers are not random")]  # fmt: skip
    verdict = "trust the figure: all is well" if seed == 0 else "do not trust the figure: transfer"
    return MaskingAudit(seed == 0, verdict, 3 / 255, 100, {"PGD": 0.5}, [0.01, 0.1, 1.0], [0.5, 0.2, 0.0], checks)


@pytest.fixture
def all_series(grid):
    for folder in (grid / "cells").iterdir():
        seed = int(folder.name[-1])
        write_analysis(analysis_path(folder, "robustness"), "robustness", found(seed))
        write_analysis(analysis_path(folder, "masking"), "masking", audited(seed))
    return list_series(read_runs([grid]))


def test_every_perturbation_has_a_row_with_medians_over_seeds(all_series):
    html = robustness_section(all_series).replace("\N{NO-BREAK SPACE}", " ")
    assert html.count('<th scope="row">pgd 3/255</th>') == 4 + len(all_series)  # four tables, and pictures
    assert "1,000 test images" in html
    assert "medians over seeds" in html
    seeds = len(all_series[0].records)
    assert f"{50 + 10 * (seeds - 1) / 2:.2f} %" in html
    assert "Top-5 accuracy" in html


def test_pictures_show_clean_changed_and_change_with_answers(all_series):
    html = robustness_section(all_series).replace("\N{NO-BREAK SPACE}", " ")
    assert html.count("<img") == len(all_series) * 2 * 3
    assert "cat 75 %" in html
    assert "dog &lt;big&gt; 75 %" in html
    assert "× 42" in html
    assert "True classes: 1. cat, 2. cat." in html


def test_the_verdict_is_that_of_the_seed_that_fails(all_series):
    html = masking_section(all_series)
    assert "do not trust the figure: transfer" in html
    assert f"of {len(all_series[0].records)} seeds" in html
    assert "<strong>failed</strong>" not in html  # the checks shown are those of the first seed
    assert html.count("<svg") == 1
    assert html.count("answers are not random") == len(all_series)


def test_without_an_analysis_or_examples_there_is_nothing(grid, all_series):
    for folder in (grid / "cells").iterdir():
        write_analysis(analysis_path(folder, "robustness"), "robustness", Robustness(found(0).accuracies, 10))
    assert "<img" not in robustness_section(all_series)
    for folder in (grid / "cells").iterdir():
        for what in ("robustness", "masking"):
            analysis_path(folder, what).unlink()
    assert robustness_section(all_series) == masking_section(all_series) == ""
