"""PR-Net: classifiers whose features solve an equation that is learned at the same time."""

from evolvent.tasks.prnet.checks import CoordinateLostWarning, DrownedLossWarning
from evolvent.tasks.prnet.task import PRNet

__all__ = ["CoordinateLostWarning", "DrownedLossWarning", "PRNet"]
