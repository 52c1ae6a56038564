"""Compare BC with the policy that it clones: the runs and table of experiments/behavioural_cloning.

The cloned policy is PPO with the hyperparameters of conf/tuned/ppo. The dataset has its best actions in about
50 episodes (200 of Pendulum-v1), with starts from 1,000,000 on (`rlox dataset make`). BC learns from it with
its defaults. Both policies are evaluated on the same 50 other episodes, `reset(seed=100000 + i)`.

    pip install . && python benchmarks/learning/bc_classic_control.py
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from processes import RLOX, commit_entry, run_python, train
from tables import RESAMPLES, interval

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments" / "behavioural_cloning"
HEAD = "| env | behaviour's steps | transitions | updates | seeds | behaviour | BC | difference [95% CI] |"


@dataclass(frozen=True)
class Leg:
    """One environment, with the length of each stage.

    `steps` train the cloned policy; at least `transitions` are recorded, in whole episodes; BC makes
    `updates` updates. The seeds are 0, 1, ... `seeds` - 1.
    """

    env: str
    steps: int
    transitions: int
    updates: int
    seeds: int = 5


LEGS = (
    Leg("CartPole-v1", 100_000, 25_000, 5_000),
    Leg("Acrobot-v1", 200_000, 4_200, 5_000),
    Leg("Pendulum-v1", 100_000, 40_000, 20_000),  # real-valued actions need more data for the same accuracy
)


def clone(leg: Leg, seed: int) -> dict[str, Any]:
    """Train PPO, record its dataset and train BC on it; return the returns of both on the common episodes."""
    common_overrides = (f"env={leg.env}", f"seed={seed}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        behaviour = train(folder / "ppo", "algo=ppo", f"total_steps={leg.steps}", *common_overrides)
        dataset_overrides = (
            f"policy={behaviour / 'checkpoints' / 'last'}",
            f"steps={leg.transitions}",
        )
        expert_overrides = ("quality=expert", "sampled=false")
        run_python(*RLOX, "dataset", "make", folder / "data", *dataset_overrides, *expert_overrides)
        data = (f"buffer.path={folder / 'data'}", f"total_steps={leg.updates}")
        bc_run = train(folder / "bc", "algo=bc", "tuned=none", *data, *common_overrides)
        results = [json.loads((run / "result.json").read_text()) for run in (behaviour, bc_run)]
        about = json.loads((folder / "data" / "dataset.json").read_text())
        origin = json.loads((bc_run / "provenance.json").read_text())
    return {
        "behaviour": results[0]["episodes"],
        "bc": results[1]["episodes"],
        "transitions": about["transitions"],
        "updates": results[1]["updates"],
        "packages": origin["packages"],
        **commit_entry(),
    }


def compare(behaviour: NDArray[Any], bc: NDArray[Any]) -> dict[str, Any]:
    """Return means over seeds and episodes of scores `[seeds]`, and the paired difference with interval."""
    rng = np.random.default_rng(0)
    differences = bc - behaviour
    draws = differences[rng.integers(0, len(differences), (RESAMPLES, len(differences)))].mean(axis=1)
    return {
        "behaviour": behaviour.tolist(),
        "bc": bc.tolist(),
        "difference": {"mean": float(differences.mean()), "ci95": interval(draws)},
    }


def result_path(leg: Leg, seed: int) -> Path:
    """Return the path of a result."""
    return FOLDER / "results" / f"{leg.env}_s{seed}.json"


def report() -> None:
    """Write expected.json and the table of the complete legs."""
    lines, document = [HEAD, "|" + "---|" * 8], dict[str, Any]()
    for leg in LEGS:
        paths = [result_path(leg, seed) for seed in range(leg.seeds)]
        if not all(path.exists() for path in paths):
            continue
        runs = [json.loads(path.read_text()) for path in paths]
        scores = [np.array([np.mean(run[system]) for run in runs]) for system in ("behaviour", "bc")]
        document[leg.env] = comparison = compare(*scores)
        comparison["packages"] = runs[0]["packages"]
        low, high = comparison["difference"]["ci95"]
        transitions_text = f"{np.mean([run['transitions'] for run in runs]):,.0f}"
        cells = [
            leg.env,
            f"{leg.steps:,}",
            transitions_text,
            f"{runs[0]['updates']:,}",
            str(leg.seeds),
        ]
        cells += [f"{system.mean():.1f}" for system in scores]
        cells += [f"{comparison['difference']['mean']:.2f} [{low:.2f}, {high:.2f}]"]
        lines.append("| " + " | ".join(cells) + " |")
    (FOLDER / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main() -> None:
    """Make the missing runs, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--legs", nargs="+", choices=[leg.env for leg in LEGS])
    args = parser.parse_args()
    for leg in (leg for leg in LEGS if leg.env in (args.legs or [leg.env])):
        for seed in range(leg.seeds):
            path = result_path(leg, seed)
            if path.exists():
                continue
            result = clone(leg, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result) + "\n")
            means = " ".join(f"{system} {np.mean(result[system]):8.2f}" for system in ("behaviour", "bc"))
            print(f"{leg.env:12} seed {seed}: {means}", flush=True)
    report()


if __name__ == "__main__":
    main()
