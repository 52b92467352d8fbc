"""A scikit-learn classifier for tables of points, or graphs, of which few have labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self, cast, get_args

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from evolvent._core.checks import check_choice, check_not_negative, check_positive, check_whole, described
from evolvent._core.errors import ConfigError, ShapeError
from evolvent.estimators.competition import spread_labels
from evolvent.estimators.point_graph import PointGraph
from evolvent.estimators.progress import ProgressLine
from evolvent.graphs import Search, SparseMatrix, undirected

_METRICS = ("euclidean", "precomputed")
_WEAKEST = 1e-30  # share of the largest weight of a graph from which a weight connects


class DiffusionClassifier(ClassifierMixin, BaseEstimator):
    r"""Classifies points of which few have labels, by heat that spreads from the labels on a graph of all points.

    .. math:: u_c' = -D^{-1} L\, u_c, \qquad u_c(0) = D^{-1} y_c, \qquad c_i = \arg\max_c \hat u_{ic}(t)

    with :math:`L = D - W` the Laplacian of a nearest-neighbour graph, :math:`y_c` the labels of class :math:`c` and
    :math:`\hat u_c` its heat divided by the sum over all points. Then the points' own classes spread in the same way,
    in a few rounds; :func:`~evolvent.estimators.label_flow` says how, and :class:`~evolvent.estimators.PointGraph` how
    the graph is weighted. The equation is that of Wang et al., eq. (7), for labels in place of features.

    In ``y``, -1 marks points without label; in an array of objects None, NaN and pandas' NA do so as well, in an array
    of strings "-1". Points of a connected component without any label are not classified: their shares are zero, and
    they get -1 again ("-1" for strings). So do new points whose neighbours are all of that kind.

    Memory grows with the number of points times that of neighbours and classes; a million points fit.

    Args:
        n_neighbors: neighbours of each point in the graph; at most all others are taken.
        metric: ``"euclidean"`` for a table of points; ``"precomputed"`` if ``X`` holds the weights of a graph, dense or
            of ``scipy.sparse``, (N, N). It is taken as undirected, with the larger of two weights; weights below
            1e-30 of the largest do not connect. New points then are rows of weights to the N training points.
        diffusion_time: :math:`t`, in steps of a random walk; by default twice as many as there are points for each
            label, at most 100, for labels 16 times as many in graphs that are too wide for that.
        rounds: how often points take their class and spread it; 0 is diffusion of the labels alone.
        own_labels: the points' own classes count as this many labels of each class.
        class_prior: expected share of each class, in the order of ``classes_``; by default all the same, whatever the
            number of their labels.
        search: how neighbours are found, see :func:`~evolvent.graphs.nearest_neighbours`.
        verbose: whether work of over two seconds shows its progress; by default if the error stream is a terminal.

    Attributes:
        classes_: the classes that occur among the labels.
        transduction_: the class of each training point; labelled points keep theirs.
        label_distributions_: shares of the classes at each training point, (N, classes).
        n_features_in_: columns of ``X``.

    >>> from sklearn.datasets import load_iris
    >>> x, y = load_iris(return_X_y=True)
    >>> few = np.full(150, -1)
    >>> few[::25] = y[::25]  # two labels of each class
    >>> found = DiffusionClassifier().fit(x, few).transduction_
    >>> bool((found == y).mean() > 0.9)
    True
    """

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        metric: Literal["euclidean", "precomputed"] = "euclidean",
        diffusion_time: float | None = None,
        rounds: int = 5,
        own_labels: float = 3.0,
        class_prior: Any = None,
        search: Search = "auto",
        verbose: bool | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.diffusion_time = diffusion_time
        self.rounds = rounds
        self.own_labels = own_labels
        self.class_prior = class_prior
        self.search = search
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Classify the points of a table, or the nodes of a graph.

        Args:
            X: points (N, d), or weights (N, N).
            y: labels (N,), -1 where there is none.
        """
        search = self._check_parameters()
        X = self._checked(X, y, reset=True)
        self.classes_, numbers = _classes_and_numbers(y)
        if len(self.classes_) == 1:
            warnings.warn(
                f"all labels are of one class, {self.classes_[0]}, so no point can get another. Add labels of the "
                "others; -1 marks points without label.",
                stacklevel=2,
            )
        prior = self._prior()
        with ProgressLine("DiffusionClassifier", self.verbose) as progress:
            if self.metric == "precomputed":
                weights, owner = _graph_of(X), np.arange(len(numbers))
            else:
                self._graph = PointGraph(X, self.n_neighbors, search, progress.stage("neighbours"))
                weights, owner = self._graph.weights, self._graph.owner
            labels = _labels_of_nodes(numbers, owner, len(weights), len(self.classes_))
            shares = spread_labels(
                weights, labels, self.diffusion_time, self.rounds, self.own_labels, prior, progress.stage
            )
        labelled = labels.any(dim=1, keepdim=True)
        shares = torch.where(labelled, labels / labels.sum(dim=1, keepdim=True).clamp_min(1), shares)
        self._node_shares = shares.double().numpy()
        self.label_distributions_ = self._node_shares[owner]
        self.transduction_ = self._named(self.label_distributions_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The classes of points, which need not be those of the training; -1 where no class is known."""
        return self._named(self.predict_proba(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The shares of the classes, (M, classes): means over neighbours, zeros where no class is known."""
        check_is_fitted(self)
        X = self._checked(X, None, reset=False)
        if self.metric == "precomputed":
            _check_weights(X)
            found = np.asarray(X @ self._node_shares)
        else:
            with ProgressLine("DiffusionClassifier", self.verbose) as progress:
                found = self._graph.mean(X, self._node_shares, progress.stage("neighbours of new points"))
        total = found.sum(axis=1, keepdims=True)
        return np.divide(found, total, out=np.zeros_like(found), where=total > 0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of points with a known label that are classified correctly; others are left out."""
        labels, known = _labels_and_places(_column(y))
        if not len(labels):
            raise ConfigError(f"none of {len(known)} points has a label to compare with. Score points that have one.")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return super().score(_rows(X, known), labels, weight)

    def _check_parameters(self) -> Search:
        """Refuse what cannot be used; the way of the search."""
        check_choice("metric", self.metric, _METRICS)
        check_whole(1, n_neighbors=_plain(self.n_neighbors))
        check_whole(0, rounds=_plain(self.rounds))
        if self.diffusion_time is not None:
            check_positive(diffusion_time=self.diffusion_time)
        check_not_negative(own_labels=self.own_labels)
        return cast(Search, check_choice("search", self.search, get_args(Search)))

    def _checked(self, X: Any, y: Any, reset: bool) -> Any:
        sparse = "csr" if self.metric == "precomputed" else False
        with _one_line_on_missing_values():
            X = validate_data(self, X, reset=reset, accept_sparse=sparse, dtype=[np.float64, np.float32])
        if reset and y is None:
            raise ConfigError("requires y to be passed, but the target y is None. Mark points without label by -1.")
        if reset:
            check_consistent_length(X, y)
        return X if sparse else np.require(X, requirements=["C", "W"])

    def _prior(self) -> torch.Tensor | None:
        if self.class_prior is None:
            return None
        try:
            prior = np.asarray(self.class_prior, dtype=float)
        except (TypeError, ValueError):  # a dictionary, names
            prior = np.empty(0)
        if prior.shape != self.classes_.shape or not ((prior > 0) & np.isfinite(prior)).all():
            raise ConfigError(
                f"class_prior must be a list of positive numbers, one for each of the {len(self.classes_)} classes in "
                f"the order of classes_, got {described(self.class_prior)}."
            )
        return torch.as_tensor(prior, dtype=torch.float32)

    def _named(self, shares: np.ndarray) -> np.ndarray:
        """The classes with the largest shares; the mark of unlabelled points where all are zero."""
        names, known = self.classes_[shares.argmax(axis=1)], shares.any(axis=1)
        if known.all():
            return names
        mark = "-1" if names.dtype.kind in "US" else np.int64(-1)
        return np.where(known, names, np.asarray(mark, dtype=object if names.dtype.kind == "O" else None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = self.metric == "precomputed"
        tags.input_tags.positive_only = self.metric == "precomputed"
        return tags


def _plain(number: Any) -> Any:
    """A whole number of numpy as Python's, as grid searches pass them."""
    return int(number) if isinstance(number, np.integer) else number


def _column(y: Any) -> np.ndarray:
    return column_or_1d(y, warn=True)


def _unlabelled(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind in "US":
        return y == np.asarray("-1", dtype=y.dtype.kind)
    if y.dtype.kind == "O":
        return np.array([_is_mark(value) for value in y], dtype=bool)
    return y == -1 if y.dtype.kind in "if" else np.zeros(len(y), dtype=bool)


def _is_mark(value: Any) -> bool:
    try:
        return value is None or bool(value != value) or value in (-1, "-1")
    except TypeError:  # pandas does not say whether its NA differs from itself
        return True


def _labels_and_places(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The labels that there are, numbers as an array of numbers, and at which points they are."""
    known = ~_unlabelled(y)
    labels = y[known]
    if labels.dtype.kind == "O" and all(isinstance(label, int | float | np.number | np.bool_) for label in labels):
        labels = np.array(labels.tolist())
    return labels, known


def _rows(X: Any, chosen: np.ndarray) -> Any:
    """Some rows of a table, of any kind."""
    from scipy.sparse import issparse

    if issparse(X):
        return X.tocsr()[chosen]
    return X[chosen] if hasattr(X, "shape") else np.asarray(X)[chosen]


def _classes_and_numbers(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """The classes that occur, and the number of each point's class, -1 where there is no label."""
    y = _column(y)
    if y.dtype.kind == "f":
        if np.isnan(y).any():
            raise ConfigError(
                "Input y contains NaN. Mark points without label by -1, for example with y.fillna(-1), or pass "
                "y.astype(object), where NaN marks them."
            )
        assert_all_finite(y, input_name="y")
    labels, known = _labels_and_places(y)
    if not len(labels):
        raise ConfigError(f"none of {len(y)} points has a label: y must hold at least one other than -1.")
    check_classification_targets(labels)
    numbers = np.full(len(y), -1)
    classes, numbers[known] = np.unique(labels, return_inverse=True)
    return classes, numbers


def _labels_of_nodes(numbers: np.ndarray, owner: np.ndarray, nodes: int, classes: int) -> torch.Tensor:
    """How many labels of each class each node has, float32 (nodes, classes)."""
    labels, there = np.zeros((nodes, classes), dtype=np.float32), numbers >= 0
    np.add.at(labels, (owner[there], numbers[there]), 1)
    return torch.from_numpy(labels)


@contextmanager
def _one_line_on_missing_values() -> Iterator[None]:
    """Within the block, NaN and infinity are refused in one line; scikit-learn's own message is a page."""
    try:
        yield
    except ValueError as error:
        said = str(error).splitlines()[0]
        if not said.startswith("Input X contains"):
            raise
        raise ConfigError(
            f"{said} Drop these rows, or fill them in, for example with sklearn.impute.SimpleImputer."
        ) from None


def _graph_of(X: Any) -> SparseMatrix:
    """The graph of a matrix of weights, whose unit has no effect: the largest becomes about 1, as float32 needs."""
    from scipy.sparse import coo_array, csr_array

    if X.shape[0] != X.shape[1]:
        raise ShapeError(f"a precomputed graph is a square matrix of weights, got shape {tuple(X.shape)}.")
    _check_weights(X)
    entries = coo_array(X, dtype=np.float64)
    edges = entries.row != entries.col  # loops have no effect
    largest = entries.data[edges].max(initial=0.0)
    if largest == 0:
        warnings.warn(
            "the precomputed graph has no edges between different points, so only those with a label get a class. X "
            "holds weights: large ones connect.",
            stacklevel=3,
        )
    values = np.ldexp(np.where(edges, entries.data, 0.0), -np.frexp(largest)[1])
    kept = values > _WEAKEST
    graph = csr_array((values[kept], (entries.row[kept], entries.col[kept])), shape=entries.shape)
    return undirected(SparseMatrix.from_scipy(graph, torch.float32))


def _check_weights(X: Any) -> None:
    if X.min() < 0:
        raise ConfigError(
            "Negative values in data passed to DiffusionClassifier(metric='precomputed'): the weights of a graph must "
            "be numbers of at least 0. Take the exponential of negative distances, for example."
        )
