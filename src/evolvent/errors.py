"""Errors that a user can act on; see :mod:`evolvent._core.errors`."""

from evolvent._core.errors import (
    ConfigError,
    DataError,
    EvolventError,
    ModelFileError,
    NameClashError,
    NonFiniteError,
    PeerError,
    ShapeError,
    StorageError,
    UnknownNameError,
)

__all__ = [
    "ConfigError",
    "DataError",
    "EvolventError",
    "ModelFileError",
    "NameClashError",
    "NonFiniteError",
    "PeerError",
    "ShapeError",
    "StorageError",
    "UnknownNameError",
]
