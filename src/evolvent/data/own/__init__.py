"""Your own data: folders of images, archives, tables, arrays and PyTorch data sets, as trainings take them."""

from evolvent.data.own.archive import from_npz, write_npz
from evolvent.data.own.arrays import from_arrays
from evolvent.data.own.dataset import from_dataset
from evolvent.data.own.example import write_example
from evolvent.data.own.folder import from_folder
from evolvent.data.own.parts import OwnDataWarning
from evolvent.data.own.point_set import PointData
from evolvent.data.own.table import from_csv

__all__ = [
    "OwnDataWarning",
    "PointData",
    "from_arrays",
    "from_csv",
    "from_dataset",
    "from_folder",
    "from_npz",
    "write_example",
    "write_npz",
]
