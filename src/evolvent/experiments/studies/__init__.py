"""Studies: recipes that answer a question by a small computation of their own, one file each.

A study's file has ``Settings``, a configuration, and ``run(settings, seed, tell) -> Findings``, whose ``answer`` is one
sentence. It computes and returns; :mod:`evolvent.experiments.studies.run_folder` decides what is written where.
"""

from evolvent.experiments.studies._registry import Study, find_study, study_names

__all__ = ["Study", "find_study", "study_names"]
