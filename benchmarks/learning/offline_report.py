"""What the runs of offline_control.py come to: expected.json and the table of experiments/offline_control."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from offline_legs import ALGORITHMS, FOLDER, LEGS, PEERS, Leg, path_of
from tables import difference, estimate, finals, markdown, publish

HEAD = (
    "task", "dataset", "behaviour", "system", "updates", "seeds", "final policy, IQM [95% CI]",
    "mean above BC, its standard error", "d3rlpy's, IQM [95% CI]", "difference to d3rlpy's [95% CI]",
)  # fmt: skip
DT, PEER = "DT", "d3rlpy"


def report() -> None:
    """Write both of all systems whose seeds are all there."""
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
    """The results of each system that has all its seeds; they have learned from the same rows."""
    found = {}
    for system in [*ALGORITHMS, *(f"{name} {PEER}" for name in PEERS)]:
        paths = [path_of(leg, system, seed) for seed in range(leg.seeds)]
        if all(path.exists() for path in paths):
            found[system] = [json.loads(path.read_text()) for path in paths]
    known = _datasets(leg)
    for system, of in found.items():
        for seed, run in enumerate(of):
            expected = known[leg.of_data(seed)]["digest"]
            if run["dataset"] != expected:
                raise SystemExit(
                    f"{path_of(leg, system, seed)} learned from the dataset {run['dataset']}, others from "
                    f"{expected}: remove it, or all results of this task"
                )
    return found


def _datasets(leg: Leg) -> dict[int, dict[str, Any]]:
    """What the datasets say of themselves, by the seed of each."""
    begin = f"{leg.name}_s"
    kept = sorted((FOLDER / "datasets").glob(f"{begin}*.json"))
    return {int(path.stem.removeprefix(begin)): json.loads(path.read_text()) for path in kept}


def _summary(leg: Leg, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Scores of each system; those of seeds beside BC's; how a Decision Transformer follows."""
    scores = finals(runs)
    found, draws = estimate(scores)
    above = {
        name: {"mean": float(apart.mean()), "se": float(apart.std(ddof=1) / len(apart) ** 0.5)}
        for name in ALGORITHMS
        if name in scores and name != "BC" and "BC" in scores
        for apart in [scores[name] - scores["BC"]]
    }
    beside = {
        name: difference(found, draws, name, f"{name} {PEER}")
        for name in PEERS
        if {name, f"{name} {PEER}"} <= set(found)
    }
    packages = {name: number for of in runs.values() for name, number in of[0]["packages"].items()}
    return {
        "env": leg.env,
        "total_steps": max(leg.updates.values()),
        "updates": leg.updates,
        "seeds": leg.seeds,
        "datasets": list(_datasets(leg).values()),
        "packages": packages,
        "systems": found,
        "above_bc": above,
        "differences": beside,
        **({"follows": [run["follows"] for run in runs[DT]]} if DT in runs else {}),
    }


def _rows(leg: Leg, found: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each of rlox's systems."""
    rows = []
    behaviour = np.mean([of["behaviour"]["mean"] for of in found["datasets"]])
    begin = (leg.env, leg.quality, f"{behaviour:.0f}")
    for name in (name for name in ALGORITHMS if name in found["systems"]):
        above, beside = found["above_bc"].get(name), found["differences"].get(name)
        rows.append(
            (
                *begin,
                name,
                f"{leg.updates[name]:,}",
                str(leg.seeds),
                _cell(found["systems"][name]),
                f"{above['mean']:.0f}, {above['se']:.0f}" if above else "",
                _cell(found["systems"][f"{name} {PEER}"]) if beside else "",
                _cell(beside) if beside else "",
            )
        )
        begin = ("", "", "")
    return rows


def _cell(of: dict[str, Any]) -> str:
    low, high = of["ci95"]
    return f"{of['iqm']:.0f} [{low:.0f}, {high:.0f}]"
