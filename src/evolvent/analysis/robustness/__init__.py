"""How a classifier stands up to attacks and to corrupted images, and whether the figures can be trusted."""

from evolvent.analysis.robustness.apgd import APGD
from evolvent.analysis.robustness.attack import ATTACKS, Attack, make_attack
from evolvent.analysis.robustness.audit import Check, MaskingAudit, audit_masking
from evolvent.analysis.robustness.budgets import PAPER_BUDGETS, budget_text, parse_budgets
from evolvent.analysis.robustness.corruptions import CORRUPTIONS, corrupt
from evolvent.analysis.robustness.ensemble import Auto
from evolvent.analysis.robustness.fab import FAB
from evolvent.analysis.robustness.gradient_sign import FGSM, PGD
from evolvent.analysis.robustness.measure import (
    PAPER_CORRUPTIONS,
    Example,
    PerturbedAccuracy,
    Robustness,
    measure_robustness,
)
from evolvent.analysis.robustness.square import Square
from evolvent.analysis.robustness.victim import AttackWarning, OfBytes

__all__ = [
    "APGD",
    "ATTACKS",
    "CORRUPTIONS",
    "FAB",
    "FGSM",
    "PAPER_BUDGETS",
    "PAPER_CORRUPTIONS",
    "PGD",
    "Attack",
    "AttackWarning",
    "Auto",
    "Check",
    "Example",
    "MaskingAudit",
    "OfBytes",
    "PerturbedAccuracy",
    "Robustness",
    "Square",
    "audit_masking",
    "budget_text",
    "corrupt",
    "make_attack",
    "measure_robustness",
    "parse_budgets",
]
