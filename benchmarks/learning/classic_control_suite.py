"""PPO, A2C, DQN, SAC and TD3 on the classic tasks that they support: the sweep, tables and figures of
experiments/classic_control_suite.

The runs are those of `rlox sweep exp=classic_control_suite`, whose legs are the files of
conf/exp/classic_control_suite. A repeated command continues the sweep; if every run has a result, it only
makes the tables and figures.

    pip install . && python benchmarks/learning/classic_control_suite.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import classic_control
import suite_report
from classic_control import EPISODES, EVAL_SEED, Campaign, Leg, System, read_result
from omegaconf import OmegaConf
from processes import ONE_THREAD

NAME = "classic_control_suite"
ENVS = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")
ALGOS = ("ppo", "a2c", "dqn", "sac", "td3")
SEEDS = 10
CONF = Path(__file__).resolve().parents[2] / "conf"


def legs() -> Iterator[Leg]:
    """Yield the pairs of the preset, by environment; the steps are the pair's own or the tuned preset's."""
    files = {path.stem: path for path in (CONF / "exp" / NAME).glob("*.yaml")}
    for env in ENVS:
        for algo in ALGOS:
            if path := files.pop(f"{algo}_{env}", None):
                tuned = OmegaConf.load(CONF / "tuned" / algo / f"{env}.yaml")
                steps = OmegaConf.merge(tuned, OmegaConf.load(path)).total_steps
                name = algo.upper()
                yield Leg(env, steps, SEEDS, f"{name}_{env}", algo, (System("rlox"),), f"{name}, {env}")
    assert not files, f"neither an algorithm nor an environment of the suite: {sorted(files)}"


CAMPAIGN = Campaign(NAME, "", tuple(legs()))


def collect(sweep: Path) -> None:
    """Copy the results of the sweep's finished jobs to files of the experiment."""
    pairs = {(leg.algo, leg.env): leg for leg in CAMPAIGN.legs}
    for run in sorted(sweep.glob("[0-9]*_*")):
        if ".attempt" in run.name or not (run / "result.json").exists():
            continue
        result = json.loads((run / "result.json").read_text())
        leg = pairs[result["algo"], result["env"]]
        require_protocol(leg, run)
        path = CAMPAIGN.path(leg, "rlox", result["seed"])
        if result["status"] == "done":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(read_result(leg, run)) + "\n")


def require_protocol(leg: Leg, run: Path) -> None:
    """Refuse a run with other steps or episodes, because the sweep's folder may have had other overrides."""
    config: Any = OmegaConf.load(run / "config.yaml")
    protocol = (config.total_steps, config.eval.episodes, config.eval.seed)
    if protocol != (leg.steps, EPISODES, EVAL_SEED):
        raise SystemExit(
            f"{run}: steps, episodes of the evaluation and their seed are {protocol}, "
            f"expected {(leg.steps, EPISODES, EVAL_SEED)}"
        )


def is_complete() -> bool:
    """Return whether every run has a result; print it if so."""
    paths = [CAMPAIGN.path(leg, "rlox", seed) for leg in CAMPAIGN.legs for seed in range(leg.seeds)]
    has_all = all(path.exists() for path in paths)
    if has_all:
        print(f"all {len(paths)} runs are in {paths[0].parent}: none is repeated", flush=True)
    return has_all


def run_sweep(folder: Path, workers: int) -> int:
    """Run `rlox sweep` in that folder with one thread for each run; return its exit code."""
    command = [sys.executable, "-P", "-m", "rlox_cli.main", "sweep", f"exp={NAME}"]
    folder_overrides = [f"hydra.sweep.dir={folder.absolute()}", f"sweep.workers={workers}"]
    env = {**os.environ, **ONE_THREAD}
    with subprocess.Popen([*command, *folder_overrides], env=env, cwd=classic_control.ROOT) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the sweep gets the signal too: it saves and exits
                continue


def main() -> None:
    """Make the missing runs, collect the results, write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    default_folder = classic_control.ROOT / "runs" / "sweeps" / NAME
    parser.add_argument("--sweep", type=Path, default=default_folder, help="the sweep's folder")
    parser.add_argument("--workers", type=int, default=1, help="number of parallel jobs")
    parser.add_argument("--collect", action="store_true", help="run nothing, collect the finished runs")
    args = parser.parse_args()
    code = 0 if args.collect or is_complete() else run_sweep(args.sweep, args.workers)
    collect(args.sweep)
    suite_report.write(CAMPAIGN)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
