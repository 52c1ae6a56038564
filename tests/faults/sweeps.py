"""Compares a sweep whose runner is killed many times with an undisturbed sweep.

The jobs of one number in `NUMBERS` crash. All counts come from the contents of the folders.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox_cli.runs.run_folder import read_status

NUMBERS = 10  # numbers; the jobs of one of them crash
WORKERS = 2
SMALL = (
    "tuned=null", "total_steps=256", "algo.n_steps=32", "algo.batch_size=64", "algo.n_epochs=1",
    "algo.net_arch=[8]", "env.n_envs=2", "eval.episodes=2", "checkpoint.every=64", "log.every=128",
    "env=walks:Walk-v0",
)  # fmt: skip
WALKS = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Walk(gym.Env):
    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, number=0):
        self.number, self.at, self.taken = number, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.seen(), {}

    def step(self, action):
        self.at, self.taken = self.at + 1, self.taken + 1
        if self.number == 3 and self.taken == 40:
            raise RuntimeError("the third leg broke")
        reward = float(action == (self.at + self.number) % 2) + 0.1 * self.np_random.random()
        return self.seen(), reward, self.at == 10, False, {}

    def seen(self):
        return np.array([self.at / 10, self.at % 2], np.float32)

    def save_state(self):
        return {"at": self.at, "taken": self.taken}

    def load_state(self, state):
        self.at, self.taken = state["at"], state["taken"]


gym.register("Walk-v0", Walk)
"""


@dataclass(frozen=True)
class Campaign:
    """The size and the seed of a campaign."""

    folder: Path
    numbers: int
    seeds: int
    kills: int
    seed: int = 0

    def prepare(self) -> None:
        """Write the environment's file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "walks.py").write_text(WALKS)

    def begin(self, place: str, seeds: int) -> subprocess.Popen[str]:
        """Start a sweep in a separate process."""
        arguments = [f"env.kwargs.number=range(0,{self.numbers})", f"seed=range(0,{seeds})"]
        command = [sys.executable, "-m", "rlox_cli.main", "sweep", *SMALL, *arguments]
        return subprocess.Popen(
            [*command, f"sweep.workers={WORKERS}", f"hydra.sweep.dir={place}"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run_to_end(self, place: str, seeds: int) -> tuple[int, str]:
        """Run a sweep to its end; return its exit code and its output."""
        process = self.begin(place, seeds)
        out, _ = process.communicate()
        return process.returncode, out

    def run_with_kills(self, place: str) -> int:
        """Kill the runner several times, then let it end; return how many finished jobs a kill changed.

        Each kill comes after a random number of starts and ends of jobs since the runner began. The number is
        small enough that no sweep ends before its kill.
        """
        rng, repeated = random.Random(self.seed), 0
        max_lines = 2 * self.numbers * self.seeds // (self.kills + 1)
        for _ in range(self.kills):
            before = self.finished_jobs(place)
            process = self.begin(place, self.seeds)
            assert process.stdout is not None
            lines_left = rng.randint(1, max_lines)
            while lines_left and (line := process.stdout.readline()):
                lines_left -= "] started " in line or "] done " in line
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()  # until the workers have saved and ended too
            assert process.returncode == -signal.SIGKILL, "the sweep was over before it was killed"
            repeated += self.count_changed(place, before)
        before = self.finished_jobs(place)
        self.run_to_end(place, self.seeds)
        return repeated + self.count_changed(place, before)

    def count_changed(self, place: str, before: Mapping[str, tuple[int, int]]) -> int:
        """Return how many finished jobs have another result or another number of trainings."""
        now = self.finished_jobs(place)
        return sum(now.get(name) != before_value for name, before_value in before.items())

    def finished_jobs(self, place: str) -> dict[str, tuple[int, int]]:
        """Return the finished jobs: the time of each result, and how often its training began."""
        done_runs = [p for p in self.runs(place) if read_status(p)["status"] == "done"]
        starts = self.starts(place)
        return {p.name: ((p / "result.json").stat().st_mtime_ns, starts[p.name]) for p in done_runs}

    def runs(self, place: str) -> list[Path]:
        """Return the folders of jobs, without earlier attempts."""
        status_files = (self.folder / place).glob("[0-9]*_*/status.json")
        return sorted(p.parent for p in status_files if ".attempt" not in p.parent.name)

    def starts(self, place: str) -> Counter[str]:
        """Return how often training of each job began: its folder once, every attempt, every resume."""
        root = self.folder / place
        traces = [*root.glob("[0-9]*_*/config.yaml"), *root.glob("[0-9]*_*/.hydra/resume*")]
        return Counter(p.relative_to(root).parts[0].partition(".attempt")[0] for p in traces)

    def table(self, place: str) -> list[dict[str, str]]:
        """Return the rows of the summary without times."""
        with (self.folder / place / "summary.csv").open() as file:
            rows = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
        return sorted(rows, key=lambda row: row["job"])

    def remove_key(self, place: str, key: str) -> int:
        """Remove a key from all configurations, as if an older version wrote them; return how many had it."""
        n_changed = 0
        for path in (self.folder / place).glob("[0-9]*_*/config.yaml"):
            lines = path.read_text().splitlines()
            kept_lines = [line for line in lines if line.split(":")[0].strip() != key]
            path.write_text("\n".join(kept_lines) + "\n")
            n_changed += len(kept_lines) < len(lines)
        return n_changed


def counts(campaign: Campaign, more: int) -> dict[str, Any]:
    """Run the whole campaign and return its counts."""
    campaign.prepare()
    undisturbed, _ = campaign.run_to_end("alone", campaign.seeds)
    repeated = campaign.run_with_kills("killed")
    same = campaign.table("alone") == campaign.table("killed")
    ends = Counter(row["status"] for row in campaign.table("killed"))
    starts = campaign.starts("killed").total()
    before = campaign.finished_jobs("killed")
    changed = campaign.remove_key("killed", "log_std_init")
    _, out = campaign.run_to_end("killed", campaign.seeds + more)
    after = campaign.finished_jobs("killed")
    repeated_later = sum(after.get(name) != at for name, at in before.items())
    return {
        "jobs": campaign.numbers * campaign.seeds,
        "kills": campaign.kills,
        "exit_code_undisturbed": undisturbed,
        "summary_equal": same,
        "done": ends["done"],
        "failures_listed": ends["failed"],
        "training_starts": starts,
        "finished_jobs_repeated": repeated + repeated_later,
        "configs_without_a_key_of_today": changed,
        "seeds_added": more,
        "jobs_done_then": len(set(after) - set(before)),
        "said": next(line for line in out.splitlines() if "jobs done" in line),
    }
