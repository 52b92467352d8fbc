"""The section of coefficients: a row of maps for each layer of the first seed, and what each layer uses most."""

import re

import pytest
import torch

from evolvent.analysis import coefficient_maps
from evolvent.groups import cyclic, regular_fields
from evolvent.operators.differential import FieldPooling, NeuralEPDO
from evolvent.report.analyses import analysis_path, write_analysis
from evolvent.report.coefficients import coefficients_section
from evolvent.report.runs import list_series, read_runs


@pytest.fixture
def html(grid) -> str:
    torch.manual_seed(0)
    field = regular_fields(cyclic(4), 2)
    layers = [NeuralEPDO(field, partitions=2), FieldPooling(field), NeuralEPDO(field, order=2, partitions=2)]
    found = coefficient_maps(torch.nn.Sequential(*layers), torch.randn(2, 8, 10, 10))
    for folder in (grid / "cells").glob("resnet*"):
        write_analysis(analysis_path(folder, "coefficients"), "coefficients", found)
    return coefficients_section(list_series(read_runs([grid])))


def test_each_image_has_a_picture_with_a_map_for_each_order(html):
    assert html.count("<svg") == 2
    assert html.count("Other images") == 1
    first = html[html.index("<svg") : html.index("</svg>")]
    for title in ("identity", "first derivative", "Laplacian", "second, directed", "order 1", "order 4"):
        assert f">{title}</text>" in first, title
    assert first.count("<image") == 2 * 8 + 8 + 6  # the input below every map; the second layer has no orders 3 and 4


def test_the_caption_says_which_order_is_used_most(html):
    caption = re.search(r"<figcaption>(.*?)</figcaption>", html)
    assert caption
    assert re.search(r"0: order \d has \d+\s%; 2: order \d has \d+\s%", caption[1])


def test_without_an_analysis_there_is_no_section(grid):
    assert coefficients_section(list_series(read_runs([grid]))) == ""
