"""Train offline algorithms on datasets from SAC runs: the missing runs, the table of
experiments/offline_control.

SAC learns a task. The dataset medium-replay is its buffer up to the first checkpoint past a third of the way
from the random to its best score. The dataset medium is played by that checkpoint with sampled actions. Each
algorithm learns from a dataset, and its final policy is evaluated on the same 50 episodes, `reset(seed=100000
+ i)`. TD3+BC without the cloning term is compared with them, and so are d3rlpy's algorithms if an interpreter
that has d3rlpy is given.

    pip install '.[datasets,mujoco]' && python benchmarks/learning/offline_control.py --data FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from offline_legs import ALGORITHMS, FOLDER, LEGS, PEER_ALGORITHMS, Leg, result_path
from offline_report import report
from processes import RLOX, commit_entry, run_python, train

N_TARGET_RETURNS = 9  # target returns that a Decision Transformer is evaluated with
METADATA_KEYS = ("digest", "transitions", "scores", "behaviour", "checkpoint")  # of dataset.json


def make_dataset(leg: Leg, seed: int, folder: Path) -> Path:
    """Return the dataset of a seed; make it, and the SAC run that it comes from, if they do not exist."""
    path = folder / f"{leg.env}_s{seed}_{leg.quality}"
    if (path / "dataset.json").exists():
        return path
    root = folder / f"{leg.env}_s{seed}_sac"
    overrides = (
        "algo=sac",
        f"env={leg.env}",
        "tuned=none",
        f"seed={seed}",
        f"total_steps={leg.steps}",
    )
    run = train(root, *overrides, *leg.behaviour, "checkpoint.keep=1000")
    dataset_overrides = [f"policy={run}", f"quality={leg.quality}", "overwrite=true"]
    if leg.transitions is not None:
        dataset_overrides.append(f"steps={leg.transitions}")
    run_python(*RLOX, "dataset", "make", path, *dataset_overrides)
    return path


def run_overrides(leg: Leg, seed: int, algorithm: str, data: Path) -> list[str]:
    """Return the overrides of `rlox train` for a run."""
    width_override = "algo.hidden={0}" if algorithm == "DT" else "algo.net_arch=[{0},{0}]"
    return [
        *ALGORITHMS[algorithm],
        width_override.format(leg.width),
        *(leg.options or {}).get(algorithm, ()),
        *("tuned=none", f"env={leg.env}", f"seed={seed}", f"total_steps={leg.updates[algorithm]}"),
        f"buffer.path={data}",
    ]


def train_result(leg: Leg, seed: int, algorithm: str, data: Path) -> dict[str, Any]:
    """Train, and return the returns of the final policy with their origin; the run stays beside its data."""
    root = data.with_name(f"{data.name}_{algorithm}_s{seed}")
    run = train(root, *run_overrides(leg, seed, algorithm, data))
    result = json.loads((run / "result.json").read_text())
    origin = json.loads((run / "provenance.json").read_text())
    about = json.loads((data / "dataset.json").read_text())
    return_pairs = evaluate_target_returns(run, about["returns"]) if algorithm == "DT" else None
    return {
        "returns": result["episodes"],
        "updates": result["updates"],
        **(
            {} if return_pairs is None else {"asked": return_pairs, "follows": rank_correlation(return_pairs)}
        ),
        "dataset": about["digest"],
        "packages": origin["packages"],
        **commit_entry(),
    }


def evaluate_target_returns(run: Path, returns: list[float]) -> list[list[float]]:
    """Evaluate a Decision Transformer from the dataset's lowest to its highest return.

    Returns pairs of the target return and the mean return that it reaches.
    """
    pairs = []
    for target_return in np.linspace(min(returns), max(returns), N_TARGET_RETURNS):
        run_python(*RLOX, "evaluate", run, f"target_return={target_return:.3f}", "episodes=20")
        document = json.loads((run / "eval" / "last.json").read_text())
        pairs.append([float(target_return), document["mean"]])
    return pairs


def rank_correlation(pairs: list[list[float]]) -> float:
    """Return Spearman's rank correlation."""
    ranks = [np.argsort(np.argsort(column)) for column in np.array(pairs).T]
    return float(np.corrcoef(ranks)[0, 1])


def train_peer(interpreter: Path, leg: Leg, seed: int, algorithm: str, data: Path) -> dict[str, Any]:
    """Train d3rlpy on the same rows, in a process of its own environment."""
    rows = data.with_suffix(".npz")
    if not rows.exists():
        run_python(*RLOX, "dataset", "convert", data, f"to={rows}")
    script = Path(__file__).with_name("offline_d3rlpy.py")
    sizes = ("--updates", leg.updates[algorithm], "--seed", seed, "--width", leg.width)
    arguments = (rows, algorithm, "--env", leg.env, *sizes)
    result: dict[str, Any] = json.loads(
        run_python(script, *map(str, arguments), interpreter=interpreter).splitlines()[-1]
    )
    about = json.loads((data / "dataset.json").read_text())
    return {
        **result,
        "updates": leg.updates[algorithm],
        "dataset": about["digest"],
        **commit_entry(),
    }


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write the document as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def record_dataset(leg: Leg, seed: int, data: Path) -> None:
    """Keep the dataset's metadata; stop, before hours of learning, if existing results used other rows."""
    about = json.loads((data / "dataset.json").read_text())
    record_path = FOLDER / "datasets" / f"{leg.name}_s{seed}.json"
    known_digest = json.loads(record_path.read_text())["digest"] if record_path.exists() else about["digest"]
    if known_digest != about["digest"] and any((FOLDER / "results").glob(f"{leg.name}_*.json")):
        raise SystemExit(
            f"{data} has the digest {about['digest']}, results of {leg.name} are of {known_digest}: another "
            f"kind of machine or version made it. Remove results/{leg.name}_* to make them all anew"
        )
    write_json(record_path, {name: about[name] for name in METADATA_KEYS})


def run_missing(args: argparse.Namespace) -> None:
    """Make every selected run that has no result."""
    for leg in (leg for leg in LEGS if not args.legs or leg.name in args.legs):
        for seed in args.seeds or range(leg.seeds):
            for algorithm in (a for a in args.algorithms or ALGORITHMS if a in leg.updates):
                is_peer = args.d3rlpy_python is not None
                if is_peer and algorithm not in PEER_ALGORITHMS:
                    continue
                path = result_path(leg, f"{algorithm} d3rlpy" if is_peer else algorithm, seed)
                if path.exists():
                    continue
                data = make_dataset(leg, leg.dataset_seed_for(seed), args.data)
                record_dataset(leg, leg.dataset_seed_for(seed), data)
                if is_peer:
                    result = train_peer(args.d3rlpy_python, leg, seed, algorithm, data)
                else:
                    result = train_result(leg, seed, algorithm, data)
                write_json(path, result)
                print(f"{path.stem}: {np.mean(result['returns']):.1f}", flush=True)


def main() -> None:
    """Make the missing runs, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder for datasets and runs")
    parser.add_argument("--legs", nargs="+", choices=[leg.name for leg in LEGS])
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument(
        "--d3rlpy-python",
        type=Path,
        help="run d3rlpy instead, with this interpreter, which has d3rlpy 2.8.1",
    )
    run_missing(parser.parse_args())
    report()


if __name__ == "__main__":
    main()
