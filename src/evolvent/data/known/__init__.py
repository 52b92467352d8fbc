"""The data sets that are known by name, registered when this package is imported."""

from evolvent.data.datasets import register_dataset
from evolvent.data.known.mnist_family import MNIST_FAMILY
from evolvent.data.known.photographs import PHOTOGRAPHS
from evolvent.data.known.street_scenes import STREET_SCENES

for _entry in (*MNIST_FAMILY, *PHOTOGRAPHS, *STREET_SCENES):
    register_dataset(_entry)
