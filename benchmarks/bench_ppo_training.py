"""Train PPO on CartPole-v1 with torch and natively, beside Stable-Baselines3: seconds of each part.

All have the same hyperparameters (rl-zoo3), the same number of steps and one thread. Each run has its own
process, and the systems alternate. The ratios within one call of this script are the result; absolute seconds
depend on the machine.

    pip install '.[peers]' && python benchmarks/bench_ppo_training.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from harness.machine import describe_commit, utc_now

from rlox_cli.runs.provenance import cpu_model

SYSTEMS = ("rlox", "native", "sb3")
PARTS = ("total", "collect", "update", "evaluate")
EPISODES, EVAL_SEED = 50, 100_000
HERE = Path(__file__).resolve().parent


def run_rlox(steps: int, seed: int, backend: str) -> dict[str, Any]:
    """Train rlox once with the settings of conf/tuned/ppo/CartPole-v1.yaml."""
    from rlox.algorithms import PPO

    start = time.perf_counter()
    ppo = PPO(
        "CartPole-v1",
        n_envs=8,
        seed=seed,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=1e-3,
        anneal_lr=True,
        clip_eps=0.2,
        anneal_clip=True,
        ent_coef=0.0,
        backend=backend,
    )
    ppo.train(steps)
    train_end = time.perf_counter()
    score = ppo.evaluate(EPISODES, EVAL_SEED).mean
    return {
        "total": time.perf_counter() - start,
        "collect": ppo.timings.collect,
        "update": ppo.timings.update,
        "evaluate": time.perf_counter() - train_end,
        "score": score,
        "env_steps": ppo.clock.env_steps,
    }


def run_sb3(steps: int, seed: int) -> dict[str, Any]:
    """Train Stable-Baselines3 once, with its vectorised evaluation: one episode in each environment."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    seconds = {"collect": 0.0, "update": 0.0}

    class TimedPPO(PPO):
        def collect_rollouts(self, *args: Any, **kwargs: Any) -> bool:
            start = time.perf_counter()
            result = super().collect_rollouts(*args, **kwargs)
            seconds["collect"] += time.perf_counter() - start
            return result

        def train(self) -> None:
            start = time.perf_counter()
            super().train()
            seconds["update"] += time.perf_counter() - start

    start = time.perf_counter()
    model = TimedPPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", 8, seed=seed),
        seed=seed,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=lambda remaining: remaining * 1e-3,
        clip_range=lambda remaining: remaining * 0.2,
        ent_coef=0.0,
        device="cpu",
    )
    model.learn(steps)
    train_end = time.perf_counter()
    env = make_vec_env("CartPole-v1", EPISODES, seed=EVAL_SEED)
    score, _ = evaluate_policy(model, env, EPISODES, deterministic=True)
    return {
        "total": time.perf_counter() - start,
        **seconds,
        "evaluate": time.perf_counter() - train_end,
        "score": float(score),
        "env_steps": model.num_timesteps,
    }


def measure(system: str, steps: int, seed: int) -> dict[str, Any]:
    """Run one system in a new single-threaded process."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    command = [
        sys.executable,
        __file__,
        "--one",
        system,
        "--steps",
        str(steps),
        "--seed",
        str(seed),
    ]
    result = subprocess.run(
        command, env={**os.environ, **threads}, capture_output=True, text=True, check=True
    )
    row: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return row


def compare(steps: int, repeats: int) -> dict[str, Any]:
    """Alternate the systems; return medians and paired ratios."""
    date = utc_now()
    runs: dict[str, list[dict[str, Any]]] = {s: [] for s in SYSTEMS}
    for seed in range(repeats):
        for system in SYSTEMS:
            row = measure(system, steps, seed)
            runs[system].append(row)
            parts = "  ".join(f"{p} {row[p]:6.2f}" for p in PARTS)
            print(f"seed {seed}  {system:6}  {parts}  score {row['score']:.1f}", flush=True)
    ratios = {
        system: {
            part: float(np.median([b[part] / a[part] for a, b in zip(system_runs, runs["sb3"], strict=True)]))
            for part in PARTS
        }
        for system in SYSTEMS[:-1]
        for system_runs in [runs[system]]
    }
    return {
        "schema_version": 2,
        "benchmark": "ppo_training",
        "env": "CartPole-v1",
        "steps": steps,
        "date": date,
        "commit": describe_commit(),
        "command": f"python benchmarks/{Path(__file__).name} --steps {steps} --repeats {repeats}",
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count()},
        "versions": {p: version(p) for p in ("rlox", "stable-baselines3", "torch", "gymnasium")},
        "threads": 1,
        "runs": runs,
        "ratio_to_sb3": ratios,
    }


def main() -> None:
    """Parse the command line, run, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", choices=SYSTEMS, help="run one system once and print its row")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ppo_training.json")
    args = parser.parse_args()
    if args.one:
        backend = {"rlox": "torch", "native": "native"}.get(args.one)
        run = (args.steps, args.seed)
        print(json.dumps(run_rlox(*run, backend) if backend else run_sb3(*run)))
        return
    report = compare(args.steps, args.repeats)
    print(f"\n{'median':10}" + "".join(f"{s:>10}" for s in SYSTEMS) + "   SB3 / rlox, SB3 / native")
    for part in PARTS:
        medians = [np.median([r[part] for r in report["runs"][s]]) for s in SYSTEMS]
        cells = "".join(f"{m:9.2f}s" for m in medians)
        times = (f"{report['ratio_to_sb3'][s][part]:.2f}x" for s in SYSTEMS[:-1])
        print(f"{part:10}{cells}   {', '.join(times)}")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
