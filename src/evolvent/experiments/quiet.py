"""Lightning without its hints about hardware, workers and products, on which a user of recipes cannot act."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("lightning.fabric", "lightning_fabric")


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Within the block Lightning logs errors only and warns of nothing."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning_fabric")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
