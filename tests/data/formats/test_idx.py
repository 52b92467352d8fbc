"""IDX: what is read is what was written, and everything else is refused in one line."""

import gzip

import numpy as np
import pytest

from evolvent.data import load
from evolvent.data.formats.idx import read_idx
from evolvent.errors import DataError
from tests_data_support import IDX_STEMS, idx_bytes, one_line, write_idx_set
