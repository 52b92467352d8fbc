"""What a run folder remembers of the data, so that a change of them is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evolvent._core.errors import DataError
from evolvent.data import Material
from evolvent.experiments.record import read_json


def data_record(material: Material) -> dict[str, Any]:
    """What ``environment.json`` holds of the data: name, origin, and of the user's own a fingerprint."""
    return {"name": material.name, "origin": material.origin, "fingerprint": material.fingerprint}


def refuse_changed_data(folder: Path, material: Material) -> None:
    """Refuse to continue a training on other data than it began with.

    Raises:
        DataError: says so and what to do.
    """
    if _changed(folder, material):
        raise DataError(
            f"{material.name} has changed since the training in {folder} began ({material.origin}). Restore the data, "
            "or choose another --out to start again."
        )


def data_warning(folder: Path, material: Material) -> str:
    """One line if a training's data have changed since; else empty."""
    if not _changed(folder, material):
        return ""
    return f"{material.name} has changed since the training; figures are those of the data as they are now"


def _changed(folder: Path, material: Material) -> bool:
    if not material.fingerprint:  # not the user's own data
        return False
    recorded = ((read_json(folder / "environment.json") or {}).get("data") or {}).get("fingerprint")
    return bool(recorded and recorded != material.fingerprint)
