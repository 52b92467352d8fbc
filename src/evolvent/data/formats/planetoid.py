"""Citation graphs of Planetoid (Yang, Cohen, Salakhutdinov 2016): the published pickles, and an archive without pickle.

Raw: ``ind.NAME.x``, ``tx``, ``allx`` (scipy's sparse matrices), ``y``, ``ty``, ``ally`` (one-hot rows), ``graph`` (a
dictionary from a node to its neighbours), all pickled by Python 2, and ``test.index`` (text). The first nodes are those
of ``allx``, of which the first are those of ``x``; node ``test.index[k]`` has row k of ``tx``, and nodes among these
that have none are without features and label.
npz: ``edges`` (2, E), the features as ``x_indptr``, ``x_indices``, ``x_data`` and ``x_shape``, ``y`` (-1 for none), and
the split ``train_idx``, ``val_idx``, ``test_idx``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolvent._core.errors import DataError
from evolvent.data.formats import npz, pickles
from evolvent.data.formats.arrays import GraphArrays, parsing

RAW_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

_FIELDS = frozenset(
    {"edges", "x_indptr", "x_indices", "x_data", "x_shape", "y", "train_idx", "val_idx", "test_idx"}
)  # fmt: skip
_VALIDATION = 500  # nodes after those of training, in the published split


class _Csr:
    """Stands for scipy's matrix of compressed rows: what was stored of it, and no code."""

    indptr: Any
    indices: Any
    data: Any

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise DataError("a sparse matrix without its parts")
        parts = {str(key): value for key, value in state.items()}
        for name in ("indptr", "indices", "data"):
            if not isinstance(parts.get(name), np.ndarray) or parts[name].ndim != 1:
                raise DataError(f"a sparse matrix whose {name} is not an array of one axis")
        self.indptr, self.indices, self.data = parts["indptr"], parts["indices"], parts["data"]
        self.shape = parts.get("_shape", parts.get("shape"))


def _rebuilt(kind: Any, base: Any, state: Any) -> _Csr:
    """What ``copyreg._reconstructor`` does, for the one class that needs it."""
    if kind is not _Csr or base is not object or state is not None:
        raise DataError("an object that is not a sparse matrix")
    return _Csr()


def _lists(kind: Any = list, *rest: Any) -> dict[Any, Any]:
    """Stands for ``defaultdict(list)``; a plain dictionary does."""
    if kind is not list or rest:
        raise DataError("a dictionary of something else than lists")
    return {}


def _bytes(text: Any, encoding: Any) -> bytes:
    """What ``_codecs.encode`` does in the pickles that Python 3 writes for Python 2."""
    if not isinstance(text, str) or encoding != "latin1":
        raise DataError("an encoded text that stands for no bytes")
    return text.encode("latin1")


_ADMITTED: Mapping[tuple[str, str], Any] = {
    **pickles.ARRAYS,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("_codecs", "encode"): _bytes,
    ("copy_reg", "_reconstructor"): _rebuilt,
    ("copyreg", "_reconstructor"): _rebuilt,
    ("collections", "defaultdict"): _lists,
    ("__builtin__", "object"): object,
    ("__builtin__", "list"): list,
    ("builtins", "object"): object,
    ("builtins", "list"): list,
}


def read_raw(files: Sequence[Path], width: int) -> GraphArrays:
    """The eight files, in the order of ``RAW_PARTS``, of documents with ``width`` words."""
    *pickled, listed = files
    x, tx, allx, y, ty, ally, graph = (pickles.unpickle(path, "Planetoid", _ADMITTED, "latin1") for path in pickled)
    with parsing(listed):
        test = np.array(listed.read_text().split(), dtype=np.int64)
    nodes = np.concatenate([np.arange(_rows(allx, pickled[2])), test])
    count = int(nodes.max(initial=-1)) + 1
    if len(np.unique(nodes)) != len(nodes) or test.min(initial=0) < 0:
        raise DataError(f"{listed}: every test node must occur once, after the others.")
    labels = np.full(count, -1)
    first = len(nodes) - len(test)
    labels[nodes] = np.concatenate([_classes(ally, pickled[5], first), _classes(ty, pickled[4], len(test))])
    triples = _triples([(allx, pickled[2]), (tx, pickled[1])], nodes, width)
    trained = len(_classes(y, pickled[3], _rows(x, pickled[0])))
    val = np.arange(trained, min(trained + _VALIDATION, _rows(allx, pickled[2])))
    return GraphArrays(
        _edges(graph, pickled[6]), *triples, width, labels, np.arange(trained), val, np.sort(test)
    )  # fmt: skip


