"""Galleries: pictures with captions, those that matter most first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.report.markup import figure, image, section
from evolvent.report.pixels import png_uri, to_rgb
from evolvent.report.subjects import PICTURED, Subject, folded, groups, left_out
from evolvent.tasks.findings import Gallery

_EACH, _ALL, _LEAST = 24, 72, 4  # pictures of a subject, of a gallery, and of a subject if there are many


@dataclass(frozen=True)
class Picture:
    """One picture of a gallery."""

    image: np.ndarray  # (C, H, W) uint8
    caption: str
    weight: float


def galleries_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title, with a grid of pictures per subject."""
    html = ""
    for k, group in enumerate(groups(subjects, "galleries")):
        shown = group.found[:PICTURED]
        limit = min(_EACH, max(_LEAST, _ALL // len(shown)))
        blocks = [folded(found, group, _grid(heaviest(found.items, limit))) for found in shown]
        lead = next((gallery.lead for found in shown for gallery in found.items if gallery.lead), "")
        html += section(f"gallery-{k}", group.title, "".join(blocks), (lead + left_out(group)).strip())
    return html


def heaviest(galleries: Sequence[Gallery], limit: int = _EACH) -> list[Picture]:
    """The pictures of largest weight over all seeds, each image once."""
    found = [
        Picture(pixels, caption, float(weight))
        for gallery in galleries
        for pixels, caption, weight in zip(gallery.images, gallery.captions, gallery.weights, strict=True)
    ]
    found.sort(key=lambda picture: -picture.weight)
    distinct: dict[bytes, Picture] = {}
    for picture in found:
        distinct.setdefault(picture.image.tobytes(), picture)
    return list(distinct.values())[:limit]


def _grid(pictures: Sequence[Picture]) -> str:
    return f'<div class="thumbnails">{"".join(map(_thumbnail, pictures))}</div>' if pictures else "<p>None.</p>"


def _thumbnail(picture: Picture) -> str:
    pixels = to_rgb(picture.image)
    height, width = pixels.shape[:2]
    return figure(image(png_uri(pixels), picture.caption or "picture", width, height), picture.caption)
