"""Studies: recipes that answer a question by a small computation of their own, one file each.

A study's file has ``Settings``, a configuration, and ``run(settings, seed, tell) -> StudyResult``. It computes and
returns; what is written where is the business of :mod:`evolvent.experiments.studies.run_folder`.
"""

from evolvent.experiments.studies._registry import Study, find_study, study_names
from evolvent.experiments.studies.result import Animation, Curve, Regions, StudyResult, Table, Tell

__all__ = ["Animation", "Curve", "Regions", "Study", "StudyResult", "Table", "Tell", "find_study", "study_names"]
