"""The section of spectra: drawn from what training recorded, absent without a record, robust to what is not finite."""

import pytest
import torch

from evolvent.analysis import map_spectra, weight_spectrum
from evolvent.experiments.spectra import SPECTRA, SpectrumHistory, write_spectra
from evolvent.networks import create_model
from evolvent.report.analyses import analysis_path, write_analysis
from evolvent.report.runs import list_series, read_runs
from evolvent.report.weight_spectra import spectra_section


@pytest.fixture
def history() -> SpectrumHistory:
    found = SpectrumHistory()
    for epoch in range(5):
        maps = {(b, k): weight_spectrum(torch.randn(4 * b, 4 * b) / (1 + epoch)) for b in (1, 2) for k in (1, 2)}
        found.add(epoch, maps)
    return found


def test_every_map_of_every_variant_has_a_panel(grid, history):
    folders = sorted((grid / "cells").iterdir())
    for folder in folders:
        write_spectra(folder / SPECTRA, history)
    all_series = list_series(read_runs([grid]))
    html = spectra_section(all_series)
    assert html.count("<svg") == 2 * (2 + 4 * len(all_series))  # shares of two blocks, then four maps of each variant
    assert "Real parts of the eigenvalues" in html
    assert "Eigenvalues of the symmetric part" in html
    share = (history.symmetric[2, 1][-1] > 0).mean()
    assert f"Block 2, K1: 8 eigenvalues, + {share:.2f}" in html
    assert "NaN" not in html


def test_without_a_record_there_is_no_section(grid):
    assert spectra_section(list_series(read_runs([grid]))) == ""


def test_weights_that_are_not_finite_are_drawn_as_nothing(grid, history):
    history.add(5, {place: weight_spectrum(torch.full((4 * place[0],) * 2, torch.nan)) for place in history.symmetric})
    folder = min((grid / "cells").iterdir())
    write_spectra(folder / SPECTRA, history)
    assert "<svg" in spectra_section(list_series(read_runs([grid])))


def test_maps_of_the_trained_network_are_listed(grid):
    model = create_model("nonlocal_hamiltonian", channels=(4,), blocks=1, image_size=8)
    path = analysis_path(min((grid / "cells").iterdir()), "spectra")
    write_analysis(path, "spectra", map_spectra(model, torch.zeros(1, 3, 8, 8)))
    html = spectra_section(list_series(read_runs([grid])))
    assert "4 maps of the trained network" in html
    assert "8×8" in html
    assert "block 1, K2" in html
