"""Memory of learning from a dataset: rows in memory, or read from their file when they are sampled.

The script writes a dataset of random numbers with the sizes of HalfCheetah (17 numbers, actions of 6). TD3+BC
makes some updates from it in both ways, each in its own process. The figures are the process's peak resident
memory, and its memory after importing rlox and torch.

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

OBS_DIM, ACT_DIM, EPISODE_LENGTH = 17, 6, 1000
MEMORY_SETTINGS = {"in memory": "64GB", "from disk": "1"}


def make_dataset(folder: Path, transitions: int) -> int:
    """Write a dataset in episodes of 1,000 steps; return its bytes."""
    from rlox.runs.record import make_dataset, write_dataset

    rng = np.random.default_rng(0)
    next_obs = rng.standard_normal((transitions, OBS_DIM), np.float32)
    step = np.arange(transitions) % EPISODE_LENGTH
    columns = {
        "obs": np.concatenate([next_obs[:1], next_obs[:-1]]),
        "next_obs": next_obs,
        "actions": rng.uniform(-1, 1, (transitions, ACT_DIM)).astype(np.float32),
        "rewards": rng.standard_normal(transitions, np.float32),
        "terminated": np.zeros(transitions, np.bool_),
        "truncated": step == EPISODE_LENGTH - 1,
    }
    write_dataset(make_dataset(columns, {}), folder)
    return sum(column.nbytes for column in columns.values())


def run_child(folder: str, memory: str, updates: int) -> None:
    """Learn, and print memory and times."""
    from rlox.algorithms import TD3BC

    before, start = memory_bytes("VmRSS"), time.perf_counter()
    algorithm = TD3BC(folder, obs_dim=OBS_DIM, act_dim=ACT_DIM, act_high=1.0, memory=memory)
    algorithm.train(1)
    loaded = time.perf_counter()
    algorithm.train(updates)
    figures = {
        "before": before, "most": memory_bytes("VmHWM"), "loading_s": loaded - start,
        "update_ms": (time.perf_counter() - loaded) / updates * 1e3,
    }  # fmt: skip
    print(json.dumps(figures))


def memory_bytes(key: str) -> int:
    """Return an entry of this process's memory in Linux, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{key}:"))


def main() -> None:
    """Measure both ways and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transitions", type=int, default=5_000_000)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "MEMORY"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return run_child(*args.child, args.updates)
    with tempfile.TemporaryDirectory() as dataset_dir:
        make_command = (
            "import memory_offline as m, pathlib; "
            f"print(m.written(pathlib.Path({dataset_dir!r}), {args.transitions}))"
        )
        script_dir = Path(__file__).parent
        dataset_process = subprocess.run(
            [sys.executable, "-c", make_command],
            cwd=script_dir,
            capture_output=True,
            text=True,
            check=True,
        )
        size = int(dataset_process.stdout)
        print(f"{machine.describe_machine()['cpu']}\n{args.transitions:,} transitions, {size / 1e6:,.0f} MB")
        for name, memory in MEMORY_SETTINGS.items():
            command = [sys.executable, __file__, "--child", dataset_dir, memory]
            command += ["--updates", str(args.updates)]
            measured_process = subprocess.run(command, capture_output=True, text=True, check=True)
            figures = json.loads(measured_process.stdout)
            print(
                f"{name:<10} {figures['most'] / 1e6:,.0f} MB resident at most "
                f"({figures['before'] / 1e6:,.0f} before), loaded in {figures['loading_s']:.1f} s, "
                f"{figures['update_ms']:.2f} ms an update"
            )
    return None


if __name__ == "__main__":
    main()
