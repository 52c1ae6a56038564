"""Campaigns on classic control beside Stable-Baselines3: the runs, table and figure of
experiments/<name>. A campaign is a file in this folder that defines an algorithm and legs.

The systems of a leg read their hyperparameters from the same files, conf/tuned/<algo>/<env>.yaml
(rl-zoo3), unless the campaign sets them. They are evaluated on the same 50 episodes,
`reset(seed=100000 + i)`, with the final deterministic policy and frozen normalisation. A run with a result is
not repeated, so a campaign can be stopped and continued.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import sb3
import solving
import tables
from omegaconf import OmegaConf
from processes import commit_entry, run_python, train
from tables import LAST_EPISODES, CompleteLeg, Runs, learning_curve

ROOT = Path(__file__).resolve().parents[2]
EPISODES, EVAL_SEED = 50, 100_000
Settings = Mapping[str, Mapping[str, Any]]  # keys of algo, env and buffer


@dataclass(frozen=True)
class System:
    """The library that learns, and its settings."""

    name: str
    library: str = "rlox"  # or "sb3", which includes sb3-contrib
    algo: str = ""  # if it is not the leg's
    settings: Settings | None = None  # instead of conf/tuned/<algo>/<env>.yaml
    options: tuple[str, ...] = ()  # of rlox's command line, in addition

    def overrides(self) -> list[str]:
        """Return the settings as overrides of the command line."""
        if self.settings is None:
            return list(self.options)
        keys = [
            (f"{group_name}.{k}", v) for group_name, group in self.settings.items() for k, v in group.items()
        ]
        arguments = [f"{k}={json.dumps(v, separators=(',', ':'))}" for k, v in keys]
        return ["tuned=null", *arguments, *self.options]


PAIR = (System("rlox"), System("sb3", "sb3"))


@dataclass(frozen=True)
class Leg:
    """One environment and a number of steps, with the seeds 0, 1, ... `seeds` - 1."""

    env: str
    steps: int
    seeds: int
    label: str = ""  # if the campaign has the environment more than once
    algo: str = ""  # if the campaign has several
    systems: tuple[System, ...] = PAIR
    task: str = ""  # the environment in words, if its id is not clear
    solved: float | None = None  # the return that solves it, if the campaign asks for it

    @property
    def name(self) -> str:
        """The name of its files and of its entry in expected.json."""
        return self.label or self.env


@dataclass(frozen=True)
class Campaign:
    """Algorithms and the environments they run on.

    `name` is that of the campaign's file and of its experiment. Legs without an algorithm use `algo`.
    """

    name: str
    algo: str
    legs: tuple[Leg, ...]

    @property
    def script(self) -> Path:
        """The script of the campaign."""
        return Path(__file__).with_name(f"{self.name}.py")

    @property
    def report_module(self) -> ModuleType:
        """The module that summarises and renders the legs: it compares two systems, or reports what solves a
        task.
        """
        return tables if self.legs[0].solved is None else solving

    @property
    def folder(self) -> Path:
        """The folder of the experiment."""
        return ROOT / "experiments" / self.name

    def path(self, leg: Leg, system: str, seed: int) -> Path:
        """Return the path of a run's result."""
        name = f"{leg.name}_{system.replace(' ', '-')}_s{seed}.json"
        return self.folder / "results" / name

    def algo_of(self, leg: Leg, system: System) -> str:
        """Return the algorithm of a system in a leg."""
        return system.algo or leg.algo or self.algo

    def read_runs(self, leg: Leg) -> Runs | None:
        """Return the results by system, in order of seed; `None` if one is missing."""
        names = [system.name for system in leg.systems]
        paths = {s: [self.path(leg, s, seed) for seed in range(leg.seeds)] for s in names}
        if not all(path.exists() for system_paths in paths.values() for path in system_paths):
            return None
        return {
            s: [json.loads(path.read_text()) for path in system_paths] for s, system_paths in paths.items()
        }

    def complete_legs(self) -> list[CompleteLeg]:
        """Return the legs whose runs are complete."""
        legs_with_runs = [(leg, self.read_runs(leg)) for leg in self.legs]
        return [
            CompleteLeg(leg.name, leg.task or leg.env, leg.steps, read_runs, leg.solved)
            for leg, read_runs in legs_with_runs
            if read_runs
        ]


