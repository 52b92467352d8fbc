"""Data sets by name, sources served in batches, augmentation, splits.

>>> from evolvent import data
>>> digits = data.load("digits")
>>> len(digits.train), digits.classes[:3]
(1437, ('0', '1', '2'))
"""

from evolvent._core.randomness import normal, uniform
from evolvent.data.augment import Preprocess, per_pixel_mean, random_crop, random_exposure, random_flip
from evolvent.data.catalogue import CatalogueEntry, describe, list_datasets
from evolvent.data.checking import CheckReport, FileReport, PartReport, check
from evolvent.data.download import Progress
from evolvent.data.fetching import fetch
from evolvent.data.image_set import ImageBatch, ImageData, ImageSet, ImageSource
from evolvent.data.loading import load
from evolvent.data.locations import Location, cache_folder, locate
from evolvent.data.noise import add_noise
from evolvent.data.points import PointCloud
from evolvent.data.reduction import majority_of_squares, mean_of_squares, reduced
from evolvent.data.source import Batches, Material, Source, TensorSource
from evolvent.data.splits import split

__all__ = [
    "Batches",
    "CatalogueEntry",
    "CheckReport",
    "FileReport",
    "ImageBatch",
    "ImageData",
    "ImageSet",
    "ImageSource",
    "Location",
    "Material",
    "PartReport",
    "PointCloud",
    "Preprocess",
    "Progress",
    "Source",
    "TensorSource",
    "add_noise",
    "cache_folder",
    "check",
    "describe",
    "fetch",
    "list_datasets",
    "load",
    "locate",
    "majority_of_squares",
    "mean_of_squares",
    "normal",
    "per_pixel_mean",
    "random_crop",
    "random_exposure",
    "random_flip",
    "reduced",
    "split",
    "uniform",
]
