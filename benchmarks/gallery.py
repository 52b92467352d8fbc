"""Every problem solved in one call with the same few iterations: error, CPU seconds and verdict, one thread.

``python gallery.py`` runs them all, ``python gallery.py heat kdv`` some of them beside what is stored; ``--table``
prints what is stored as the table of the documentation. Lengths are given in steps, so that other load changes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from results import PACKAGES, store

import evolvent as ev
from evolvent.experiments.freed_memory import keep_freed_memory

STORED = Path(__file__).parent / "results" / "gallery.json"
_ADAM = "task.phases=[{steps: 5, optimizer: {name: adam, lr: 0.005, iterations: 50}}]"
_PINN = [_ADAM, "data.points=1000", "optimizer.iterations=50", "training.steps=25", "task.resample_at=[]"]
_NEWTON = [_ADAM, "optimizer.name=gauss-newton", "optimizer.iterations=1", "data.points=500", "training.steps=65"]
_GAUSS_NEWTON = {"settings": [*_NEWTON, "task.resample_at=[]", "training.epoch_steps=20"]}
_NEW_POINTS = ["data.points=1000", "training.steps=3000", "training.epoch_steps=500"]
_RITZ = {"method": "ritz", "settings": _NEW_POINTS}
_WEIGHTS = {
    "causal weights": "{causal: 1.0}",
    "attention": "{attention: 0.9}",
    "balanced gradients": "{balance: true}",
    "pseudo-time": "{pseudo_time: 1.0}",
}
CASES: dict[str, dict[str, Any]] = {
    "heat": {},
    **{f"heat, {name}": {"settings": [*_PINN, f"task.weighting={how}"]} for name, how in _WEIGHTS.items()},
    "advection-diffusion": {},
    "poisson": {},
    "poisson, galerkin": {"method": "galerkin", "settings": _NEW_POINTS},
    "poisson, ritz": _RITZ,
    "poisson, gauss-newton": _GAUSS_NEWTON,
    "poisson-disc": {},
    "poisson-disc, ritz": _RITZ,
    "poisson-l-shape": {},
    "helmholtz": {},
    "helmholtz, gauss-newton": _GAUSS_NEWTON,
    "eigenvalue, ritz": _RITZ,
    "fractional-poisson": {},
    "allen-cahn-front": {},
    "schroedinger": {},
    "kdv": {},
    "kuramoto-sivashinsky": {},
}


def solved(case: str) -> dict[str, Any]:
    name = case.partition(",")[0]
    began = time.process_time()
    given: dict[str, Any] = {"settings": _PINN} | CASES[case]
    u = ev.solve(name, budget="30m", second=False, **given)
    spent = time.process_time() - began
    assert u.trust is not None
    found = {"error": u.figures.get("error"), "cpu_seconds": round(spent, 1), "trusted": u.trust.trusted}
    print(case, found, flush=True)
    return found | {"verdict": u.trust.verdict}


def table(found: dict[str, Any]) -> str:
    rows = ["| problem | relative L2 error | CPU seconds | trusted |", "|---|---|---|---|"]
    for case in CASES:
        if case in found:
            one = found[case]
            name, comma, how = case.partition(", ")
            title = f"`{name}`{comma}{how}"
            verdict = "yes" if one["trusted"] else "no"
            rows.append(f"| {title} | {one['error']:.1e} | {one['cpu_seconds']:.0f} | {verdict} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    found = json.loads(STORED.read_text(encoding="utf-8"))["found"] if STORED.is_file() else {}
    if not given.table:
        torch.set_num_threads(1)
        keep_freed_memory()
        for case in given.cases or CASES:
            found[case] = solved(case)
            store("gallery", {"found": found}, PACKAGES)
    print(table(found))


if __name__ == "__main__":
    main()