def run_rlox(campaign: Campaign, leg: Leg, system: System, seed: int) -> dict[str, Any]:
    """Run `rlox train` in a temporary folder and return the result from its run folder."""
    algo = campaign.algo_of(leg, system)
    with tempfile.TemporaryDirectory() as folder:
        overrides = [f"algo={algo}", f"env={leg.env}", f"total_steps={leg.steps}"]
        run = train(Path(folder), *overrides, *system.overrides(), f"seed={seed}")
        return read_result(leg, run)


def read_result(leg: Leg, run: Path) -> dict[str, Any]:
    """Read the result of a run of the leg from its run folder."""
    result = json.loads((run / "result.json").read_text())
    origin = json.loads((run / "provenance.json").read_text())
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    episode_ends = [(e["env_steps"], e["return"]) for e in episodes]
    seconds = {k: result["seconds"][k] for k in ("collect", "update")}
    provenance = {k: origin[k] for k in ("packages", "wheel")}
    if origin["git"]:
        provenance["commit"] = origin["git"]["sha"]
    return make_result(leg, result["episodes"], episode_ends, seconds) | {"provenance": provenance}


def run_sb3(campaign: Campaign, leg: Leg, system: System, seed: int) -> dict[str, Any]:
    """Train once with Stable-Baselines3 or sb3-contrib."""
    algo = campaign.algo_of(leg, system)
    settings: Any = system.settings
    if settings is None:
        path = ROOT / "conf" / "tuned" / algo / f"{leg.env}.yaml"
        settings = OmegaConf.to_container(OmegaConf.load(path))
    model = sb3.make(algo, leg.env, settings, seed)
    start = time.perf_counter()
    episode_ends = sb3.train(model, leg.steps)
    seconds = {"train": time.perf_counter() - start}
    make_env = sb3.env_factory(leg.env, settings["env"])
    returns = sb3.evaluate(model, make_env, EPISODES, EVAL_SEED)
    return make_result(leg, returns, episode_ends, seconds) | {
        "provenance": sb3.provenance(model) | commit_entry()
    }


def make_result(
    leg: Leg, returns: list[float], episode_ends: list[tuple[int, float]], seconds: dict[str, float]
) -> dict[str, Any]:
    """Return the result of a run: the final policy's returns and the course of training."""
    return {
        "returns": returns,
        "training": float(np.mean([r for _, r in episode_ends[-LAST_EPISODES:]])),
        "curve": learning_curve(episode_ends, leg.steps),
        "seconds": seconds,
    }


def measure(campaign: Campaign, leg: Leg, system: str, seed: int) -> None:
    """Run one system once, in a single-threaded process, unless it has a result."""
    path = campaign.path(leg, system, seed)
    if path.exists():
        return
    output = run_python(campaign.script, "--one", system, "--legs", leg.name, "--seed", str(seed))
    row = json.loads(output.splitlines()[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row) + "\n")
    line = f"{leg.name:16} {system:5} seed {seed}: {np.mean(row['returns']):8.1f}"
    print(f"{line} (training {row['training']:.1f})", flush=True)


def write(campaign: Campaign) -> None:
    """Write expected.json, the table and the figure of the complete legs."""
    legs = campaign.complete_legs()
    if legs:
        tables.report(campaign.folder, legs, campaign.report_module.summarize, campaign.report_module.render)


def main(campaign: Campaign, description: str | None, report: Callable[[Any], None] = write) -> None:
    """Make the missing runs, then write the report."""
    legs = {leg.name: leg for leg in campaign.legs}
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument("--legs", nargs="+", choices=list(legs), default=list(legs))
    parser.add_argument("--one", help="run this system once and print its result")
    parser.add_argument("--seed", type=int, default=0, help="seed of that run")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes")
    parser.add_argument("--report", action="store_true", help="run nothing, report the existing results")
    args = parser.parse_args()
    selected_legs = [legs[name] for name in args.legs]
    if args.one:
        (system,) = (s for s in selected_legs[0].systems if s.name == args.one)
        run = run_rlox if system.library == "rlox" else run_sb3
        print(json.dumps(run(campaign, selected_legs[0], system, args.seed)))
        return
    legs_to_run = [] if args.report else selected_legs
    jobs = [(leg, s.name, i) for leg in legs_to_run for i in range(leg.seeds) for s in leg.systems]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda job: measure(campaign, *job), jobs))
    report(campaign)
