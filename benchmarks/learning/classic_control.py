"""Campaigns on classic control beside Stable-Baselines3: the runs, table and figure of
experiments/<name>. A campaign is a file beside this one that says its algorithm and its legs.

The systems of a leg read their hyperparameters from the same files, conf/tuned/<algo>/<env>.yaml
(rl-zoo3), where the campaign does not say them, and are judged on the same 50 episodes,
`reset(seed=100000 + i)`, with the final deterministic policy and frozen normalisers. A run that is there
already is kept, so a campaign can be stopped and started.
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
    """Who learns, and by what settings."""

    name: str
    library: str = "rlox"  # or sb3, with its contributions
    algo: str = ""  # where it is not that of the leg
    settings: Settings | None = None  # in place of conf/tuned/<algo>/<env>.yaml
    options: tuple[str, ...] = ()  # of rlox's command line, beside either

    def overrides(self) -> list[str]:
        """The settings for the command line."""
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
    """One environment for so many steps, with the seeds 0, 1, ... `seeds` - 1."""

    env: str
    steps: int
    seeds: int
    label: str = ""  # where a campaign has the environment more than once
    algo: str = ""  # where a campaign has several
    systems: tuple[System, ...] = PAIR
    task: str = ""  # the environment in words, where its id does not say it
    solved: float | None = None  # the return that solves it, where that is the question

    @property
    def name(self) -> str:
        """What its files and its part of expected.json are called."""
        return self.label or self.env


@dataclass(frozen=True)
class Campaign:
    """Algorithms and where they are tried; `name` is that of its file and of its experiment. `algo` is
    that of legs which name none.
    """

    name: str
    algo: str
    legs: tuple[Leg, ...]

    @property
    def script(self) -> Path:
        """The command."""
        return Path(__file__).with_name(f"{self.name}.py")

    @property
    def report_module(self) -> ModuleType:
        """What summarises and shows its legs: a comparison of two systems, or what solves a task."""
        return tables if self.legs[0].solved is None else solving

    @property
    def folder(self) -> Path:
        """The experiment."""
        return ROOT / "experiments" / self.name

    def path(self, leg: Leg, system: str, seed: int) -> Path:
        """Where one run's result is."""
        name = f"{leg.name}_{system.replace(' ', '-')}_s{seed}.json"
        return self.folder / "results" / name

    def algo_of(self, leg: Leg, system: System) -> str:
        """What learns there."""
        return system.algo or leg.algo or self.algo

    def read_runs(self, leg: Leg) -> Runs | None:
        """Results by system in order of seed; `None` unless all are there."""
        names = [system.name for system in leg.systems]
        paths = {s: [self.path(leg, s, seed) for seed in range(leg.seeds)] for s in names}
        if not all(path.exists() for system_paths in paths.values() for path in system_paths):
            return None
        return {
            s: [json.loads(path.read_text()) for path in system_paths] for s, system_paths in paths.items()
        }

    def complete_legs(self) -> list[CompleteLeg]:
        """The legs whose runs are all there."""
        legs_with_runs = [(leg, self.read_runs(leg)) for leg in self.legs]
        return [
            CompleteLeg(leg.name, leg.task or leg.env, leg.steps, read_runs, leg.solved)
            for leg, read_runs in legs_with_runs
            if read_runs
        ]


def run_rlox(campaign: Campaign, leg: Leg, system: System, seed: int) -> dict[str, Any]:
    """`rlox train` in a folder of its own; the result is what its run folder says."""
    algo = campaign.algo_of(leg, system)
    with tempfile.TemporaryDirectory() as folder:
        overrides = [f"algo={algo}", f"env={leg.env}", f"total_steps={leg.steps}"]
        run = train(Path(folder), *overrides, *system.overrides(), f"seed={seed}")
        return read_result(leg, run)


def read_result(leg: Leg, run: Path) -> dict[str, Any]:
    """The result of a run of the leg, as its run folder says it."""
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
    """The same run in Stable-Baselines3 or its contributions."""
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
    """The result of a run: the final policy's returns, and how training went."""
    return {
        "returns": returns,
        "training": float(np.mean([r for _, r in episode_ends[-LAST_EPISODES:]])),
        "curve": learning_curve(episode_ends, leg.steps),
        "seconds": seconds,
    }


def measure(campaign: Campaign, leg: Leg, system: str, seed: int) -> None:
    """Run one system once, in a single-threaded process, unless its result is there."""
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
    """expected.json, the table and the figure of the legs that are complete."""
    legs = campaign.complete_legs()
    if legs:
        tables.report(campaign.folder, legs, campaign.report_module.summarize, campaign.report_module.render)


def main(campaign: Campaign, description: str | None, report: Callable[[Any], None] = write) -> None:
    """Run what is missing, then write the report."""
    legs = {leg.name: leg for leg in campaign.legs}
    parser = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    parser.add_argument("--legs", nargs="+", choices=list(legs), default=list(legs))
    parser.add_argument("--one", help="run this system once and print its result")
    parser.add_argument("--seed", type=int, default=0, help="of the one")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--report", action="store_true", help="run nothing, report what is there")
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
