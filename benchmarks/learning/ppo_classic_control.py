"""PPO on classic control beside Stable-Baselines3: the runs, table and figure of
experiments/ppo_classic_control.

Both systems read their hyperparameters from the same files, conf/tuned/ppo/<env>.yaml (rl-zoo3), and
are judged on the same 50 episodes, `reset(seed=100000 + i)`, with the final deterministic policy and
frozen normalisers. A run that is there already is kept, so the command can be stopped and started.

    pip install '.[peers]' && python benchmarks/learning/ppo_classic_control.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import OmegaConf

from rlox.statistics import iqm

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "experiments" / "ppo_classic_control"
SYSTEMS = ("rlox", "sb3")
# environment -> (total_steps, seeds)
PLAN = {"CartPole-v1": (100_000, 10), "Acrobot-v1": (200_000, 5), "Pendulum-v1": (100_000, 5)}
EPISODES, EVAL_SEED = 50, 100_000
GRID = 50  # points of a learning curve


def run_rlox(env: str, steps: int, seed: int) -> dict[str, Any]:
    """`rlox train` in a folder of its own; the result is what its run folder says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rlox_cli.main", "train", "exp=ppo_classic_control"]
        command += [f"env={env}", f"total_steps={steps}", f"seed={seed}", f"run_root={folder}"]
        subprocess.run(command, check=True, capture_output=True)
        run = next(Path(folder).glob("*/*/*/result.json")).parent
        result = json.loads((run / "result.json").read_text())
        episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    ends = [(e["env_steps"], e["return"]) for e in episodes]
    seconds = {k: result["seconds"][k] for k in ("collect", "update")}
    return {"returns": result["episodes"], "curve": curve(ends, steps), "seconds": seconds}


def run_sb3(env: str, steps: int, seed: int) -> dict[str, Any]:
    """The same run in Stable-Baselines3."""
    import time

    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    preset = OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/tuned/ppo/{env}.yaml"))
    algo, settings = preset["algo"], preset["env"]
    vec = make_vec_env(env, settings["n_envs"], seed=seed)
    if settings.get("normalize_obs"):
        vec = VecNormalize(vec, gamma=algo["gamma"])
    rate, clip = algo.pop("learning_rate", 3e-4), algo.pop("clip_eps", 0.2)
    anneal_lr, anneal_clip = algo.pop("anneal_lr", False), algo.pop("anneal_clip", False)
    model = PPO(
        "MlpPolicy",
        vec,
        seed=seed,
        device="cpu",
        learning_rate=(lambda left: left * rate) if anneal_lr else rate,
        clip_range=(lambda left: left * clip) if anneal_clip else clip,
        **algo,
    )
    begun = time.perf_counter()
    ends = _learn(model, steps)
    seconds = time.perf_counter() - begun
    returns = _evaluate(model, env)
    return {"returns": returns, "curve": curve(ends, steps), "seconds": {"train": seconds}}


def _learn(model: Any, steps: int) -> list[tuple[int, float]]:
    """Train and note when each episode ended and what it returned."""
    from stable_baselines3.common.callbacks import BaseCallback

    ends: list[tuple[int, float]] = []

    class Note(BaseCallback):
        def _on_step(self) -> bool:
            done = [info["episode"] for info in self.locals["infos"] if "episode" in info]
            ends.extend((self.num_timesteps, float(e["r"])) for e in done)
            return True

    model.learn(steps, callback=Note())
    return ends


def _evaluate(model: Any, env: str) -> list[float]:
    """Returns of the common evaluation episodes."""
    import gymnasium as gym

    normalizer = model.get_vec_normalize_env()
    returns = []
    for i in range(EPISODES):
        one = gym.make(env)
        obs, _ = one.reset(seed=EVAL_SEED + i)
        total, ended = 0.0, False
        while not ended:
            seen = normalizer.normalize_obs(obs) if normalizer else obs
            action, _ = model.predict(seen, deterministic=True)
            obs, reward, terminated, truncated, _ = one.step(action)
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


def curve(ends: list[tuple[int, float]], steps: int) -> list[float | None]:
    """Mean return of the last 20 episodes at `GRID` equal steps; `None` before the first end."""
    at = np.array([s for s, _ in ends])
    values = np.array([r for _, r in ends])
    points: list[float | None] = []
    for step in np.linspace(steps / GRID, steps, GRID):
        before = values[: int(np.searchsorted(at, step, side="right"))]
        points.append(float(before[-20:].mean()) if len(before) else None)
    return points


