"""Write the report of offline_control.py: expected.json and the table of experiments/offline_control."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from offline_legs import ALGORITHMS, FOLDER, LEGS, PEER_ALGORITHMS, Leg, result_path
from tables import difference, estimate, final_scores, markdown, publish

HEAD = (
    "task", "dataset", "behaviour", "system", "updates", "seeds", "final policy, IQM [95% CI]",
    "mean above BC, its standard error", "d3rlpy's, IQM [95% CI]", "difference to d3rlpy's [95% CI]",
)  # fmt: skip
DT, PEER = "DT", "d3rlpy"


def report() -> None:
    """Write the file and the table for all systems whose seeds are complete."""
    document: dict[str, Any] = {"schema_version": 1}
    rows: list[tuple[str, ...]] = [HEAD]
    for leg in LEGS:
        runs = _complete(leg)
        if not runs:
            continue
        document[leg.name] = _summary(leg, runs)
        rows += _rows(leg, document[leg.name])
    (FOLDER / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    publish(FOLDER, markdown(rows))


def _complete(leg: Leg) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each system with all its seeds; require that they learned from the same rows."""
    runs_by_system = {}
    for system in [*ALGORITHMS, *(f"{name} {PEER}" for name in PEER_ALGORITHMS)]:
        paths = [result_path(leg, system, seed) for seed in range(leg.seeds)]
        if all(path.exists() for path in paths):
            runs_by_system[system] = [json.loads(path.read_text()) for path in paths]
    datasets_by_seed = _datasets(leg)
    for system, system_runs in runs_by_system.items():
        for seed, run in enumerate(system_runs):
            expected = datasets_by_seed[leg.dataset_seed_for(seed)]["digest"]
            if run["dataset"] != expected:
                raise SystemExit(
                    f"{result_path(leg, system, seed)} learned from the dataset {run['dataset']}, others "
                    f"from {expected}: remove it, or all results of this task"
                )
    return runs_by_system


def _datasets(leg: Leg) -> dict[int, dict[str, Any]]:
    """Return the metadata of the datasets, by seed."""
    prefix = f"{leg.name}_s"
    paths = sorted((FOLDER / "datasets").glob(f"{prefix}*.json"))
    return {int(path.stem.removeprefix(prefix)): json.loads(path.read_text()) for path in paths}


def _summary(leg: Leg, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the scores, the differences to BC and to d3rlpy, and how well returns follow their targets."""
    scores = final_scores(runs)
    estimates, draws = estimate(scores)
    above_bc = {
        name: {
            "mean": float(score_differences.mean()),
            "se": float(score_differences.std(ddof=1) / len(score_differences) ** 0.5),
        }
        for name in ALGORITHMS
        if name in scores and name != "BC" and "BC" in scores
        for score_differences in [scores[name] - scores["BC"]]
    }
    peer_differences = {
        name: difference(estimates, draws, name, f"{name} {PEER}")
        for name in PEER_ALGORITHMS
        if {name, f"{name} {PEER}"} <= set(estimates)
    }
    packages = {
        name: number for system_runs in runs.values() for name, number in system_runs[0]["packages"].items()
    }
    return {
        "env": leg.env,
        "total_steps": max(leg.updates.values()),
        "updates": leg.updates,
        "seeds": leg.seeds,
        "datasets": list(_datasets(leg).values()),
        "packages": packages,
        "systems": estimates,
        "above_bc": above_bc,
        "differences": peer_differences,
        **({"follows": [run["follows"] for run in runs[DT]]} if DT in runs else {}),
    }


def _rows(leg: Leg, summary: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each of rlox's systems."""
    rows = []
    behaviour = np.mean([dataset_metadata["behaviour"]["mean"] for dataset_metadata in summary["datasets"]])
    leg_cells = (leg.env, leg.quality, f"{behaviour:.0f}")
    for name in (name for name in ALGORITHMS if name in summary["systems"]):
        above_bc, peer_difference = summary["above_bc"].get(name), summary["differences"].get(name)
        rows.append(
            (
                *leg_cells,
                name,
                f"{leg.updates[name]:,}",
                str(leg.seeds),
                _cell(summary["systems"][name]),
                f"{above_bc['mean']:.0f}, {above_bc['se']:.0f}" if above_bc else "",
                _cell(summary["systems"][f"{name} {PEER}"]) if peer_difference else "",
                _cell(peer_difference) if peer_difference else "",
            )
        )
        leg_cells = ("", "", "")
    return rows


def _cell(estimate_entry: dict[str, Any]) -> str:
    low, high = estimate_entry["ci95"]
    return f"{estimate_entry['iqm']:.0f} [{low:.0f}, {high:.0f}]"
