"""Offline algorithms on datasets that SAC runs leave: missing runs, table of experiments/offline_control.

SAC learns a task; its buffer up to the first checkpoint past a third of the way from random to its best
is the dataset medium-replay, that checkpoint's sampled play the dataset medium. Each algorithm learns from
a dataset, and its final policy is judged on the same 50 episodes, `reset(seed=100000 + i)`. TD3 without the
cloning term stands beside them, and d3rlpy's algorithms, where an interpreter that has d3rlpy is named.

    pip install '.[datasets,mujoco]' && python benchmarks/learning/offline_control.py --data FOLDER
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from children import RLOX, commit, python, train
from offline_legs import ALGORITHMS, FOLDER, LEGS, PEERS, Leg, path_of
from offline_report import report

ASKED = 9  # returns that a Decision Transformer is asked for
TOLD = ("digest", "transitions", "scores", "behaviour", "checkpoint")  # of a dataset


def made(leg: Leg, seed: int, folder: Path) -> Path:
    """The dataset of a seed, made where it is not, from a SAC run that is made where it is not."""
    path = folder / f"{leg.env}_s{seed}_{leg.quality}"
    if (path / "dataset.json").exists():
        return path
    root = folder / f"{leg.env}_s{seed}_sac"
    of = ("algo=sac", f"env={leg.env}", "tuned=none", f"seed={seed}", f"total_steps={leg.steps}")
    run = train(root, *of, *leg.behaviour, "checkpoint.keep=1000")
    given = [f"policy={run}", f"quality={leg.quality}", "overwrite=true"]
    if leg.transitions is not None:
        given.append(f"steps={leg.transitions}")
    python(*RLOX, "dataset", "make", path, *given)
    return path


def asked_of(leg: Leg, seed: int, algorithm: str, data: Path) -> list[str]:
    """What `rlox train` is told of a run."""
    of = "algo.hidden={0}" if algorithm == "DT" else "algo.net_arch=[{0},{0}]"
    return [
        *ALGORITHMS[algorithm],
        of.format(leg.width),
        *(leg.options or {}).get(algorithm, ()),
        *("tuned=none", f"env={leg.env}", f"seed={seed}", f"total_steps={leg.updates[algorithm]}"),
        f"buffer.path={data}",
    ]


def learned(leg: Leg, seed: int, algorithm: str, data: Path) -> dict[str, Any]:
    """Returns of the final policy, and where they come from; the run stays beside its data."""
    root = data.with_name(f"{data.name}_{algorithm}_s{seed}")
    run = train(root, *asked_of(leg, seed, algorithm, data))
    result = json.loads((run / "result.json").read_text())
    origin = json.loads((run / "provenance.json").read_text())
    about = json.loads((data / "dataset.json").read_text())
    asked = followed(run, about["returns"]) if algorithm == "DT" else None
    return {
        "returns": result["episodes"],
        "updates": result["updates"],
        **({} if asked is None else {"asked": asked, "follows": rank_correlation(asked)}),
        "dataset": about["digest"],
        "packages": origin["packages"],
        **commit(),
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


def of_peer(interpreter: Path, leg: Leg, seed: int, algorithm: str, data: Path) -> dict[str, Any]:
    """What d3rlpy makes of the same rows, in a process of its own environment."""
    rows = data.with_suffix(".npz")
    if not rows.exists():
        python(*RLOX, "dataset", "convert", data, f"to={rows}")
    script = Path(__file__).with_name("offline_d3rlpy.py")
    sizes = ("--updates", leg.updates[algorithm], "--seed", seed, "--width", leg.width)
    given = (rows, algorithm, "--env", leg.env, *sizes)
    found: dict[str, Any] = json.loads(
        python(script, *map(str, given), interpreter=interpreter).splitlines()[-1]
    )
    about = json.loads((data / "dataset.json").read_text())
    return {**found, "updates": leg.updates[algorithm], "dataset": about["digest"], **commit()}


def write(path: Path, document: dict[str, Any]) -> None:
    """Small and whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


def note(leg: Leg, seed: int, data: Path) -> None:
    """Keep what a dataset says of itself; stop, before hours of learning, where results are of other rows."""
    about = json.loads((data / "dataset.json").read_text())
    known = FOLDER / "datasets" / f"{leg.name}_s{seed}.json"
    there = json.loads(known.read_text())["digest"] if known.exists() else about["digest"]
    if there != about["digest"] and any((FOLDER / "results").glob(f"{leg.name}_*.json")):
        raise SystemExit(
            f"{data} has the digest {about['digest']}, results of {leg.name} are of {there}: another kind of "
            f"machine or version made it. Remove results/{leg.name}_* to make them all anew"
        )
    write(known, {name: about[name] for name in TOLD})


def run_missing(given: argparse.Namespace) -> None:
    """Every run that is asked for and whose result is not there."""
    for leg in (leg for leg in LEGS if not given.legs or leg.name in given.legs):
        for seed in given.seeds or range(leg.seeds):
            for algorithm in (a for a in given.algorithms or ALGORITHMS if a in leg.updates):
                peer = given.d3rlpy_python is not None
                if peer and algorithm not in PEERS:
                    continue
                path = path_of(leg, f"{algorithm} d3rlpy" if peer else algorithm, seed)
                if path.exists():
                    continue
                data = made(leg, leg.of_data(seed), given.data)
                note(leg, leg.of_data(seed), data)
                if peer:
                    result = of_peer(given.d3rlpy_python, leg, seed, algorithm, data)
                else:
                    result = learned(leg, seed, algorithm, data)
                write(path, result)
                print(f"{path.stem}: {np.mean(result['returns']):.1f}", flush=True)


def main() -> None:
    """Run what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="where datasets and runs are kept")
    parser.add_argument("--legs", nargs="+", choices=[leg.name for leg in LEGS])
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS))
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument(
        "--d3rlpy-python",
        type=Path,
        help="run d3rlpy's instead, by this interpreter, which has d3rlpy 2.8.1",
    )
    run_missing(parser.parse_args())
    report()


if __name__ == "__main__":
    main()
