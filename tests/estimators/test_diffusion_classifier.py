"""The classifier of points with few labels: scikit-learn's conventions, and what becomes of awkward input."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy.sparse import block_diag, coo_array, csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import evolvent as ev
from evolvent.errors import ConfigError, ShapeError, UnknownNameError
from evolvent.estimators import PointGraph

MARK = "-1 marks points without label, so it is no class"
DISTANCES = "the check passes distances, where weights are taken"


def expected_failures(estimator):
    failing = {"check_classifiers_classes": MARK, "check_array_api_input": "scipy's array API is not switched on"}
    return failing | ({"check_classifiers_train": DISTANCES} if estimator.metric == "precomputed" else {})


@parametrize_with_checks(
    [ev.DiffusionClassifier(), ev.DiffusionClassifier(metric="precomputed")], expected_failed_checks=expected_failures
)
def test_conventions_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks pass odd data on purpose
        check(estimator)


@pytest.fixture(scope="module")
def moons():
    x, y = make_moons(400, noise=0.05, random_state=0)
    few = np.full(400, -1)
    for label in (0, 1):
        few[np.flatnonzero(y == label)[:2]] = label
    return x, y, few


def blobs(*places):
    """Twenty points near each place of a line."""
    return np.concatenate([place + np.random.default_rng(i).normal(size=(20, 2)) for i, place in enumerate(places)])


def test_two_labels_of_each_moon_classify_all(moons):
    x, y, few = moons
    model = ev.DiffusionClassifier().fit(x, few)
    np.testing.assert_array_equal(model.transduction_, y)
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1)
    new, truth = make_moons(300, noise=0.05, random_state=1)
    assert model.score(new, truth) > 0.99
    np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1)


def test_precomputed_graph_of_the_points_gives_the_same(moons):
    x, _, few = moons
    points = ev.DiffusionClassifier().fit(x, few)
    weights = PointGraph(x).weights.to_scipy()
    for X in (weights, weights.tocoo(), weights.toarray()):
        graph = ev.DiffusionClassifier(metric="precomputed").fit(X, few)
        np.testing.assert_allclose(graph.label_distributions_, points.label_distributions_, atol=1e-4)
        assert graph.predict(X).shape == (400,)


def test_digits_with_three_labels_of_each():
    x, y = load_digits(return_X_y=True)
    few = np.full(len(y), -1)
    for label in range(10):
        few[np.flatnonzero(y == label)[:3]] = label
    model = ev.DiffusionClassifier().fit(x, few)
    assert (model.transduction_ == y).mean() > 0.93
    assert (ev.DiffusionClassifier(rounds=0).fit(x, few).transduction_ == y).mean() > 0.9


def test_works_in_pipelines_and_grid_searches(moons):
    x, y, few = moons
    few = np.where(np.arange(400) % 10 == 0, y, few)
    steps = make_pipeline(StandardScaler(), ev.DiffusionClassifier())
    search = GridSearchCV(steps, {"diffusionclassifier__n_neighbors": np.array([5, 10])}, cv=3).fit(x, few)
    assert search.best_score_ == 1  # points without label are left out of it
    np.testing.assert_array_equal(search.predict(x), y)


def test_grid_search_over_a_sparse_graph(moons):
    x, y, few = moons
    few = np.where(np.arange(400) % 5 == 0, y, few)
    graph = PointGraph(x, 20).weights.to_scipy()
    model = ev.DiffusionClassifier(metric="precomputed")
    search = GridSearchCV(model, {"diffusion_time": [30.0, 100.0]}, cv=3).fit(graph, few)
    assert search.best_score_ > 0.97


def test_parameters_are_kept_and_cloned():
    model = ev.DiffusionClassifier(7, rounds=2, class_prior=[0.5, 0.5]).set_params(own_labels=1.0)
    assert clone(model).get_params() == model.get_params()


def test_pickled_model_predicts_the_same(moons):
    x, _, few = moons
    model = ev.DiffusionClassifier().fit(x, few)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(x[:9]), model.predict_proba(x[:9]))


def test_components_without_label_are_not_classified():
    x, y = blobs(0, 100, 200), np.full(60, -1)
    y[0], y[20] = 5, 7
    model = ev.DiffusionClassifier().fit(x, y)
    assert model.transduction_.tolist() == [5] * 20 + [7] * 20 + [-1] * 20
    assert not model.label_distributions_[40:].any()
    assert model.predict(x + 0.01).tolist() == model.transduction_.tolist()
    assert not model.predict_proba(x[40:]).any()


@pytest.mark.parametrize(
    ("labels", "mark"),
    [
        (np.array(["cat", "dog", "-1"]), "-1"),
        (np.array(["cat", "dog", None], dtype=object), -1),
        (np.array(["cat", "dog", float("nan")], dtype=object), -1),
        (np.array(["cat", "dog", -1], dtype=object), -1),
        (np.array([3, 7, None], dtype=object), -1),
        (np.array([3, 7, -1], dtype=object), -1),
        (np.array([False, True, None], dtype=object), -1),
        (np.array([0.0, 1.0, float("nan")], dtype=object), -1),
        (np.array([0.0, 1.0, -1.0]), -1.0),
    ],
    ids=["strings", "None", "NaN", "objects", "None of ints", "ints", "None of bools", "NaN of floats", "floats"],
)
def test_marks_of_points_without_label(labels, mark):
    y = np.repeat(labels, 20)
    y[1:20] = y[21:40] = labels[2]
    model = ev.DiffusionClassifier().fit(blobs(0, 100, 200), y)
    assert model.classes_.tolist() == labels[:2].tolist()
    assert model.transduction_.tolist() == [labels[0]] * 20 + [labels[1]] * 20 + [mark] * 20
    assert model.score(blobs(0, 100, 200), y) == 1


def test_a_row_without_weights_is_not_classified():
    graph = block_diag([np.ones((3, 3)), np.ones((2, 2))], format="csr")
    model = ev.DiffusionClassifier(metric="precomputed").fit(graph, np.array([True, True, False, True, True]))
    assert model.predict(csr_array(np.array([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0]]))).tolist() == [-1, 1]


@pytest.mark.parametrize("copies", [2, 30])
def test_points_at_the_same_place_are_one(copies, moons):
    x, _, few = moons
    more = np.concatenate([few, np.full((copies - 1) * 400, -1)])
    once = ev.DiffusionClassifier().fit(x, few)
    again = ev.DiffusionClassifier().fit(np.tile(x, (copies, 1)), more)
    np.testing.assert_array_equal(again.transduction_, np.tile(once.transduction_, copies))


def test_equal_points_of_different_label_share_their_classes():
    model = ev.DiffusionClassifier().fit(np.zeros((3, 2)), [0, 1, -1])
    np.testing.assert_allclose(model.label_distributions_, 0.5)


def test_outliers_and_one_scale_of_coordinates_do_not_matter():
    iris, y = load_iris(return_X_y=True)
    few = np.where(np.arange(150) % 10 == 0, y, -1)
    found = ev.DiffusionClassifier().fit(iris, few).transduction_
    for scale in (1e-6, 1e6):
        np.testing.assert_array_equal(ev.DiffusionClassifier().fit(scale * iris, few).transduction_, found)
    far = ev.DiffusionClassifier().fit(np.vstack([iris, [[1e4] * 4]]), np.append(few, -1))
    assert far.transduction_[-1] == 2  # outliers belong to what lies nearest


def test_order_of_points_does_not_matter(moons):
    x, _, few = moons
    order = np.random.default_rng(0).permutation(400)
    found = ev.DiffusionClassifier().fit(x, few).transduction_
    np.testing.assert_array_equal(ev.DiffusionClassifier().fit(x[order], few[order]).transduction_, found[order])


def test_class_prior_shifts_the_boundary():
    x = np.linspace(0, 1, 101)[:, None]
    y = np.full(101, -1)
    y[0], y[100] = 0, 1
    sizes = [
        (ev.DiffusionClassifier(class_prior=prior, rounds=0).fit(x, y).transduction_ == 0).sum()
        for prior in (None, [3, 1], [1, 3])
    ]
    assert sizes[2] < sizes[0] < sizes[1]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"metric": "cosinus"}, UnknownNameError, "metric"),
        ({"n_neighbors": 0}, ConfigError, "n_neighbors must be a whole number"),
        ({"rounds": -1}, ConfigError, "rounds"),
        ({"diffusion_time": 0.0}, ConfigError, "diffusion_time"),
        ({"own_labels": -1.0}, ConfigError, "own_labels"),
        ({"class_prior": [1.0]}, ConfigError, "class_prior"),
        ({"class_prior": [1.0, 0.0]}, ConfigError, "class_prior"),
        ({"class_prior": [1.0, np.inf]}, ConfigError, "class_prior"),
        ({"class_prior": {0: 0.5, 1: 0.5}}, ConfigError, "in the order of classes_, got dict"),
        ({"search": "oracle"}, UnknownNameError, "search"),
        ({"metric": "precomputed"}, ShapeError, "square"),
    ],
)
def test_wrong_parameters_are_refused(change, error, message, moons):
    with pytest.raises(error, match=message):
        ev.DiffusionClassifier(**change).fit(moons[0], moons[2])


def test_wrong_labels_are_refused(moons):
    x, _, few = moons
    with pytest.raises(ConfigError, match="none of 400 points has a label"):
        ev.DiffusionClassifier().fit(x, np.full(400, -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ev.DiffusionClassifier().fit(x, few[1:])
    with pytest.raises(ConfigError, match=r"contains NaN.*-1, for example with y.fillna\(-1\)"):
        ev.DiffusionClassifier().fit(x, np.where(few < 0, np.nan, few))
    with pytest.raises(ConfigError, match="Negative values"):
        ev.DiffusionClassifier(metric="precomputed").fit(-np.ones((4, 4)), [0, 1, -1, -1])
    with pytest.raises(NotFittedError):
        ev.DiffusionClassifier().predict(x)
    with pytest.raises(ConfigError, match="none of 400 points has a label to compare with"):
        ev.DiffusionClassifier().fit(x, few).score(x, np.full(400, -1))


@pytest.mark.parametrize("kind", ["string", "str", "category", "object"])
def test_missing_values_of_pandas_mark_points_without_label(kind):
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(["cat", *[None] * 19, "dog", *[None] * 19]).astype(kind)
    model = ev.DiffusionClassifier().fit(blobs(0, 100), y)
    assert model.classes_.tolist() == ["cat", "dog"]
    assert model.transduction_.tolist() == ["cat"] * 20 + ["dog"] * 20
    assert model.score(blobs(0, 100), y) == 1


@pytest.mark.parametrize("kind", ["Int64", "boolean", "object"])
def test_missing_values_among_numbers_of_pandas(kind):
    pandas = pytest.importorskip("pandas")
    y = pandas.Series([0, *[pandas.NA] * 19, 1, *[pandas.NA] * 19]).astype(kind)
    model = ev.DiffusionClassifier().fit(blobs(0, 100), y.astype(object))
    assert model.transduction_.tolist() == [0] * 20 + [1] * 20
    if kind != "object":
        with pytest.raises(ConfigError, match=r"astype\(object\)"):
            ev.DiffusionClassifier().fit(blobs(0, 100), y)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr", "lil", "dok"])
def test_sparse_graphs_of_any_kind_are_scored(kind):
    graph, y = block_diag([np.ones((3, 3)), np.ones((2, 2))]).asformat(kind), np.array([0, -1, -1, 1, -1])
    model = ev.DiffusionClassifier(metric="precomputed").fit(graph, y)
    assert model.score(graph, y) == model.score(graph, [0, 0, 0, 1, 1]) == 1


def test_values_that_are_not_finite_are_refused_in_one_line(moons):
    x, _, few = moons
    broken = x.copy()
    broken[3, 1] = np.nan
    model = ev.DiffusionClassifier().fit(x, few)
    for call in (lambda: ev.DiffusionClassifier().fit(broken, few), lambda: model.predict(broken)):
        with pytest.raises(ConfigError, match=r"Input X contains NaN. Drop these rows, or fill them in") as caught:
            call()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_the_unit_of_weights_has_no_effect(moons, unit):
    x, y, few = moons
    weights = np.exp(-np.square(x[:, None] - x).sum(axis=2) / 0.02)
    found = ev.DiffusionClassifier(metric="precomputed").fit(unit * weights, few).transduction_
    np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize("label", [-1, 1])
@pytest.mark.parametrize("weakest", [1e-300, 1e-42, 1e-20, 1e-7])
def test_a_point_that_is_hardly_connected_does_not_spoil_the_others(moons, weakest, label):
    x, y, few = moons
    weights = np.zeros((401, 401))
    weights[:400, :400] = np.exp(-np.square(x[:, None] - x).sum(axis=2) / 0.02)
    weights[400, 0] = weakest
    found = ev.DiffusionClassifier(metric="precomputed").fit(weights, np.append(few, label)).transduction_
    np.testing.assert_array_equal(found[:400], y)
    assert found[400] == (label if label == 1 else -1 if weakest < 1e-30 else y[0])


def moons_and_more(moons, *edges):
    """Weights of the moons with further points, joined by edges (point, point, weight)."""
    x, _, _ = moons
    count = 1 + max(first for first, _, _ in edges)
    weights = np.zeros((count, count))
    weights[:400, :400] = np.exp(-np.square(x[:, None] - x).sum(axis=2) / 0.02)
    for first, second, weight in edges:
        weights[first, second] = weight
    return weights


@pytest.mark.parametrize("weakest", [1e-6, 1e-12])
@pytest.mark.parametrize("label", [-1, 1])
def test_a_hardly_connected_pair_does_not_spoil_the_others(moons, weakest, label):
    _, y, few = moons
    weights = moons_and_more(moons, (400, 0, weakest), (401, 400, 1e-3))
    found = ev.DiffusionClassifier(metric="precomputed").fit(weights, np.append(few, [-1, label])).transduction_
    np.testing.assert_array_equal(found[:400], y)
    assert (found[400:] >= 0).all()


def test_a_chain_of_ever_weaker_edges_has_the_class_of_where_it_begins(moons):
    _, y, few = moons
    weights = moons_and_more(moons, (400, 0, 1e-4), (401, 400, 1e-8), (402, 401, 1e-12))
    found = ev.DiffusionClassifier(metric="precomputed").fit(weights, np.append(few, [-1, -1, -1]))
    assert found.transduction_[400:].tolist() == [y[0]] * 3
    assert (found.label_distributions_.sum(axis=1) > 0.99).all()


def test_a_loosely_connected_part_keeps_its_own_labels(moons):
    """The moons twice: the second ones have weights a million times smaller, and hang on the first by one of them."""
    _, y, few = moons
    once = moons_and_more(moons, (399, 398, 1.0))
    weights = np.block([[once, np.zeros((400, 400))], [np.zeros((400, 400)), 1e-6 * once]])
    weights[400, 0] = 1e-6
    found = ev.DiffusionClassifier(metric="precomputed").fit(weights, np.append(few, few)).transduction_
    assert (found == np.append(y, y)).mean() > 0.97


def test_a_point_that_is_joined_to_all_others_does_not_decide_for_them():
    """Two rings and a hub."""
    size = 5500
    each = np.arange(2 * size)
    next_one = np.where(each % size == size - 1, each - size + 1, each + 1)
    rows, columns = np.append(each, each), np.append(next_one, np.full_like(each, 2 * size))
    graph = coo_array((np.ones(len(rows)), (rows, columns)), shape=(2 * size + 1, 2 * size + 1)).tocsr()
    y = np.append(each // size, 0)
    few = np.where(np.arange(2 * size + 1) % 5, -1, y)
    found = ev.DiffusionClassifier(metric="precomputed").fit(graph, few).transduction_
    assert (found == y)[:-1].mean() > 0.99


@pytest.mark.parametrize("unit", [2.0**-800, 2.0**800])
def test_the_unit_of_points_has_no_effect(moons, unit):
    x, _, few = moons
    plain, other = (ev.DiffusionClassifier().fit(u * x, few) for u in (1.0, unit))
    np.testing.assert_array_equal(plain.label_distributions_, other.label_distributions_)
    np.testing.assert_array_equal(plain.predict_proba(x + 0.01), other.predict_proba(unit * (x + 0.01)))
    assert np.isfinite(plain.predict_proba(1e300 * x)).all()


def test_one_class_and_a_graph_without_edges_are_warned_of(moons):
    x, _, few = moons
    with pytest.warns(UserWarning, match="all labels are of one class, 0"):
        ev.DiffusionClassifier().fit(x, np.where(few == 1, -1, few))
    with pytest.warns(UserWarning, match="has no edges between different points"):
        found = ev.DiffusionClassifier(metric="precomputed").fit(np.eye(4), [0, 1, -1, -1])
    assert found.transduction_.tolist() == [0, 1, -1, -1]


def test_float32_points_stay_float32_and_give_the_same(moons):
    x, y, few = moons
    model = ev.DiffusionClassifier().fit(x.astype(np.float32), few)
    np.testing.assert_array_equal(model.transduction_, y)
    assert model.label_distributions_.dtype == np.float64
    assert torch.get_default_dtype() == torch.float32
