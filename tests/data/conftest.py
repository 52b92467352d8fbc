"""Small files in every format, written by the tests themselves."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from evolvent.data import ImageSet

IDX_STEMS = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.fixture(autouse=True)
def empty_surroundings(monkeypatch, tmp_path):
    """No test sees the user's folders, except through :func:`data_folder`."""
    monkeypatch.delenv("EVOLVENT_DATA", raising=False)
    monkeypatch.setenv("EVOLVENT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def pictures(rng) -> ImageSet:
    images = torch.from_numpy(rng.integers(0, 256, (60, 3, 8, 8), dtype=np.uint8))
    return ImageSet(images, torch.arange(60) % 5, tuple("abcde"))


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx_set(folder: Path, rng, zipped: bool = True, counts=(20, 10)) -> list[np.ndarray]:
    """Four MNIST-like files; returns their arrays in order."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = []
    for count in counts:
        arrays += [rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10]
    for stem, array in zip(IDX_STEMS, arrays, strict=True):
        content = idx_bytes(array)
        path = folder / (f"{stem}.gz" if zipped else stem)
        path.write_bytes(gzip.compress(content) if zipped else content)
    return arrays


def python2_pickle(data: np.ndarray, labels: list[int], label_key: bytes) -> bytes:
    """The bytes Python 2 wrote for CIFAR: protocol 2, byte strings, numpy's old module name."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(value)) + value

    ending = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + ending
    shape = b"J" + struct.pack("<i", data.shape[0]) + b"J" + struct.pack("<i", data.shape[1]) + b"\x86"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
        b"(K\x01" + shape + dtype + b"\x89" + text(data.tobytes()) + b"tb"
    )
    listing = b"](" + b"".join(b"K" + bytes((label,)) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(label_key) + listing + b"u."


def write_cifar_batch(path: Path, rng, count: int, label_key: bytes, classes: int = 10) -> tuple[np.ndarray, list[int]]:
    data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    labels = [int(label) for label in rng.integers(0, classes, count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(python2_pickle(data, labels, label_key))
    return data, labels


class Malicious:
    def __reduce__(self):
        return os.system, ("exit 3",)


def malicious_pickle() -> bytes:
    return pickle.dumps({b"data": Malicious(), b"labels": []}, protocol=3)


def jpeg_bytes(rng, side: int, mode: str = "RGB") -> bytes:
    from PIL import Image

    pixels = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, format="JPEG")
    return buffer.getvalue()


def one_line(error: pytest.ExceptionInfo) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.fixture
def craft() -> SimpleNamespace:
    """The writers above; test files cannot import a conftest."""
    return SimpleNamespace(
        IDX_STEMS=IDX_STEMS,
        idx_bytes=idx_bytes,
        idx_set=write_idx_set,
        cifar_batch=write_cifar_batch,
        python2_pickle=python2_pickle,
        malicious_pickle=malicious_pickle,
        jpeg=jpeg_bytes,
        one_line=one_line,
    )
