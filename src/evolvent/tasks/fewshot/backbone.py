"""Features of classes that a trained classifier has never seen, from its run folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evolvent._core.errors import ConfigError, shortened
from evolvent._core.seals import unsealed
from evolvent._core.yaml_text import parse_yaml
from evolvent.data import FeatureSet, ImageData, ImageSet, Preprocess
from evolvent.networks import load
from evolvent.tasks.class_ranges import ClassRange, pooled
from evolvent.tasks.classification import Classification, ClassificationData
from evolvent.tasks.task import evaluating

_AT_ONCE = 500


def features_of_run(
    run: str | Path,
    classes: ClassRange | None = None,
    folder: Path | None = None,
    tell: Callable[[float], None] = lambda share: None,
) -> FeatureSet:
    """Features of all images of some classes, and the mean features of the classes that were trained on.

    Args:
        run: run folder of one trained classifier.
        classes: of the same data set; those that were neither trained on nor used for validation unless given.
        folder: where to look for the data set.
        tell: called with the share of the images that is done.
    """
    run = Path(run)
    section = _data_section(run)
    found = Classification.read(section, folder)
    base, novel = _base_images(found, section), (classes or _novel_classes(found, section)).all_images(found)
    model, preprocess = load(run / "model"), Preprocess.load(run / "model")
    total = len(base) + len(novel)
    with evaluating(model):
        vectors = _features(model, preprocess, novel.tensor, lambda done: tell(done / total))
        mean = _features(model, preprocess, base.tensor, lambda done: tell((done + len(novel)) / total)).mean(0)
    return FeatureSet(vectors, novel.labels, mean)


def remembered_features(run: Path, classes: ClassRange | None, folder: Path | None) -> FeatureSet:
    """:func:`features_of_run`, computed once for each state of a run folder."""
    config = run / "config.yaml"
    changed = config.stat().st_mtime_ns if config.is_file() else 0
    return _remembered(run, None if classes is None else (classes.first, classes.count), folder, changed)


@lru_cache(maxsize=4)
def _remembered(run: Path, classes: tuple[int, int] | None, folder: Path | None, changed: int) -> FeatureSet:
    chosen = None if classes is None else ClassRange(first=classes[0], count=classes[1])
    return features_of_run(run, chosen, folder)


def _data_section(run: Path) -> ClassificationData:
    """The recipe's data section of a trained classifier."""
    path = run / "config.yaml"
    advice = "Train a backbone with: evolvent run diffresnet-backbone-tiny --out RUN."
    if not path.is_file() or not (run / "model").is_dir():
        raise ConfigError(f"{run} is not the run folder of one trained network. {advice}")
    try:
        config: Any = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is damaged: {shortened(str(error))}.") from None
    config = unsealed(config, str(path)) if isinstance(config, dict) else {}
    match {"task": {"name": "classification"}, **config}:
        case {"task": {"name": "classification"}, "data": dict(section)}:
            return ClassificationData.read(section, str(path), "data")
    raise ConfigError(f"{run} is not the run of a classifier of images. {advice}")


def _base_images(found: ImageData, section: ClassificationData) -> ImageSet:
    return (section.classes.of(found) if section.classes else found).train


def _novel_classes(found: ImageData, section: ClassificationData) -> ClassRange:
    """The classes that follow those of training and validation."""
    used = [section.classes or ClassRange(count=len(found.classes))]
    used += [section.prototypes.classes] if section.prototypes else []
    first = max(part.first + part.count for part in used)
    if first >= len(found.classes):
        raise ConfigError(f"no class of {found.name} follows those that the backbone was trained on. Set data.classes.")
    return ClassRange(first=first, count=len(found.classes) - first)


def _features(model: nn.Module, preprocess: Preprocess, images: Tensor, tell: Callable[[int], None]) -> Tensor:
    found = []
    for start in range(0, len(images), _AT_ONCE):
        maps = model.forward_features(preprocess(images[start : start + _AT_ONCE]))  # pyright: ignore[reportCallIssue]
        found.append(pooled(maps))
        tell(min(start + _AT_ONCE, len(images)))
    return torch.cat(found)
