"""Tasks: what a network is trained for. One file per task; the engine knows them through :class:`Task` alone."""

from evolvent.tasks.bsde import Bsde
from evolvent.tasks.classification import Classification
from evolvent.tasks.fewshot import FewShot
from evolvent.tasks.findings import (
    Animation,
    Curve,
    Features,
    Field,
    Figure,
    Findings,
    Gallery,
    LabelMaps,
    Matrix,
    Table,
)
from evolvent.tasks.nodes import Nodes
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer, needs_closure
from evolvent.tasks.pde import Pde
from evolvent.tasks.points import Points
from evolvent.tasks.prnet import PRNet
from evolvent.tasks.schedules import ScheduleConfig, learning_rate_factor
from evolvent.tasks.segmentation import Segmentation
from evolvent.tasks.task import (
    TASKS,
    DataSettings,
    LabelledImages,
    Setup,
    Sums,
    Task,
    TaskSettings,
    add_sums,
    evaluating,
    mean_over_processes,
    register_task,
    to_device,
    trainable,
)
from evolvent.tasks.transport import Transport, energy_distance
from evolvent.tasks.turns import Plan, Turn, check_turns

__all__ = [
    "TASKS",
    "Animation",
    "Bsde",
    "Classification",
    "Curve",
    "DataSettings",
    "Features",
    "FewShot",
    "Field",
    "Figure",
    "Findings",
    "Gallery",
    "LabelMaps",
    "LabelledImages",
    "Matrix",
    "Nodes",
    "OptimizerConfig",
    "PRNet",
    "Pde",
    "Plan",
    "Points",
    "ScheduleConfig",
    "Segmentation",
    "Setup",
    "Sums",
    "Table",
    "Task",
    "TaskSettings",
    "Transport",
    "Turn",
    "add_sums",
    "check_turns",
    "energy_distance",
    "evaluating",
    "learning_rate_factor",
    "make_optimizer",
    "mean_over_processes",
    "needs_closure",
    "register_task",
    "to_device",
    "trainable",
]
