"""Tasks: what a network is trained for. One file per task; the engine knows them through :class:`Task` alone."""

from evolvent.tasks.findings import Figure, Findings
from evolvent.tasks.optimizers import OptimizerConfig, make_optimizer, needs_closure
from evolvent.tasks.points import Points
from evolvent.tasks.schedules import ScheduleConfig, learning_rate_factor
from evolvent.tasks.task import (
    TASKS,
    DataSettings,
    Plan,
    Setup,
    Sums,
    Task,
    TaskSettings,
    Turn,
    add_sums,
    check_turns,
    evaluating,
    register_task,
    to_device,
    trainable,
)
