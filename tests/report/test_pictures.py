"""What the pictures show, and the colours they show it in."""

import base64
import dataclasses
import io
import itertools

import numpy as np
import pytest
from evolvent.report.confusion import most_confused, total_confusion
from evolvent.report.mistakes import most_confident
from evolvent.report.trajectory import chosen_times

from evolvent.experiments.record import read_evaluation, read_result, write_evaluation, write_metrics, write_result
from evolvent.report import report_html, theme
from evolvent.report.curves import bundles
from evolvent.report.numbers import count, decimal, duration, memory, percent, short
from evolvent.report.pixels import heat, png_uri, shrink, signed_strip, to_rgb
from evolvent.report.runs import list_series, read_runs


def linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    light, dark = sorted((linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])  # Machado et al. 2009
PROTANOPIA = np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]])


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIELAB of linear sRGB."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(matrix @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(("palette", "page"), [(theme.LIGHT, theme.LIGHT_PAGE), (theme.DARK, theme.DARK_PAGE)])
def test_colours_stand_out_from_the_page(palette, page):
    assert min(contrast(colour, page) for colour in palette) > 4


@pytest.mark.parametrize("palette", [theme.LIGHT, theme.DARK])
@pytest.mark.parametrize("eye", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all", "deuteranopia", "protanopia"])
def test_colours_differ_for_every_eye(palette, eye):
    seen = [lab(eye @ linear(colour)) for colour in palette]
    first_four = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen[:4], 2)]
    assert min(first_four) > 20
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 10


def decode(uri: str) -> np.ndarray:
    from matplotlib.image import imread

    return np.rint(255 * imread(io.BytesIO(base64.b64decode(uri.partition(",")[2])), format="png")).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_image_survives_as_png(channels):
    image = np.random.default_rng(0).integers(0, 256, (channels, 5, 7)).astype(np.uint8)
    pixels = to_rgb(image)
    assert pixels.shape == (5, 7, 3)
    if channels != 2:
        np.testing.assert_array_equal(pixels, np.broadcast_to(image, (3, 5, 7)).transpose(1, 2, 0))
    np.testing.assert_array_equal(decode(png_uri(pixels))[..., :3], pixels)


def test_large_images_shrink_to_block_means():
    image = np.arange(16.0).reshape(1, 4, 4)
    np.testing.assert_array_equal(shrink(image, 2)[0], [[2.5, 4.5], [10.5, 12.5]])
    assert shrink(np.ones((1, 1, 9)), 3).shape == (1, 1, 3)


def test_strip_shows_sign_as_colour_and_size_as_opacity():
    maps = np.zeros((2, 1, 3, 3), dtype=np.float32)
    maps[0, 0, 1, 1], maps[1, 0, 0, 0], maps[1, 0, 2, 2] = -2.0, 1.0, np.nan
    strip = signed_strip(maps)
    assert strip.shape == (4, 8, 4)
    blue, orange = strip[1, 1], strip[0, 4]
    assert blue[2] > blue[0]
    assert blue[3] == 255
    assert orange[0] > orange[2]
    assert 120 < orange[3] < 135
    assert (strip[3] == 0).all()


def test_strip_of_zeros_is_only_ground():
    assert signed_strip(np.zeros((1, 2, 4, 4)))[..., 3].max() < 30


def test_heat_is_opaque_for_one_and_clear_for_nothing():
    assert heat(np.array([[1.0, 0.0]]))[..., 3].tolist() == [[255, 0]]


def test_confusion_is_summed_over_seeds(grid):
    series = list_series(read_runs([grid]))[0]
    single = [read_evaluation(path / "evaluation.npz").confusion for path in sorted(grid.glob("cells/hamiltonian-*"))]
    np.testing.assert_array_equal(total_confusion(series), sum(single))


def test_a_perfect_network_confuses_nothing():
    assert most_confused(np.diag([4, 5, 6])) == []


def test_mistakes_come_surest_first_and_once(grid):
    series = list_series(read_runs([grid]))[0]
    doubled = dataclasses.replace(series, records=[series.records[0]] * 2)
    found = most_confident(doubled)
    confidences = [mistake.confidence for mistake in found]
    assert len(found) == 24
    assert confidences == sorted(confidences, reverse=True)
    assert len({mistake.image.tobytes() for mistake in found}) == 24


def test_perfect_network_of_many_classes(write_single, make_recipe, make_evaluation):
    names = [str(k) for k in range(21)]
    folder = write_single(make_recipe(), classes=names)
    perfect = make_evaluation(np.random.default_rng(0), 21, wrong=1)
    none = {
        name: getattr(perfect, name)[:0]
        for name in ("wrong_images", "wrong_labels", "wrong_predictions", "wrong_confidences")
    }
    bare = dataclasses.replace(perfect, confusion=np.eye(21, dtype=int), features=[], feature_norms=[], **none)
    write_evaluation(folder / "evaluation.npz", bare)
    page = report_html([folder])
    assert "No image was misclassified." in page
    assert "<p>None.</p>" in page
    assert 'id="trajectory"' not in page


def test_features_without_norms(write_single, make_recipe, make_evaluation):
    folder = write_single(make_recipe())
    found = dataclasses.replace(make_evaluation(np.random.default_rng(0), 10), feature_norms=[])
    write_evaluation(folder / "evaluation.npz", found)
    assert 'id="trajectory"' in report_html([folder])


def test_curves_skip_what_was_not_measured(grid):
    found = bundles(list_series(read_runs([grid])), "val_loss")
    assert [bundle.index for bundle in found] == [0, 1]
    assert found[0].median[0].tolist() == [2, 4, 6, 8]
    assert bundles(list_series(read_runs([grid])), "unheard_of") == []


@pytest.mark.parametrize("losses", [[1.0], [9.0, 1.0, 0.001], [3.0, 1.0, 0.1], [np.nan, np.inf], [0.0, -1.0]])
def test_any_losses_can_be_drawn(write_single, make_recipe, losses):
    folder = write_single(make_recipe())
    write_metrics(folder / "metrics.csv", [{"train_loss": loss, "test_accuracy": 0.99} for loss in losses])
    page = report_html([folder])
    assert ("curve-train_loss-" in page) == np.isfinite(losses).all()


def test_failed_training_is_shown_as_it_is(write_single, make_recipe):
    folder = write_single(make_recipe())
    broken = dataclasses.replace(read_result(folder / "result.json"), loss=float("nan"), accuracy=float("nan"))
    write_result(folder / "result.json", broken)
    page = report_html([folder])
    assert "NaN" in page


def test_times_are_spread_and_keep_both_ends():
    assert chosen_times(1) == [0]
    assert chosen_times(5) == [0, 1, 2, 3, 4]
    spread = chosen_times(101)
    assert (spread[0], spread[-1], len(spread)) == (0, 100, 10)


def test_unknown_numbers_are_a_dash():
    assert {count(None), short(None), memory(None), percent(None), decimal(None), duration(None)} == {"–"}
    assert (percent(float("nan")), decimal(float("inf")), duration(59.97)) == ("NaN", "NaN", "1 min 00 s")
