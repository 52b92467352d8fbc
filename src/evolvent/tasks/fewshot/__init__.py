"""Few-shot learning: methods, exact training of many episodes at once, and the task."""

from evolvent.tasks.fewshot.algebra import train_episodes, train_plainly
from evolvent.tasks.fewshot.backbone import features_of_run
from evolvent.tasks.fewshot.descent import Descent
from evolvent.tasks.fewshot.methods import Classifier, Method, propagate_labels
from evolvent.tasks.fewshot.objective import EpisodeObjective
from evolvent.tasks.fewshot.prototypes import centre_and_normalise, prototypes, rectified_prototypes, shift_query
from evolvent.tasks.fewshot.task import FewShot

__all__ = [
    "Classifier",
    "Descent",
    "EpisodeObjective",
    "FewShot",
    "Method",
    "centre_and_normalise",
    "features_of_run",
    "propagate_labels",
    "prototypes",
    "rectified_prototypes",
    "shift_query",
    "train_episodes",
    "train_plainly",
]
