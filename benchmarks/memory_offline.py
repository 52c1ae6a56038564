"""Memory that learning from a dataset takes: rows in memory, or read from their file as they are drawn.

A dataset of random numbers in the shape of HalfCheetah's (17 numbers, actions of 6) is written, and TD3+BC
makes some updates from it, each way in a process of its own. The figure is the process's largest resident
memory, and what it had when rlox and torch were imported.

    pip install . && python benchmarks/memory_offline.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import machine

OBS, ACT, EPISODE = 17, 6, 1000
WAYS = {"in memory": "64GB", "from disk": "1"}


def written(folder: Path, transitions: int) -> int:
    """Write a dataset in episodes of 1,000 steps; its bytes."""
    from rlox.runs.record import dataset_of, write_dataset

    rng = np.random.default_rng(0)
    after = rng.standard_normal((transitions, OBS), np.float32)
    step = np.arange(transitions) % EPISODE
    columns = {
        "obs": np.concatenate([after[:1], after[:-1]]),
        "next_obs": after,
        "actions": rng.uniform(-1, 1, (transitions, ACT)).astype(np.float32),
        "rewards": rng.standard_normal(transitions, np.float32),
        "terminated": np.zeros(transitions, np.bool_),
        "truncated": step == EPISODE - 1,
    }
    write_dataset(dataset_of(columns, {}), folder)
    return sum(column.nbytes for column in columns.values())


def child(folder: str, memory: str, updates: int) -> None:
    """Learn, and print what it took."""
    from rlox.algorithms import TD3BC

    before, begin = resident("VmRSS"), time.perf_counter()
    algorithm = TD3BC(folder, obs_dim=OBS, act_dim=ACT, act_high=1.0, memory=memory)
    algorithm.train(1)
    loaded = time.perf_counter()
    algorithm.train(updates)
    told = {
        "before": before, "most": resident("VmHWM"), "loading_s": loaded - begin,
        "update_ms": (time.perf_counter() - loaded) / updates * 1e3,
    }  # fmt: skip
    print(json.dumps(told))


def resident(key: str) -> int:
    """Bytes of this process, as Linux counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    """Measure both ways and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transitions", type=int, default=5_000_000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "MEMORY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(*given.child, given.updates)
    with tempfile.TemporaryDirectory() as name:
        make = (
            "import memory_offline as m, pathlib; "
            f"print(m.written(pathlib.Path({name!r}), {given.transitions}))"
        )
        here = Path(__file__).parent
        made = subprocess.run(
            [sys.executable, "-c", make], cwd=here, capture_output=True, text=True, check=True
        )
        size = int(made.stdout)
        print(
            f"{machine.describe_machine()['cpu']}\n{given.transitions:,} transitions, {size / 1e6:,.0f} MB"
        )
        for way, memory in WAYS.items():
            command = [sys.executable, __file__, "--child", name, memory]
            command += ["--updates", str(given.updates)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            print(
                f"{way:<10} {found['most'] / 1e6:,.0f} MB resident at most "
                f"({found['before'] / 1e6:,.0f} before), loaded in {found['loading_s']:.1f} s, "
                f"{found['update_ms']:.2f} ms an update"
            )
    return None


if __name__ == "__main__":
    main()
