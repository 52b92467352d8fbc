"""Planetoid's files: pickles of Python 2 and an archive are the same graph; nothing foreign is ever run."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from evolvent.data import check, load, load_graph
from evolvent.data.formats.planetoid import RAW_PARTS, read_npz, read_raw
from evolvent.errors import DataError

NODES, WIDTH, CLASSES, TRAIN = 12, 5, 2, 4
TEST = [11, 9, 8]  # node 10 has neither features nor class


def contents(rng):
    """What the eight files hold, for a small graph."""
    x = (rng.random((NODES, WIDTH)) < 0.5) * rng.random((NODES, WIDTH)).astype(np.float32)
    y = np.eye(CLASSES, dtype=np.int32)[np.arange(NODES) % CLASSES]
    x[10], y[10] = 0, 0
    neighbours = defaultdict(list, {i: [(i + 1) % NODES, i] for i in range(NODES)})
    sparse = {"x": x[:TRAIN], "tx": x[TEST], "allx": x[:8]}
    dense = {"y": y[:TRAIN], "ty": y[TEST], "ally": y[:8], "graph": neighbours}
    return {name: csr_matrix(part) for name, part in sparse.items()} | dense, x, y


def write_raw(folder, parts, protocol=2):
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part, protocol=protocol))
    (folder / "ind.cora.test.index").write_text("\n".join(map(str, TEST)) + "\n")
    return [folder / f"ind.cora.{part}" for part in RAW_PARTS]


def python2(content: bytes) -> bytes:
    """The names that scipy and numpy had then."""
    return content.replace(b"scipy.sparse._csr", b"scipy.sparse.csr").replace(b"numpy._core", b"numpy.core")


@pytest.mark.parametrize("protocol", [0, 2])
def test_raw_files_are_read_back(tmp_path, rng, protocol):
    parts, x, y = contents(rng)
    files = write_raw(tmp_path, parts, protocol)
    for path in files[:-1]:
        path.write_bytes(python2(path.read_bytes()))
    found = read_raw(files, WIDTH)
    dense = np.zeros((NODES, WIDTH), np.float32)
    dense[np.repeat(np.arange(NODES), np.diff(found.starts)), found.columns] = found.values
    np.testing.assert_array_equal(dense, x)
    assert found.labels.tolist() == [*(y[:10].argmax(1)).tolist(), -1, 1]
    assert found.train.tolist() == [0, 1, 2, 3]
    assert found.val.tolist() == [4, 5, 6, 7]
    assert found.test.tolist() == [8, 9, 11]
    assert {tuple(edge) for edge in found.edges.T.tolist()} >= {(0, 1), (11, 0), (3, 3)}


def archive(rng):
    parts, _, _ = contents(rng)
    graph = parts["allx"]
    return {
        "edges": np.array([[0, 1], [1, 2]]), "x_indptr": graph.indptr, "x_indices": graph.indices.astype(np.uint16),
        "x_data": graph.data, "x_shape": np.array(graph.shape), "y": np.zeros(8, np.int8), "train_idx": np.arange(2),
        "val_idx": np.arange(2), "test_idx": np.arange(2),
    }  # fmt: skip


def test_an_archive_is_read_back(tmp_path, rng):
    fields = archive(rng)
    np.savez(tmp_path / "cora.npz", **fields)
    found = read_npz([tmp_path / "cora.npz"])
    np.testing.assert_array_equal(found.columns, fields["x_indices"])
    assert found.width == WIDTH
    assert found.edges.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": np.zeros(8)}, "'y' must be integer"),
        ({"edges": None}, "no 'edges'"),
        ({"x_shape": np.array([3, 5])}, "'x_shape' must be"),
        ({"y": np.array([None] * 8)}, "damaged or unreadable"),
    ],
)
def test_wrong_archives_are_refused(tmp_path, rng, change, complaint):
    fields = {name: value for name, value in (archive(rng) | change).items() if value is not None}
    np.savez(tmp_path / "cora.npz", **fields)
    with pytest.raises(DataError, match=complaint):
        read_npz([tmp_path / "cora.npz"])


class _Command:
    def __reduce__(self):
        import os

        return os.system, ("touch hacked",)


class _Odd:
    """Pickles as ``copyreg._reconstructor`` of something that is not a matrix."""

    def __reduce__(self):
        import copyreg

        return copyreg._reconstructor, (list, list, [1])


@pytest.mark.parametrize(
    ("part", "content", "complaint"),
    [
        ("graph", _Command(), "refers to (posix|nt).system"),
        ("x", defaultdict(dict, {0: {}}), "refers to __builtin__.dict"),
        ("x", _Odd(), "not a sparse matrix"),
        ("x", np.zeros((2, 5)), "a sparse matrix is expected, found ndarray"),
        ("graph", [1, 2], "dictionary of neighbours"),
        ("graph", {0: ["a"]}, "damaged"),
        ("y", [1, 2], "a matrix of numbers"),
        ("y", np.eye(2), r"ind\.cora\.y: 4 rows are expected, one for each node, found 2"),
        ("ty", np.eye(2), r"ind\.cora\.ty: 3 rows are expected, one for each node, found 2"),
        ("tx", csr_matrix(np.ones((3, 7))), "5 features are expected"),
        ("tx", csr_matrix(np.ones((2, 5))), "rows of features are expected"),
    ],
)
def test_hostile_and_wrong_pickles_are_refused(tmp_path, rng, monkeypatch, craft, part, content, complaint):
    monkeypatch.chdir(tmp_path)
    files = write_raw(tmp_path, contents(rng)[0] | {part: content})
    with pytest.raises(DataError, match=complaint) as error:
        read_raw(files, WIDTH)
    craft.one_line(error)
    assert not (tmp_path / "hacked").exists()


def test_matrices_are_rebuilt_without_their_class(tmp_path, rng):
    class State:
        def __reduce__(self):
            return csr_matrix, (), {"indptr": "no", "indices": "no", "data": "no"}

    files = write_raw(tmp_path, contents(rng)[0])
    matrix = csr_matrix(np.eye(2))
    content = pickle.dumps(matrix, protocol=2).replace(b"indptr", b"indptx")
    files[0].write_bytes(content)
    with pytest.raises(DataError, match="indptr is not an array"):
        read_raw(files, WIDTH)


def test_test_nodes_occur_once(tmp_path, rng):
    files = write_raw(tmp_path, contents(rng)[0])
    files[-1].write_text("11\n9\n9\n")
    with pytest.raises(DataError, match="occur once"):
        read_raw(files, WIDTH)
    files[-1].write_text("eleven")
    with pytest.raises(DataError, match="damaged"):
        read_raw(files, WIDTH)


def test_missing_files_are_named(tmp_path, rng):
    write_raw(tmp_path / "Cora" / "raw", contents(rng)[0])
    (tmp_path / "Cora" / "raw" / "ind.cora.ty").unlink()
    with pytest.raises(DataError, match=r"lacks ind\.cora\.ty"):
        load_graph("cora", tmp_path)


def test_graphs_are_no_images(tmp_path, rng, data_folder):
    with pytest.raises(DataError, match="load_graph"):
        load("cora", data_folder)
    with pytest.raises(DataError, match="a set of images"):
        load_graph("digits")


@pytest.mark.parametrize(
    ("name", "largest"), [("cora", (2485, 5069)), ("citeseer", (2120, 3679)), ("pubmed", (19717, 44324))]
)
def test_the_real_graphs(data_folder, name, largest):
    report = check(name, data_folder)
    assert report.ok
    data = load_graph(name, data_folder).row_normalised()
    assert (len(data), len(data.graph.columns) // 2, data.features.width) == {
        "cora": (2708, 5278, 1433), "citeseer": (3327, 4552, 3703), "pubmed": (19717, 44324, 500)
    }[name]  # fmt: skip
    split = data.public_split()
    assert (len(split.train), len(split.validation), len(split.test)) == (20 * len(data.classes), 500, 1000)
    component = data.largest_component()
    assert (len(component), len(component.graph.columns) // 2) == largest
    sums = component.features.row_sums()
    assert ((sums - 1).abs() < 1e-5).logical_or(sums == 0).all()


def test_raw_files_of_a_real_graph_are_the_archive(tmp_path, data_folder):
    """The archive, written as Planetoid's files and read again."""
    fields = dict(np.load(data_folder / "planetoid" / "cora.npz"))
    x = csr_matrix((fields["x_data"], fields["x_indices"], fields["x_indptr"]), shape=tuple(fields["x_shape"]))
    y, test = np.eye(7, dtype=np.int32)[fields["y"]], fields["test_idx"]
    neighbours = defaultdict(list)
    for one, other in fields["edges"].T.tolist():
        neighbours[one].append(other)
    shuffled = np.random.default_rng(0).permutation(test)
    first = int(test.min())
    parts = {"x": x[:140], "tx": x[shuffled], "allx": x[:first], "graph": neighbours}
    parts |= {"y": y[:140], "ty": y[shuffled], "ally": y[:first]}
    write_raw(tmp_path, parts)
    (tmp_path / "ind.cora.test.index").write_text("\n".join(map(str, shuffled)))
    one, other = load_graph("cora", tmp_path), load_graph("cora", data_folder)
    for name in ("starts", "columns", "values"):
        np.testing.assert_array_equal(getattr(one.features, name), getattr(other.features, name))
        np.testing.assert_array_equal(getattr(one.graph, name), getattr(other.graph, name))
    assert one.labels.equal(other.labels)
    assert one.public_split().test.equal(other.public_split().test)
    assert "Planetoid files in" in one.source
