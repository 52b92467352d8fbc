"""What the pictures show, and the colours they show it in."""

import base64
import dataclasses
import io
import itertools

import numpy as np
import pytest

from evolvent.data.known.street_scenes import BDD100K, CAMVID
from evolvent.experiments.record import read_findings, read_result, write_metrics, write_result
from evolvent.report import report_html, theme
from evolvent.report.animations import _animation, _places
from evolvent.report.axes import new_plot, unit_axis
from evolvent.report.curves import curves_section, metric_bundles
from evolvent.report.fields import _colours, _panel
from evolvent.report.galleries import heaviest
from evolvent.report.label_maps import class_colours, coloured
from evolvent.report.matrices import most_confused, total
from evolvent.report.numbers import NONE, decimal, duration, percent, short, write
from evolvent.report.pixels import heat, png_uri, shrink, signed_strip, to_rgb
from evolvent.report.runs import list_series, read_runs
from evolvent.report.subjects import groups, read_subjects
from evolvent.report.tables import tables_section
from evolvent.tasks.findings import Animation, Field, Findings, Gallery, Matrix, Table


@pytest.mark.parametrize("span", [(0.472, 0.528), (0.0893, 0.0988), (0.0, 1.0), (0.9712, 0.9713), (0.0, 3e-9)])
def test_percent_ticks_say_where_they_are(span):
    _, axes = new_plot()
    axes.set_ylim(*span)
    unit_axis(axes.yaxis, "share")
    places = axes.get_yticks()
    said = [axes.yaxis.get_major_formatter()(tick, k) for k, tick in enumerate(places)]
    written = [float(text.removesuffix(" %").replace("\N{MINUS SIGN}", "-")) / 100 for text in said]
    assert written == pytest.approx(list(places), rel=1e-6, abs=1e-15)


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


def subjects_of(folder):
    return read_subjects(list_series(read_runs([folder])))


def test_matrices_are_summed_over_seeds(grid):
    found = groups(subjects_of(grid), "matrices")[0].found[0]
    single = [read_findings(path).matrices[0].counts for path in sorted(grid.glob("cells/hamiltonian-*"))]
    np.testing.assert_array_equal(total(found.items), sum(single))


def test_a_perfect_network_confuses_nothing():
    assert most_confused(np.diag([4, 5, 6])) == []


def test_pictures_come_by_weight_and_once(grid):
    gallery = groups(subjects_of(grid), "galleries")[0].found[0].items[0]
    found = heaviest([gallery, gallery])
    weights = [picture.weight for picture in found]
    assert len(found) == 24
    assert weights == sorted(weights, reverse=True)
    assert len({picture.image.tobytes() for picture in found}) == 24


def test_perfect_network_of_many_classes(write_single, make_recipe):
    names = [str(k) for k in range(21)]
    none = Gallery("Mistakes", np.zeros((0, 1, 4, 4), np.uint8), [], np.zeros(0))
    found = Findings(matrices=[Matrix("Confusion", names, np.eye(21, dtype=int))], galleries=[none])
    page = report_html([write_single(make_recipe(), findings=found)])
    assert "No class was taken for another." in page
    assert "<p>None.</p>" in page


def test_features_without_norms(write_single, make_recipe, make_findings):
    features = make_findings["images"](np.random.default_rng(0), ["a", "b"]).features[0]
    found = Findings(features=[dataclasses.replace(features, norms=[])])
    assert 'id="features-0"' in report_html([write_single(make_recipe(), findings=found)])


@pytest.mark.parametrize("values", [np.full((3, 4), 2.0), np.full((3, 4), np.nan), np.zeros((1, 1))])
def test_any_field_can_be_drawn(write_single, make_recipe, check, values):
    found = Findings(
        fields=[Field("u", values, (0.0, 1.0, 0.0, 1.0), reference=values), Field("v", values, (0, 1, 0, 1))]
    )
    check(report_html([write_single(make_recipe(), findings=found)]))


def test_the_lowest_row_of_a_field_is_drawn_below():
    pixels = _colours(np.array([[0.0, 1.0], [np.nan, 0.5]]), 0.0, 1.0, "viridis")
    assert pixels[1, 0].tolist() == [0, 0, 0, 0]
    assert pixels[0, 0, :3].sum() < pixels[0, 1, :3].sum()


def test_tables_of_numbers_are_joined_with_medians(streets):
    html = tables_section(subjects_of(streets))
    found = groups(subjects_of(streets), "tables")[0].found
    values = [table.rows[0][1] for table in found[0].items]
    assert percent(float(np.median(values))).replace(" ", "\N{NO-BREAK SPACE}") in html
    assert html.count("<table>") == 1
    assert NONE in html


def test_columns_that_agree_are_written_once(write_grid, make_recipe, make_findings):
    html = tables_section(subjects_of(write_grid(make_recipe(), find=make_findings["points"])))
    assert html.count('<th scope="col">') == 3
    assert "1\N{NO-BREAK SPACE}min 01\N{NO-BREAK SPACE}s" in html


