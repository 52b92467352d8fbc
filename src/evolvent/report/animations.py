"""Points that move, as SVG that animates itself: no script, and still frames for paper and for reduced motion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from evolvent.report.bounds import evenly
from evolvent.report.markup import figure, section, text
from evolvent.report.subjects import Subject, folded, groups, left_out, pictured
from evolvent.report.theme import series_colour
from evolvent.tasks.findings import Animation

SIDE, MARGIN = 300, 10
SECONDS, REST = 7, 4  # length of a round, and the number of frames for which the last one stands
STILLS, MOST = 5, 17  # frames shown still, and moving
_POINTS, _ALL = 240, 480  # points of an animation, and of all of one title, at most
_CELLS = 80  # decision regions have at most so many rows and columns


def animations_sections(subjects: Sequence[Subject]) -> str:
    """A section for each title, with the first seed of each subject."""
    html = ""
    for k, group in enumerate(groups(subjects, "animations")):
        limit = min(_POINTS, _ALL // len(pictured(group)))
        blocks = [folded(found, group, _animation(found.items[0], limit)) for found in pictured(group)]
        html += section(f"animation-{k}", group.title, "".join(blocks), left_out(group).strip())
    return html


def _animation(animation: Animation, limit: int) -> str:
    """The decision regions, the moving points and a strip of still frames."""
    kept = evenly(animation.frames.shape[1], limit)
    frames, labels = np.nan_to_num(animation.frames.astype(np.float64))[:, kept], animation.labels[kept]
    places = _places(frames, animation.one_scale)
    marked = np.zeros(len(labels), dtype=bool) if animation.marked is None else animation.marked[kept]
    description = f"{animation.title}: {len(kept)} points, coloured by class"
    moving = _svg(f"{description}, moving from first to last", _moving(places, labels, marked))
    captions = animation.captions or [f"t = {t} of {len(places) - 1}" for t in range(len(places))]
    scaled = "" if animation.one_scale else ", each frame scaled"
    rims = "; points with a label have a rim" if marked.any() else ""
    panels = [figure(moving, f"Through time{scaled}{rims}", "card moving")]
    if animation.regions is not None:
        regions = _decisions(animation, frames[0], labels)
        panels.insert(0, figure(regions, "Decision regions", "card"))
    return f'<div class="panels flows">{"".join(panels)}</div>{_stills(places, labels, marked, captions, description)}'


def _places(frames: np.ndarray, one_scale: bool) -> np.ndarray:
    """Positions in the picture, which each frame or all of them together fill, with the same scale for both axes."""
    over = (0, 1) if one_scale else 1
    low, high = frames.min(axis=over, keepdims=True), frames.max(axis=over, keepdims=True)  # (T or 1, 1, 2)
    sizes = (high - low).max(axis=2, keepdims=True)
    return _scaled(frames, (low + high) / 2, np.where(sizes > 0, sizes, 1.0))


def _scaled(points: np.ndarray, centre: np.ndarray, size: float | np.ndarray) -> np.ndarray:
    scale = (SIDE - 2 * MARGIN) / size
    offset = (points - centre) * scale * np.array([1.0, -1.0])  # SVG's second axis points down
    return np.round(offset + SIDE / 2, 1)


def _moving(places: np.ndarray, labels: np.ndarray, marked: np.ndarray) -> str:
    """Every circle holds its whole path, and starts where the path does."""
    shown = places[evenly(len(places), MOST)]
    timing = f'dur="{SECONDS}s" repeatCount="indefinite"'
    circles = []
    for k, label in enumerate(labels.tolist()):
        paths = [";".join(_numbers([*values, *values[-1:] * REST])) for values in shown[:, k].T.tolist()]
        moves = "".join(
            f'<animate attributeName="{axis}" {timing} values="{path}"/>'
            for axis, path in zip(("cx", "cy"), paths, strict=True)
        )
        circles.append(f"{_circle(places[0, k], label, 3.2, marked[k])}{moves}</circle>")
    arrival = (len(shown) - 1) / (len(shown) - 1 + REST)
    clock = (
        f'<path class="clock" d="M{MARGIN} {SIDE - 3}H{SIDE - MARGIN}" pathLength="1" stroke-dasharray="1" '
        f'stroke-dashoffset="1"><animate attributeName="stroke-dashoffset" {timing} '
        f'keyTimes="0;{arrival:.3f};1" values="1;0;0"/></path>'
    )
    return clock + "".join(circles)


def _stills(
    places: np.ndarray, labels: np.ndarray, marked: np.ndarray, captions: Sequence[str], description: str
) -> str:
    strip = []
    for t in evenly(len(places), STILLS):
        dots = "".join(
            f"{_circle(p, label, 4.0, mark)}</circle>"
            for p, label, mark in zip(places[t], labels.tolist(), marked, strict=True)
        )
        still = _svg(f"{description}, frame {t} of {len(places) - 1}", dots)
        strip.append(figure(still, captions[t]))
    return f'<div class="stills">{"".join(strip)}</div>'


def _decisions(animation: Animation, points: np.ndarray, labels: np.ndarray) -> str:
    """The class of every point of the plane, and the first frame's points above."""
    left, right, bottom, top = animation.extent or _extent(points)
    centre, size = np.array([(left + right) / 2, (bottom + top) / 2]), max(right - left, top - bottom) or 1.0
    (x0, y1), (x1, y0) = _scaled(np.array([[left, bottom], [right, top]]), centre, size).tolist()
    placed = zip(_scaled(points, centre, size), labels.tolist(), strict=True)
    dots = "".join(f"{_circle(place, label, 2.6)}</circle>" for place, label in placed)
    regions = np.asarray(animation.regions)
    rows, columns = (evenly(n, _CELLS) for n in regions.shape)
    bars = _bars(regions[rows][:, columns][::-1], x0, y0, x1 - x0, y1 - y0)
    return _svg(
        f"{animation.title}: the class given to each point of the plane", f'<g class="regions">{bars}</g>{dots}'
    )


def _extent(points: np.ndarray) -> tuple[float, float, float, float]:
    (left, bottom), (right, top) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
    return left, right, bottom, top


def _bars(classes: np.ndarray, x: float, y: float, width: float, height: float) -> str:
    """Runs of the same class in each row, the highest row first."""
    down, across = height / classes.shape[0], width / classes.shape[1]
    bars = []
    for row, found in enumerate(classes.tolist()):
        place = 0
        for label, run in groupby(found):
            length = len(list(run))
            bars.append(
                f'<path d="M{x + place * across:.1f} {y + (row + 0.5) * down:.1f}h{length * across:.1f}" '
                f'stroke="{series_colour(label)}"/>'
            )
            place += length
    return f'<g stroke-width="{down + 0.4:.2f}">{"".join(bars)}</g>'


def _circle(place: np.ndarray, label: int, radius: float, marked: bool = False) -> str:
    x, y = _numbers(place.tolist())
    look = f'r="{2 * radius}" class="marked"' if marked else f'r="{radius}"'
    return f'<circle cx="{x}" cy="{y}" {look} fill="{series_colour(label)}">'


def _numbers(values: Sequence[float]) -> list[str]:
    return [f"{value:.4g}" for value in values]


def _svg(description: str, html: str) -> str:
    attributes = f'class="points" role="img" aria-label="{text(description)}" viewBox="0 0 {SIDE} {SIDE}"'
    return f"<svg {attributes}>{html}</svg>"