def measure(system: str, env: str, seed: int) -> None:
    """Run one system once, in a single-threaded process, unless its result is there."""
    path = RESULTS / "results" / f"{env}_{system}_s{seed}.json"
    if path.exists():
        return
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--one", system, "--env", env, "--seed", str(seed)]
    done = subprocess.run(
        command, env={**os.environ, **threads}, check=True, capture_output=True, text=True
    )
    row = json.loads(done.stdout.splitlines()[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row) + "\n")
    print(f"{env:12} {system:5} seed {seed}: {np.mean(row['returns']):8.1f}", flush=True)


def load(env: str, system: str) -> list[dict[str, Any]]:
    """The committed runs of one system on one environment, in order of seed."""
    seeds = range(PLAN[env][1])
    paths = [RESULTS / "results" / f"{env}_{system}_s{seed}.json" for seed in seeds]
    return [json.loads(path.read_text()) for path in paths]


def interval(draw: NDArray[Any]) -> list[float]:
    """95% percentile interval of bootstrap estimates."""
    return [float(q) for q in np.quantile(draw, [0.025, 0.975])]


def summarize(env: str) -> dict[str, Any]:
    """IQM over seeds of each system with its interval, and the interval of the difference."""
    rng = np.random.default_rng(0)
    scores = {s: np.array([np.mean(r["returns"]) for r in load(env, s)]) for s in SYSTEMS}
    draws = {
        s: np.array([iqm(x[rng.integers(0, len(x), len(x))]) for _ in range(10_000)])
        for s, x in scores.items()
    }
    table: dict[str, Any] = {"total_steps": PLAN[env][0], "seeds": PLAN[env][1]}
    for s in SYSTEMS:
        table[s] = {
            "iqm": iqm(scores[s]),
            "ci95": interval(draws[s]),
            "scores": [float(x) for x in scores[s]],
        }
    table["difference"] = {
        "iqm": table["rlox"]["iqm"] - table["sb3"]["iqm"],
        "ci95": interval(draws["rlox"] - draws["sb3"]),
    }
    return table


def report() -> None:
    """Write expected.json, the table and the figure from the runs that are there."""
    tables = {env: summarize(env) for env in PLAN}
    packages = ("rlox", "stable-baselines3", "torch", "gymnasium")
    document = {"schema_version": 1, "versions": {p: version(p) for p in packages}, **tables}
    (RESULTS / "expected.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = ["| env | steps | seeds | rlox IQM [95% CI] | SB3 IQM [95% CI] | difference [95% CI] |"]
    lines.append("|---|---|---|---|---|---|")
    for env, t in tables.items():
        cells = [
            f"{t[k]['iqm']:.1f} [{t[k]['ci95'][0]:.1f}, {t[k]['ci95'][1]:.1f}]"
            for k in ("rlox", "sb3", "difference")
        ]
        lines.append(f"| {env} | {t['total_steps']:,} | {t['seeds']} | " + " | ".join(cells) + " |")
    (RESULTS / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    draw()


def draw() -> None:
    """Learning curves: mean over seeds with the 95% bootstrap band, one panel an environment."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(PLAN), figsize=(13, 4), layout="constrained")
    rng = np.random.default_rng(0)
    for axis, (env, (steps, _)) in zip(axes, PLAN.items(), strict=True):
        at = np.linspace(steps / GRID, steps, GRID)
        for system, color in zip(SYSTEMS, ("#0b559f", "#d94801"), strict=True):
            runs = np.array([r["curve"] for r in load(env, system)], np.float64)
            shown = ~np.isnan(runs).any(axis=0)
            draws = runs[rng.integers(0, len(runs), (2000, len(runs)))].mean(axis=1)
            low, high = np.quantile(draws[:, shown], [0.025, 0.975], axis=0)
            axis.plot(at[shown], runs.mean(axis=0)[shown], color=color, label=system, lw=2)
            axis.fill_between(at[shown], low, high, color=color, alpha=0.2, lw=0)
        axis.set_title(f"{env} ({len(load(env, 'rlox'))} seeds)", loc="left", fontweight="bold")
        axis.set_xlabel("environment steps")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("training return, last 20 episodes")
    axes[0].legend(frameon=False)
    figure.savefig(RESULTS / "learning_curves.png", dpi=120)


def main() -> None:
    """Run what is missing, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", choices=SYSTEMS, help="run one system once and print its result")
    parser.add_argument("--env", choices=list(PLAN))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    args = parser.parse_args()
    if args.one:
        run = run_rlox if args.one == "rlox" else run_sb3
        print(json.dumps(run(args.env, PLAN[args.env][0], args.seed)))
        return
    jobs = [(s, env, seed) for env, (_, n) in PLAN.items() for seed in range(n) for s in SYSTEMS]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda job: measure(*job), jobs))
    report()


if __name__ == "__main__":
    main()
