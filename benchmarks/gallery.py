"""Every problem solved in one call within a short budget: error, CPU seconds and verdict, one thread.

``python gallery.py`` runs them all, ``python gallery.py heat kdv`` some of them beside what is stored; ``--table``
prints what is stored as the table of the documentation. ``--budget`` is the wall-clock time of each.
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
_GAUSS_NEWTON = ["optimizer.name=gauss-newton", "optimizer.iterations=1", "data.points=500", "task.resample_at=[]"]
CASES: dict[str, dict[str, Any]] = {
    "heat": {},
    "advection-diffusion": {},
    "poisson": {},
    "poisson, galerkin": {"method": "galerkin"},
    "poisson, ritz": {"method": "ritz"},
    "poisson, gauss-newton": {"settings": _GAUSS_NEWTON},
    "poisson-disc": {},
    "poisson-disc, ritz": {"method": "ritz"},
    "poisson-l-shape": {},
    "helmholtz": {},
    "helmholtz, gauss-newton": {"settings": _GAUSS_NEWTON},
    "eigenvalue, ritz": {"method": "ritz"},
    "fractional-poisson": {},
    "allen-cahn-front": {},
    "schroedinger": {},
    "kdv": {},
    "kuramoto-sivashinsky": {},
}


def solved(case: str, budget: str) -> dict[str, Any]:
    name = case.partition(",")[0]
    began = time.process_time()
    u = ev.solve(name, budget=budget, second=False, **CASES[case])
    spent = time.process_time() - began
    assert u.trust is not None
    found = {"error": u.figures.get("error"), "cpu_seconds": round(spent, 1), "trusted": u.trust.trusted}
    print(case, found, flush=True)
    return found | {"verdict": u.trust.verdict, "budget": budget}


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
    parser.add_argument("--budget", default="20s")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    found = json.loads(STORED.read_text(encoding="utf-8"))["found"] if STORED.is_file() else {}
    if not given.table:
        torch.set_num_threads(1)
        keep_freed_memory()
        for case in given.cases or CASES:
            found[case] = solved(case, given.budget)
            store("gallery", {"found": found}, PACKAGES)
    print(table(found))


if __name__ == "__main__":
    main()
