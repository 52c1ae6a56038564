"""Offline algorithms on datasets that a SAC run leaves: runs and table of experiments/offline_control.

For each seed SAC learns the task; its buffer up to the first checkpoint past a third of the way is the
dataset medium-replay, that checkpoint's sampled play the dataset medium. Each algorithm learns from both, and
its final policy is judged on the same 50 episodes, `reset(seed=100000 + i)`. TD3 without the cloning term
stands beside them.

    pip install . && python benchmarks/learning/offline_control.py
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from children import python, train
from numpy.typing import NDArray
from tables import RESAMPLES, interval

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "experiments" / "offline_control"
ASKED = 9  # returns that a Decision Transformer is asked for
QUALITIES = ("medium-replay", "medium")
RLOX = ("-P", "-m", "rlox_cli.main")

# By name what is trained; rewards of IQL are scaled as its authors do.
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "BC": ("algo=bc",),
    "TD3+BC": ("algo=td3_bc",),
    "IQL": ("algo=iql", "algo.scale_rewards=returns"),
    "CQL": ("algo=cql",),
    "DT": ("algo=decision_transformer", "algo.warmup_updates=1000"),
    "TD3": ("algo=td3_bc", "algo.alpha=1e9"),
}


@dataclass(frozen=True)
class Leg:
    """A task: how SAC learns it, and how many updates are made offline; seeds are 0, 1, ... `seeds` - 1."""

    env: str
    steps: int
    updates: int
    transitions: int
    behaviour: tuple[str, ...]
    seeds: int = 5


LEGS = (
    Leg(
        "Pendulum-v1", 10_000, 10_000, 20_000,
        ("algo.net_arch=[64,64]", "algo.backend=native", "checkpoint.every=250"),
    ),
)  # fmt: skip


def made(leg: Leg, seed: int, folder: Path) -> dict[str, Path]:
    """The datasets of a seed, made where they are not."""
    found = {quality: folder / f"{leg.env}_s{seed}_{quality}" for quality in QUALITIES}
    if all((path / "dataset.json").exists() for path in found.values()):
        return found
    of = ("algo=sac", f"env={leg.env}", "tuned=none", f"seed={seed}", f"total_steps={leg.steps}")
    run = train(folder / f"{leg.env}_s{seed}_sac", *of, *leg.behaviour, "checkpoint.keep=1000")
    for quality, path in found.items():
        given = [f"policy={run}", f"quality={quality}"]
        if quality != "medium-replay":
            given.append(f"steps={leg.transitions}")
        python(*RLOX, "dataset", "make", path, *given, "overwrite=true")
    return found


def learned(leg: Leg, seed: int, algorithm: str, data: Path) -> dict[str, Any]:
    """Returns of the final policy, and where they come from; the run stays beside its data."""
    of = (f"env={leg.env}", f"seed={seed}", f"total_steps={leg.updates}", f"buffer.path={data}")
    root = data.with_name(f"{data.name}_{algorithm}")
    if root.exists():  # of a campaign that was stopped
        shutil.rmtree(root)
    run = train(root, *ALGORITHMS[algorithm], "tuned=none", *of, "eval.episodes=50")
    result = json.loads((run / "result.json").read_text())
    origin = json.loads((run / "provenance.json").read_text())
    about = json.loads((data / "dataset.json").read_text())
    asked = followed(run, about["returns"]) if algorithm == "DT" else None
    told = ("digest", "transitions", "scores", "behaviour", "checkpoint")
    return {
        "returns": result["episodes"],
        "updates": result["updates"],
        **({} if asked is None else {"asked": asked}),
        "dataset": {name: about[name] for name in told},
        "packages": origin["packages"],
    }


def followed(run: Path, returns: list[float]) -> list[list[float]]:
    """Returns that a Decision Transformer is asked for, from the dataset's least to its best, and gives."""
    pairs = []
    for wish in np.linspace(min(returns), max(returns), ASKED):
        python(*RLOX, "evaluate", run, f"target_return={wish:.3f}", "episodes=20")
        document = json.loads((run / "eval" / "last.json").read_text())
        pairs.append([float(wish), document["mean"]])
    return pairs


def rank_correlation(pairs: list[list[float]]) -> float:
    """Spearman's."""
    ranks = [np.argsort(np.argsort(column)) for column in np.array(pairs).T]
    return float(np.corrcoef(ranks)[0, 1])


def path_of(leg: Leg, quality: str, algorithm: str, seed: int) -> Path:
    """Where one result is."""
    return FOLDER / "results" / f"{leg.env}_{quality}_{algorithm}_s{seed}.json"


def report() -> None:
    """expected.json and the table of what is complete."""
    lines = ["| task | dataset | behaviour | " + " | ".join(ALGORITHMS) + " |"]
    lines.append("|" + "---|" * (3 + len(ALGORITHMS)))
    document: dict[str, Any] = {}
    for leg in LEGS:
        for quality in QUALITIES:
            runs = {name: _runs(leg, quality, name) for name in ALGORITHMS}
            there = {name: of for name, of in runs.items() if of}
            if not there:
                continue
            found = {name: _scores(of) for name, of in there.items()}
            behaviour = [r["dataset"]["behaviour"]["mean"] for r in next(iter(there.values()))]
            cells = [_cell(found[name]) if name in found else "-" for name in ALGORITHMS]
            mean = f"{np.mean(behaviour):.0f}"
            lines.append(f"| {leg.env} | {quality} | {mean} | " + " | ".join(cells) + " |")
            document[f"{leg.env} {quality}"] = {
                "behaviour": behaviour,
                **found,
                "packages": next(iter(there.values()))[0]["packages"],
            }
            if "DT" in there:
                follows = [rank_correlation(run["asked"]) for run in there["DT"]]
                document[f"{leg.env} {quality}"]["DT follows, rank correlations"] = follows
    (FOLDER / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    (FOLDER / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _runs(leg: Leg, quality: str, algorithm: str) -> list[dict[str, Any]]:
    """All seeds' results, or none where one is missing."""
    paths = [path_of(leg, quality, algorithm, seed) for seed in range(leg.seeds)]
    if not all(path.exists() for path in paths):
        return []
    return [json.loads(path.read_text()) for path in paths]


def _scores(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean over seeds of the mean return, its standard error and bootstrap interval."""
    scores: NDArray[Any] = np.array([np.mean(run["returns"]) for run in runs])
    rng = np.random.default_rng(0)
    draws = scores[rng.integers(0, len(scores), (RESAMPLES, len(scores)))].mean(axis=1)
    return {
        "scores": scores.tolist(),
        "mean": float(scores.mean()),
        "se": float(scores.std(ddof=1) / np.sqrt(len(scores))),
        "ci95": interval(draws),
    }


def _cell(found: dict[str, Any]) -> str:
    low, high = found["ci95"]
    return f"{found['mean']:.0f} [{low:.0f}, {high:.0f}]"


def main() -> None:
    """Run what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument(
        "--data", type=Path, help="where datasets and runs are kept, and looked for"
    )
    given = parser.parse_args()
    kept = given.data or Path(tempfile.mkdtemp())
    for leg in LEGS:
        for seed in given.seeds or range(leg.seeds):
            for algorithm in given.algorithms or ALGORITHMS:
                for quality in QUALITIES:
                    path = path_of(leg, quality, algorithm, seed)
                    if path.exists():
                        continue
                    result = learned(leg, seed, algorithm, made(leg, seed, kept)[quality])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(result, indent=1) + "\n")
                    print(f"{path.stem}: {np.mean(result['returns']):.1f}", flush=True)
    report()


if __name__ == "__main__":
    main()