def read_npz(files: Sequence[Path]) -> GraphArrays:
    """One archive."""
    (path,) = files
    found = npz.read_fields(path, _FIELDS)
    missing = sorted(_FIELDS - found.keys())
    if missing:
        raise DataError(f"{path}: there is no {missing[0]!r} in it.")
    for field, array in found.items():
        if field != "x_data" and array.dtype.kind not in "iu":
            raise DataError(f"{path}: {field!r} must be integer, found {array.dtype} {array.shape}.")
    if found["x_shape"].shape != (2,) or len(found["x_indptr"]) != found["x_shape"][0] + 1:
        raise DataError(f"{path}: 'x_shape' must be the two numbers of rows and columns, one row for each 'x_indptr'.")
    whole = {field: array.astype(np.int64) for field, array in found.items() if field != "x_data"}
    return GraphArrays(
        whole["edges"], whole["x_indptr"], whole["x_indices"], found["x_data"], int(whole["x_shape"][1]), whole["y"],
        *(whole[f"{part}_idx"] for part in ("train", "val", "test")),
    )  # fmt: skip


def holds_graph(path: Path) -> bool:
    """Whether the archive has the fields of a graph; a damaged one counts, so that reading it says why."""
    return npz.has_fields(path, _FIELDS)


def _rows(matrix: Any, path: Path) -> int:
    if not isinstance(matrix, _Csr):
        raise DataError(f"{path}: a sparse matrix is expected, found {type(matrix).__name__}.")
    return len(matrix.indptr) - 1


def _classes(one_hot: Any, path: Path, rows: int) -> np.ndarray:
    """The class of each row; -1 for rows of zeros."""
    if not isinstance(one_hot, np.ndarray) or one_hot.ndim != 2 or one_hot.dtype.kind not in "iufb":
        raise DataError(f"{path}: a matrix of numbers is expected, found {type(one_hot).__name__}.")
    if len(one_hot) != rows:
        raise DataError(f"{path}: {rows} rows are expected, one for each node, found {len(one_hot)}.")
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _triples(
    matrices: Sequence[tuple[Any, Path]], nodes: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features of all nodes in compressed rows, from matrices whose rows are those of ``nodes``."""
    counts, columns, values = [], [], []
    for matrix, path in matrices:
        _rows(matrix, path)
        if matrix.indptr[0] != 0 or matrix.indptr[-1] != len(matrix.indices) or len(matrix.data) != len(matrix.indices):
            raise DataError(f"{path}: the parts of the sparse matrix do not fit together.")
        if not isinstance(matrix.shape, tuple) or matrix.shape[-1] != width:
            raise DataError(f"{path}: {width} features are expected, found a matrix of shape {matrix.shape}.")
        counts.append(np.diff(matrix.indptr.astype(np.int64)))
        columns.append(matrix.indices)
        values.append(matrix.data)
    given = np.concatenate(counts)
    if len(given) != len(nodes) or given.min(initial=0) < 0:
        raise DataError(f"{matrices[1][1]}: {len(nodes)} rows of features are expected in all, found {len(given)}.")
    per_node = np.zeros(int(nodes.max(initial=-1)) + 1, dtype=np.int64)
    per_node[nodes] = given
    owner = np.repeat(nodes, given)
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], per_node.cumsum()])
    return starts, np.concatenate(columns).astype(np.int64)[order], np.concatenate(values)[order]


def _edges(graph: Any, path: Path) -> np.ndarray:
    if not isinstance(graph, dict):
        raise DataError(f"{path}: a dictionary of neighbours is expected, found {type(graph).__name__}.")
    with parsing(path):
        pairs = [(int(node), int(other)) for node, others in graph.items() for other in others]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T
