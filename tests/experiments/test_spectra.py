"""Spectra recorded in training: those of the weights, after each epoch, the same after a power cut."""

import numpy as np
import pytest
import torch

from evolvent import load
from evolvent.analysis import nonlocal_spectra, weight_spectrum
from evolvent.errors import ConfigError
from evolvent.experiments import training
from evolvent.experiments.grid import run_grid
from evolvent.experiments.spectra import SPECTRA, SpectrumHistory, read_spectra, write_spectra

MODEL = {"name": "nonlocal_hamiltonian", "options": {"channels": [4, 6], "blocks": 1, "step_size": 0.2}}


@pytest.fixture
def recipe(tiny):
    return tiny(model=MODEL, training={"epochs": 3})


def test_a_run_records_the_spectra_of_every_epoch(recipe, tmp_path):
    run_grid(recipe, tmp_path / "run")
    found = read_spectra(tmp_path / "run" / SPECTRA)
    assert found is not None
    assert found.epochs == [0, 1, 2, 3]
    assert list(found.real_parts) == list(found.symmetric) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [row.shape for row in found.symmetric[2, 1]] == [(6,)] * 4
    last = nonlocal_spectra(load(tmp_path / "run" / "model"))  # without held-out images the last model is kept
    for place, spectrum in last.items():
        np.testing.assert_allclose(found.real_parts[place][-1], spectrum.real_parts, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.symmetric[place][-1], spectrum.symmetric, rtol=1e-5, atol=1e-6)
    assert all(not np.array_equal(rows[0], rows[-1]) for rows in found.symmetric.values())  # all of them learn


def test_networks_without_nonlocal_blocks_leave_no_record(tiny, tmp_path):
    run_grid(tiny(training={"epochs": 1}), tmp_path / "run")
    assert not (tmp_path / "run" / SPECTRA).exists()
    assert read_spectra(tmp_path / "run" / SPECTRA) is None


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["in step", "record ahead of the checkpoint"])
def test_a_resumed_run_records_what_an_uninterrupted_one_does(recipe, tmp_path, power_cut, monkeypatch, seconds):
    run_grid(recipe, tmp_path / "whole")
    monkeypatch.setattr(training, "_WRITE_SECONDS", seconds)  # after the first epoch, all or none are written
    with power_cut().expected:
        run_grid(recipe, tmp_path / "cut", observer=power_cut(step=12))
    run_grid(recipe, tmp_path / "cut", resume=True)
    whole, cut = (read_spectra(tmp_path / name / SPECTRA) for name in ("whole", "cut"))
    assert whole
    assert cut
    assert whole.epochs == cut.epochs
    for place, rows in whole.symmetric.items():
        np.testing.assert_array_equal(np.stack(rows), np.stack(cut.symmetric[place]))


def test_what_is_written_is_read_and_can_be_cut(tmp_path):
    history = SpectrumHistory()
    for epoch in range(4):
        history.add(epoch, {(1, 2): weight_spectrum(torch.randn(3, 3))})
    write_spectra(tmp_path / SPECTRA, history)
    found = read_spectra(tmp_path / SPECTRA)
    assert found is not None
    assert found.epochs == [0, 1, 2, 3]
    np.testing.assert_array_equal(np.stack(found.real_parts[1, 2]), np.stack(history.real_parts[1, 2]))
    assert found.until(1).epochs == [0, 1]
    assert len(found.until(1).symmetric[1, 2]) == 2


def test_a_record_of_a_later_format_is_refused(tmp_path):
    np.savez(tmp_path / SPECTRA, format=2, epochs=[0])
    with pytest.raises(ConfigError, match=r"spectra.npz has format 2, this version reads 1"):
        read_spectra(tmp_path / SPECTRA)
