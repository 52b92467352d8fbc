"""Which of the processes that share a run this one is."""

from __future__ import annotations

import os


def is_main_process() -> bool:
    """Whether this is the process that writes files, under any launcher (Lightning's, torchrun, SLURM)."""
    ranks = (os.environ.get(name, "0") for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK"))
    return all(rank == "0" for rank in ranks)
