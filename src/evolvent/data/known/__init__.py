"""The data sets that come with the library."""

from evolvent.data.known.citations import CITATIONS
from evolvent.data.known.mnist_family import MNIST_FAMILY
from evolvent.data.known.photographs import PHOTOGRAPHS
from evolvent.data.known.street_scenes import STREET_SCENES

KNOWN_SETS = (*MNIST_FAMILY, *PHOTOGRAPHS, *STREET_SCENES, *CITATIONS)

__all__ = ["KNOWN_SETS"]
