"""Larochelle's text and tables: read back, and refused when they are something else."""

import gzip

import numpy as np
import pytest

from evolvent.data import load
from evolvent.data.formats.tables import read_csv
from evolvent.errors import DataError


def _write_amat(folder, rows):
    for part in ("train_valid", "test"):
        np.savetxt(folder / f"mnist_all_rotation_normalized_float_{part}.amat", rows)


def test_amat_is_read_back(tmp_path, rng):
    pixels = rng.integers(0, 256, (5, 784))
    _write_amat(tmp_path, np.column_stack([pixels / 255, np.arange(5)]))
    data = load("mnist-rot", tmp_path)
    np.testing.assert_array_equal(data.train.images.reshape(5, 784), pixels)
    assert data.test.labels.tolist() == [0, 1, 2, 3, 4]
    assert "original of Larochelle" in data.source


@pytest.mark.parametrize("rows", [np.zeros((3, 10)), np.full((3, 785), 2.0), np.full((3, 785), 0.5)])
def test_wrong_amat_is_refused(tmp_path, craft, rows):
    _write_amat(tmp_path, rows)
    with pytest.raises(DataError, match=r"train_valid\.amat") as error:
        load("mnist-rot", tmp_path)
    craft.one_line(error)


@pytest.mark.parametrize("text", ["1,2,3\n", "0,0,0,17,1\n" * 9, "0,0,0,1,1\n", "a,b\n", "0,0,0,0,1\n0,0\n"])
def test_wrong_tables_are_refused(tmp_path, craft, text):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=r"table\.csv\.gz") as error:
        read_csv(path, top=16, test_count=4)
    craft.one_line(error)
