"""What a recipe says of a problem and of how it is solved."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from evolvent._core.config import Config
from evolvent.tasks.optimizers import OptimizerConfig
from evolvent.tasks.pde.ansatz import Ansatz, Hardness
from evolvent.tasks.schedules import ScheduleConfig
from evolvent.tasks.task import DataSettings, TaskSettings


class LossWeights(Config):
    """Factors of the parts of the objective, each the mean of a square; a part of weight 0 is not computed."""

    equation: float = Field(default=1.0, ge=0)
    initial: float = Field(default=10.0, ge=0)
    boundary: float = Field(default=10.0, ge=0)
    conditions: float = Field(default=10.0, ge=0)
    samples: float = Field(default=100.0, ge=0)


PART_NAMES = tuple(LossWeights.model_fields)
"""Names of the parts of the objective."""


class WeightingSettings(Config):
    """Factors that are renewed after each epoch; see :class:`~evolvent.tasks.pde.weighting.Weighting`."""

    causal: float | None = Field(default=None, gt=0, description="how strongly later times wait for earlier ones")
    slabs: int = Field(default=16, ge=2, description="slabs of time, for causal weights")
    attention: float | None = Field(
        default=None, ge=0, lt=1, description="points with large residuals gain weight; this share of it is kept"
    )
    balance: bool = Field(default=False, description="make the gradients of all parts of the objective equally large")
    pseudo_time: float | None = Field(
        default=None, gt=0, description="step of pseudo-time, as a share of time; the training follows a path"
    )


class Phase(Config):
    """A part of the training with an optimiser, weights or coefficients of its own."""

    steps: int = Field(ge=1)
    optimizer: OptimizerConfig = OptimizerConfig(name="adam", lr=1e-3)
    schedule: ScheduleConfig = ScheduleConfig()
    coefficients: dict[str, float] = Field(
        default={}, description="coefficients of the equation in this phase, in place of the problem's"
    )
    weights: LossWeights | None = Field(default=None, description="weights in this phase; the task's if null")


def phase_name(number: int) -> str:
    """Name of the turn of a phase, counted from 0."""
    return f"phase{number + 1}"


class LibrarySettings(Config):
    r"""Terms of an unknown equation, :math:`u^i\,\partial^j u`, and how those that are not needed are left out."""

    powers: int = Field(default=3, ge=0, description="the highest i")
    orders: int = Field(default=3, ge=1, description="the highest j")
    eliminate_at: list[int] = Field(default=[], description="epochs after which terms are left out")
    growth: float = Field(
        default=2.0, gt=1, description="a term is left out if the squared residual grows by less than this factor"
    )
    significance: float | None = Field(
        default=None,
        gt=0,
        description="a term is left out if its coefficient is less than this many standard errors; instead of growth",
    )


class PdeSettings(TaskSettings):
    """The objective, the phases before the recipe's own optimiser, and what is shown."""

    name: str = "pde"
    method: Literal["pinn", "galerkin", "ritz"] = Field(
        default="pinn",
        description="the residual at chosen points (pinn) or at new random ones in each step (galerkin), or the energy "
        "at new random points (ritz)",
    )
    weights: LossWeights = LossWeights()
    weighting: WeightingSettings | None = Field(default=None, description="factors that follow the training")
    phases: list[Phase] = Field(default=[], description="before the recipe's own optimiser takes over")
    initial: Hardness = Field(
        default="soft", description="ask for the initial value (soft), or blend it into the solution (hard)"
    )
    boundary: Hardness = Field(
        default="soft", description="ask for the values on the boundary of space (soft), or build them in (hard)"
    )
    blend: float = Field(default=0.1, gt=0, description="time constant of the hard initial value, as a share of time")
    profile: bool = Field(
        default=False, description="add the known profile of the problem, such as a smoothed kink of its initial value"
    )
    resample_at: list[int] = Field(
        default=[], description="epochs after which points are drawn anew, more of them where the residual is large"
    )
    candidates: int = Field(default=6, ge=1, description="points to draw from for each one that is kept")
    unknown: dict[str, float] = Field(
        default={}, description="coefficients of the equation that are looked for, with the values to begin with"
    )
    library: LibrarySettings | None = Field(default=None, description="find the equation instead of using it")
    times: list[float] = Field(default=[], description="times at which the solution is drawn and its error measured")

    @model_validator(mode="after")
    def _knows_its_profile(self) -> PdeSettings:
        if self.profile and (self.unknown or self.library):
            raise ValueError("profile is made with the coefficients that are to be found; leave it out")
        return self

    @property
    def ansatz(self) -> Ansatz:
        """How a network is a solution."""
        return Ansatz(self.initial, self.blend, self.boundary, self.profile)


class PdeData(DataSettings):
    """Which problem, where the equation is asked to hold, and which samples of the solution there are."""

    name: str = Field(default="allen-cahn", description="name of the problem")
    options: dict[str, Any] = Field(default={}, description="options of the problem")
    points: int = Field(default=4000, ge=1, description="number of points where the equation is asked to hold")
    sampler: Literal["uniform", "latin", "sobol"] = "sobol"
    fresh: bool = Field(default=False, description="new points in each pass over them")
    within: dict[str, tuple[float, float]] = Field(
        default={}, description="ends of coordinates where points and samples are drawn from a part of the domain"
    )
    face_points: int = Field(
        default=400, ge=1, description="points for the initial value, the boundary of space and each further condition"
    )
    samples: int = Field(default=0, ge=0, description="points where the solution is known")
    file: str | None = Field(
        default=None, description="npz file of measured samples, with arrays points and values, in place of samples"
    )
    noise: float = Field(default=0.0, ge=0, description="noise of samples, as a share of their standard deviation")
    grid: list[int] = Field(
        default=[256, 101],
        description="points along each coordinate where errors are measured; if empty, test_points random ones instead",
    )
    test_points: int = Field(
        default=10000, ge=1, description="random points where errors are measured if grid is empty"
    )
