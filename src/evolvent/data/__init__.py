"""Data sets by name, sources served in batches, augmentation, splits.

>>> from evolvent import data
>>> digits = data.load("digits")
>>> len(digits.train), digits.classes[:3]
(1437, ('0', '1', '2'))
"""

from evolvent._core.files import cache_folder
from evolvent._core.randomness import normal, uniform
from evolvent.data.augment import add_noise, random_crop, random_exposure, random_flip, random_rotation, rotate
from evolvent.data.brownian import BrownianPaths
from evolvent.data.checking import CheckReport, FileReport, PartReport, check, check_own
from evolvent.data.collocation import CollocationPoints, Samples
from evolvent.data.datasets import CatalogueEntry, Download, Shipped, describe, list_datasets, register_dataset
from evolvent.data.densities import (
    DENSITIES,
    Density,
    DensityPairs,
    GaussianMixture,
    Planar,
    make_density,
    register_density,
)
from evolvent.data.episodes import EpisodeBatch, Episodes
from evolvent.data.feature_file import FeatureSet, read_features, write_features
from evolvent.data.fetching import DownloadProgress, fetch
from evolvent.data.formats.arrays import Arrays, GraphArrays
from evolvent.data.graph_set import GraphData, NodeSplit, load_graph
from evolvent.data.image_files import ImageFiles
from evolvent.data.image_set import ImageBatch, ImageData, ImageSet, ImageSource
from evolvent.data.known import KNOWN_SETS
from evolvent.data.layout import Layout
from evolvent.data.locations import Location, locate
from evolvent.data.own import (
    OwnDataWarning,
    PointData,
    from_arrays,
    from_csv,
    from_dataset,
    from_folder,
    from_npz,
    write_example,
    write_npz,
)
from evolvent.data.picture_readers import CentredSquare, PictureReader, Stretched, picture_reader
from evolvent.data.points import PointCloud
from evolvent.data.preprocess import (
    Mean,
    Preprocess,
    majority_of_squares,
    mean_image,
    mean_of_squares,
    per_pixel_mean,
    reduced,
)
from evolvent.data.reading import load
from evolvent.data.source import Batches, Material, Source, TensorSource
from evolvent.data.splits import split, stratified

__all__ = [
    "DENSITIES",
    "Arrays",
    "Batches",
    "BrownianPaths",
    "CatalogueEntry",
    "CentredSquare",
    "CheckReport",
    "CollocationPoints",
    "Density",
    "DensityPairs",
    "Download",
    "DownloadProgress",
    "EpisodeBatch",
    "Episodes",
    "FeatureSet",
    "FileReport",
    "GaussianMixture",
    "GraphArrays",
    "GraphData",
    "ImageBatch",
    "ImageData",
    "ImageFiles",
    "ImageSet",
    "ImageSource",
    "Layout",
    "Location",
    "Material",
    "Mean",
    "NodeSplit",
    "OwnDataWarning",
    "PartReport",
    "PictureReader",
    "Planar",
    "PointCloud",
    "PointData",
    "Preprocess",
    "Samples",
    "Shipped",
    "Source",
    "Stretched",
    "TensorSource",
    "add_noise",
    "cache_folder",
    "check",
    "check_own",
    "describe",
    "fetch",
    "from_arrays",
    "from_csv",
    "from_dataset",
    "from_folder",
    "from_npz",
    "list_datasets",
    "load",
    "load_graph",
    "locate",
    "majority_of_squares",
    "make_density",
    "mean_image",
    "mean_of_squares",
    "normal",
    "per_pixel_mean",
    "picture_reader",
    "random_crop",
    "random_exposure",
    "random_flip",
    "random_rotation",
    "read_features",
    "reduced",
    "register_dataset",
    "register_density",
    "rotate",
    "split",
    "stratified",
    "uniform",
    "write_example",
    "write_features",
    "write_npz",
]

for _entry in KNOWN_SETS:
    register_dataset(_entry)
