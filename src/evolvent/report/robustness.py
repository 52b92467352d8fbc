"""Accuracy on attacked and corrupted images, examples of them, and whether the figures can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.analysis.robustness import budget_text
from evolvent.report.analyses import analysed, median, numbers
from evolvent.report.lines import Bundle, Frame, line_panel
from evolvent.report.markup import image, legend, section, series_heading, swatch, table, text
from evolvent.report.numbers import NONE, count, percent
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.runs import Series
from evolvent.report.theme import series_colour

Found = Sequence[tuple[Series, list[dict[str, Any]]]]

_SHOWN = 3  # examples of a variant
_MEASURES = {
    "top1": "Top-1 accuracy",
    "top5": "Top-5 accuracy",
    "class_mean": "Mean over classes of their accuracy",
    "class_std": "Standard deviation over classes of their accuracy",
}
_SWEEP = Frame(
    "Accuracy over the budget", "largest change of a pixel, in levels of 255", "accuracy under PGD",
    y_unit="share", log_x=True, width=5.2, height=3.0,
)  # fmt: skip
_RESULTS = {True: "passed", False: "<strong>failed</strong>", None: NONE}


def robustness_section(all_series: Sequence[Series]) -> str:
    """Tables of all variants, then the examples of each."""
    found = analysed(all_series, "robustness")
    if not found:
        return ""
    lead = (
        f"{count(found[0][1][0]['count'])} test images, perturbed before preprocessing, where pixels lie between 0 and "
        "1. The number behind an attack is its budget, the largest change of a pixel. noise: normal, standard "
        "deviation 0.1; crop: the middle 7/8, enlarged; rotate: up to 30°; jitter: brightness, contrast, saturation "
        "and hue by up to 0.2, of grey images the first two."
    )
    if any(len(seeds) > 1 for _, seeds in found):
        lead += " Figures are medians over seeds."
    tables = "".join(_table(found, measure) for measure in _MEASURES)
    pictures = "".join(_examples(series, seeds[0], len(found) > 1) for series, seeds in found)
    return section("robustness", "Robustness", tables + pictures, lead)


def _table(found: Found, measure: str) -> str:
    """A row for each perturbation, a column for each variant; all but the first measure are folded."""
    columns = [{_title(one): [] for seed in seeds for one in seed["accuracies"]} for _, seeds in found]
    for column, (_, seeds) in zip(columns, found, strict=True):
        for seed in seeds:
            for one in seed["accuracies"]:
                column[_title(one)].append(one)
    titles = list(dict.fromkeys(title for column in columns for title in column))
    rows = [
        [text(title)]
        + [_share(median(column.get(title, []), lambda one: one[measure]), series, measure != "class_std")
           for column, (series, _) in zip(columns, found, strict=True)]
        for title in titles
    ]  # fmt: skip
    name = _MEASURES[measure]
    html = table(name, ["Images", *(swatch(series) + text(series.label) for series, _ in found)], rows)
    return f"<h3>{name}</h3>{html}" if measure == "top1" else f"<details><summary>{name}</summary>{html}</details>"


def _share(value: float | None, series: Series, bar: bool) -> str:
    written = text(percent(value, 2))
    if value is None or not bar:
        return written
    return f'{written}<i class="share" style="--c:{series_colour(series.index)};--s:{value:.3f}"></i>'


def _title(one: dict[str, Any]) -> str:
    return one["name"] if one["eps"] is None else f"{one['name']} {budget_text(one['eps'])}"


def _examples(series: Series, seed: dict[str, Any], headed: bool) -> str:
    """A row for each perturbation: the image as it is, as it was changed, and the change."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for example in seed["examples"]:
        rows.setdefault(example["title"], []).append(example)
    clean = rows.pop("clean", [])[:_SHOWN]
    if not clean or not rows:
        return ""
    columns = '<span class="trio"><span>clean</span><span>changed</span><span>change</span></span>'
    head = ["Images", *[columns] * len(clean)]
    body = [
        [text(title), *(_trio(before, after, seed["classes"]) for before, after in zip(clean, some, strict=False))]
        for title, some in rows.items()
    ]
    heading = series_heading(series) if headed else "<h3>Examples</h3>"
    note = (
        "Below an image stand the class it was given and the network's confidence; a change is magnified by the factor "
        "below it, around grey. True classes: "
        + ", ".join(f"{k}. {seed['classes'][one['label']]}" for k, one in enumerate(clean, 1))
        + "."
    )
    pictures = table(f"Perturbed images of {series.label}", head, body, "perturbed")
    return f"{heading}{pictures}<p><small>{text(note)}</small></p>"


def _trio(clean: dict[str, Any], changed: dict[str, Any], classes: Sequence[str]) -> str:
    said = [f"{classes[one['predicted']]} {percent(one['confidence'], 0)}" for one in (clean, changed)]
    factor = f"× {changed['magnified']:.{0 if changed['magnified'] >= 10 else 1}f}"
    parts = [
        _picture(clean["image"], f"clean image {clean['row']}", said[0]),
        _picture(changed["image"], f"image {clean['row']} under {changed['title']}", said[1]),
        _picture(changed["difference"], f"change of image {clean['row']} by {changed['title']}", factor),
    ]
    return f'<span class="trio">{"".join(parts)}</span>'


def _picture(values: Sequence[Any], description: str, caption: str) -> str:
    pixels = to_rgb(np.array(values, dtype=np.uint8))
    height, width = pixels.shape[:2]
    return f"<span>{image(png_uri(pixels), description, width, height)}<small>{text(caption)}</small></span>"


def masking_section(all_series: Sequence[Series]) -> str:
    """The verdict on each variant, its checks, and the accuracy over growing budgets."""
    found = analysed(all_series, "masking")
    if not found:
        return ""
    lead = (
        "Networks can look robust because gradients do not lead attacks to the adversarial images that exist. An "
        "attack that should be weaker must not do better than PGD, and with any image allowed nothing may stay right."
    )
    verdicts = "".join(f"<li>{swatch(series)}{text(series.label)}: {_verdict(seeds)}</li>" for series, seeds in found)
    bundles = [Bundle(series.label, series.index, [_curve(seed) for seed in seeds]) for series, seeds in found]
    plot = f'<div class="panels plots">{line_panel(bundles, _SWEEP, "masking")}</div>'
    checks = "".join(_checks(series, seeds[0]) for series, seeds in found)
    return section("masking", "Masked gradients", f"<ul>{verdicts}</ul>{legend(bundles)}{plot}{checks}", lead)


def _verdict(seeds: list[dict[str, Any]]) -> str:
    """That of the first seed which fails, or of all."""
    failed = [seed for seed in seeds if not seed["trusted"]]
    among = f" ({len(failed)} of {len(seeds)} seeds)" if failed and len(seeds) > 1 else ""
    return text((failed or seeds)[0]["verdict"] + among)


def _curve(seed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    return np.round(255 * numbers(seed["sweep_eps"]), 2), numbers(seed["sweep"])


def _checks(series: Series, seed: dict[str, Any]) -> str:
    rows = [[text(check["name"]), _RESULTS[check["passed"]], text(check["said"])] for check in seed["checks"]]
    looked_at = f"Checks of {series.label} with {budget_text(seed['eps'])}, {count(seed['count'])} images"
    html = table(f"Checks of {series.label}", ["Check", "Result", "Measured"], rows)
    return f"<details><summary>{swatch(series)}{text(looked_at)}</summary>{html}</details>"
