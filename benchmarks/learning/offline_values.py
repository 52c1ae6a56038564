"""Compare fitted Q evaluation with the true value of policies: how often is it inside the 90% interval?

Five policies are evaluated from three datasets (random, medium-replay, medium), which `offline_control.py
--data FOLDER` has made. The policies are BC, TD3+BC, IQL and CQL, trained on a medium-replay dataset, and the
SAC checkpoint that made the medium one. The true value is the mean discounted return of rollouts of 1,000
steps. That is five times the time limit, which fitted Q evaluation ignores; later rewards are discounted by
at least 0.99^1000 = 0.00004.

    pip install . && python benchmarks/learning/offline_values.py --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from offline_legs import FOLDER
from processes import RLOX, run_python

from rlox.algorithms import ALGORITHMS
from rlox.runs.checkpoint import read_checkpoint

ENV, GAMMA, STEPS, EPISODES = "Pendulum-v1", 0.99, 1000, 500
POLICIES = ("BC", "TD3+BC", "IQL", "CQL", "SAC")
DATASETS = ("random", "medium-replay", "medium")


def find_run(data: Path, seed: int, policy: str) -> tuple[Path, str]:
    """Return the run folder of a policy and the name of its checkpoint."""
    if policy == "SAC":
        about = json.loads((data / f"{ENV}_s{seed}_medium" / "dataset.json").read_text())
        root, checkpoint = data / f"{ENV}_s{seed}_sac", about["checkpoint"]
    else:
        root, checkpoint = data / f"{ENV}_s{seed}_medium-replay_{policy}_s{seed}", "last"
    return next(root.glob("*/*/*/result.json")).parent, checkpoint


def true_value(run: Path, checkpoint: str) -> tuple[float, float]:
    """Return the mean discounted return and its standard error."""
    folder = run / "checkpoints" / checkpoint
    name = read_checkpoint(folder.resolve()).config["algo"]["name"]
    algorithm: Any = ALGORITHMS[name].from_checkpoint(folder)
    env = gym.make_vec(ENV, num_envs=EPISODES, vectorization_mode="sync", max_episode_steps=STEPS + 1)
    obs, _ = env.reset(seed=700_000)
    total = np.zeros(EPISODES)
    for step in range(STEPS):
        obs, rewards, *_ = env.step(algorithm.predict(obs))
        total += GAMMA**step * rewards
    algorithm.close()
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(EPISODES))


def dataset(data: Path, seed: int, quality: str, steps: int) -> Path:
    """Return the folder of a dataset; make a random one if it does not exist."""
    path = data / f"{ENV}_s{seed}_{quality}"
    if not (path / "dataset.json").exists():
        run_python(
            *RLOX,
            "dataset",
            "make",
            path,
            f"env={ENV}",
            f"steps={steps}",
            f"seed={1_000_000 + seed}",
        )
    return path


def estimate_value(run: Path, checkpoint: str, data: Path) -> dict[str, Any]:
    """Return the estimate of fitted Q evaluation."""
    arguments = (f"checkpoint={checkpoint}", f"buffer.path={data}", f"fqe.gamma={GAMMA}")
    output = run_python(*RLOX, "evaluate", run, "method=fqe", *arguments)
    (result_path,) = re.findall(r"^  file +(.+)$", output, re.MULTILINE)
    document: dict[str, Any] = json.loads(Path(result_path).read_text())
    return {name: document[name] for name in ("value", "ci90", "earlier", "dataset", "settings")}


def main() -> None:
    """Evaluate every policy from every dataset, and count the intervals that contain the true value."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder given to offline_control.py")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    lines = [
        "| policy | worth | " + " | ".join(DATASETS) + " |",
        "|---|---|" + "---|" * len(DATASETS),
    ]
    n_inside, document = 0, dict[str, Any]()
    for policy in POLICIES:
        run, checkpoint = find_run(args.data, args.seed, policy)
        value, error = true_value(run, checkpoint)
        document[policy] = {"worth": value, "se": error}
        cells = []
        for quality in DATASETS:
            estimate = estimate_value(run, checkpoint, dataset(args.data, args.seed, quality, 20_000))
            low, high = estimate["ci90"]
            n_inside += low <= value <= high
            cells.append(f"{estimate['value']:.1f} [{low:.1f}, {high:.1f}]")
            document[policy][quality] = estimate
        lines.append(f"| {policy} | {value:.1f} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    document["inside"] = n_inside
    (FOLDER / "values.json").write_text(json.dumps(document, indent=1) + "\n")
    (FOLDER / "values.md").write_text("\n".join(lines) + f"\n\nInside the interval: {n_inside} of 15.\n")
    print(f"inside: {n_inside} of {len(POLICIES) * len(DATASETS)}")


if __name__ == "__main__":
    main()
