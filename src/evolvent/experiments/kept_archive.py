"""The archive that a run keeps of arrays that lie in no file."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from evolvent._core.errors import ConfigError, EvolventError
from evolvent.data import ImageData, PointData, from_npz, write_npz


@dataclass(frozen=True)
class Archive:
    """Data of arrays in memory, and the path of the archive that they are to be found in later."""

    path: Path
    data: ImageData | PointData

    def refuse_other(self) -> None:
        """Refuse to replace a file of other data, or of anything else.

        Raises:
            ConfigError: if there is one.
        """
        if self.path.exists() and not self._is_written():
            raise ConfigError(
                f"{self.path} is there already and holds something else than these data. Choose another folder "
                "(out=...), or move the file away."
            )

    def write(self) -> None:
        """Write the archive, unless it is there; call it where :meth:`refuse_other` has refused nothing."""
        if not self.path.exists():
            write_npz(self.path, self.data)

    def _is_written(self) -> bool:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is looked at, not trained on
                return from_npz(self.path).fingerprint == self.data.fingerprint
        except EvolventError:
            return False