def test_tables_with_text_have_a_block_for_each_variant(write_grid, make_recipe):
    def find(rng):
        return Findings(tables=[Table("Figures", ["n", "what", "time"], [["a", "text", 12345]])])

    html = tables_section(subjects_of(write_grid(make_recipe(), find=find)))
    assert html.count("<table>") == 2
    for words in ("12,345", "text", "Of several seeds the first."):
        assert words in html


def test_curves_of_one_series_share_a_plot_and_others_have_their_own(grid, equation):
    one, several = curves_section(subjects_of(grid)), curves_section(subjects_of(equation))
    assert one.count("<svg") == 1
    assert "in figures, medians over seeds" in one
    assert several.count("<svg") == 2
    assert "Parts of the objective, resnet" in several


def test_many_seeds_are_a_band(write_grid, make_recipe):
    few = write_grid(make_recipe("few", seeds=list(range(12)), variants={"a": {}}), find=None)
    many = write_grid(make_recipe("many", seeds=list(range(13)), variants={"a": {}}), find=None)
    assert "Thin lines are single seeds" in report_html([few])
    page = report_html([many])
    assert "10th to the 90th percentile" in page
    assert 'class="range"' in page
    assert len(page) < len(report_html([few]))


def test_training_curves_skip_what_was_not_measured(grid):
    found = metric_bundles(list_series(read_runs([grid])), "val_loss")
    assert [bundle.index for bundle in found] == [0, 1]
    assert found[0].median[0].tolist() == [2, 4, 6, 8]
    assert metric_bundles(list_series(read_runs([grid])), "unheard_of") == []


@pytest.mark.parametrize("losses", [[1.0], [9.0, 1.0, 0.001], [3.0, 1.0, 0.1], [np.nan, np.inf], [0.0, -1.0]])
def test_any_losses_can_be_drawn(write_single, make_recipe, losses):
    folder = write_single(make_recipe(), findings=Findings())
    write_metrics(folder / "metrics.csv", [{"train_loss": loss, "test_accuracy": 0.99} for loss in losses])
    page = report_html([folder])
    assert ("training-train_loss-" in page) == np.isfinite(losses).all()


def test_failed_training_has_no_figures(write_single, make_recipe):
    folder = write_single(make_recipe(), findings=Findings())
    failed = dict.fromkeys(("accuracy", "error", "loss"), float("nan"))
    write_result(folder, dataclasses.replace(read_result(folder), figures=failed))
    page = report_html([folder])
    assert "1 of 1 cells have finished; none has a score." in page


@pytest.mark.parametrize("classes", [CAMVID, BDD100K, tuple("abcdefghijkl")])
def test_classes_of_a_set_have_colours_of_their_own(classes):
    assert len(set(class_colours(classes))) == len(classes)


def test_labels_are_coloured_by_class_and_empty_elsewhere():
    picture = coloured(np.array([[0, 1], [2, 255]], np.uint8), ["sky", "road"])
    assert picture.shape == (2, 2, 4)
    assert "#" + picture[0, 0, :3].tobytes().hex() == class_colours(["sky", "road"])[0]
    assert picture[..., 3].tolist() == [[255, 255], [0, 0]]


def test_unknown_numbers_are_a_dash():
    assert {write(None, unit) for unit in ("share", "number", "count", "seconds", "bytes")} == {NONE}
    assert (short(None), percent(float("nan")), decimal(float("inf")), duration(59.97)) == (
        NONE,
        "NaN",
        "NaN",
        "1 min 00 s",
    )


def test_moving_points_keep_one_scale_if_asked():
    frames = np.array([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [9.0, 0.0]]])
    each, all_at_once = (_places(frames, one_scale) for one_scale in (False, True))
    assert np.ptp(each[0, :, 0]) == np.ptp(each[1, :, 0])
    assert np.ptp(all_at_once[0, :, 0]) == pytest.approx(np.ptp(all_at_once[1, :, 0]) / 9, abs=0.1)
    shown = Animation("walk", frames, np.zeros(2, dtype=int), one_scale=True)
    assert "each frame scaled" not in _animation(shown, 10)
    assert "each frame scaled" in _animation(dataclasses.replace(shown, one_scale=False), 10)


def test_marked_points_stand_out():
    shown = Animation("walk", np.random.default_rng(0).normal(size=(2, 9, 2)), np.zeros(9, dtype=int))
    assert 'class="marked"' not in _animation(shown, 9)
    drawn = _animation(dataclasses.replace(shown, marked=np.arange(9) < 2), 9)
    assert "points with a label have a rim" in drawn
    assert drawn.count('class="marked"') == 2 * 3  # in the animation and both still frames


def test_paths_are_drawn_over_a_field():
    field = Field("hill", np.zeros((4, 4)), (0.0, 1.0, 0.0, 1.0))
    paths = np.linspace(0, 1, 12).reshape(3, 2, 2)
    drawn = [
        _panel(one, field.values, (0, 1), "viridis", "", "f")
        for one in (field, dataclasses.replace(field, paths=paths))
    ]
    assert drawn[1].count("#ffffff") >= drawn[0].count("#ffffff") + 3
