"""Write the images of the data set ``ripples``: python make_ripples.py

An image is a wave on a periodic square, with random amplitude and phase; its class is the direction of the wave.
"""

from pathlib import Path

import numpy as np

SIZE = 12
WAVE_NUMBERS = ((0, 1), (1, 0), (1, 1), (1, -1))  # those of "across", "down", "rising" and "falling"
FILE = Path(__file__).parent / "src" / "evolvent_example" / "ripples_data" / "ripples.npz"


def draw(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (count, 1, SIZE, SIZE) and their classes (count,), equally many of each."""
    labels = np.arange(count) % len(WAVE_NUMBERS)
    wave_numbers = np.array(WAVE_NUMBERS)[labels] * rng.integers(1, 3, (count, 1))
    phase = rng.uniform(0, 2 * np.pi, count)
    amplitude = rng.uniform(40, 120, count)
    rows, columns = np.mgrid[:SIZE, :SIZE] * 2 * np.pi / SIZE
    down, across = wave_numbers.T[:, :, None, None]
    waves = np.cos(down * rows + across * columns + phase[:, None, None])
    images = 128 + amplitude[:, None, None] * waves
    return images.round().astype(np.uint8)[:, None], labels


def main() -> None:
    rng = np.random.default_rng(0)
    x_train, y_train = draw(rng, 96)
    x_test, y_test = draw(rng, 32)
    np.savez_compressed(FILE, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


if __name__ == "__main__":
    main()
