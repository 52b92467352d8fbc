"""The data set ``ripples``: 128 images of periodic waves, which come with this package."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolvent import data


def read_ripples(files: Sequence[Path]) -> data.Arrays:
    with np.load(files[0], allow_pickle=False) as stored:
        return data.Arrays(stored["x_train"], stored["y_train"], stored["x_test"], stored["y_test"])


data.register_dataset(
    data.CatalogueEntry(
        name="ripples",
        title="Waves in four directions, periodic",
        shape=(1, 12, 12),
        classes=("across", "down", "rising", "falling"),
        class_count=4,
        train_count=96,
        test_count=32,
        layouts=(data.Layout("evolvent-example", (("ripples.npz",),), read_ripples),),
        home="https://example.org/evolvent-example",
        shipped=(data.Shipped("evolvent-example", "evolvent_example", "ripples_data", "pip install evolvent-example"),),
    )
)
