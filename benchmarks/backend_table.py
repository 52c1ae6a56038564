"""Train with torch and with the native engine in turn, for the table that `algo.backend=auto` reads.

The times are CPU seconds of one thread. Runs on native environments include collection and updates; runs from
a dataset include batches and updates. The table has the ratios by algorithm, width of the two hidden layers
and rows of an update. The ratios of this kind of CPU go into `rlox/training/backend_table.json`, beside those
of other CPUs, and are shown in `benchmarks/results/backends.md`. A new measurement replaces the earlier
entries of the same sizes; other entries stay.

    python benchmarks/backend_table.py
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness.machine import describe_machine, utc_now
from harness.threads import ensure_single_threaded

OUT = Path(__file__).parent / "results"
WIDTHS = (64, 128, 256, 512, 1024)
BATCHES = (64, 256, 1024)  # rows of a batch of replayed transitions
ROUNDS, MAX_SECONDS = 7, 20.0  # at most 7 rounds; no new round after 20 seconds
ENVS = {"ppo": "CartPole-v1", "a2c": "CartPole-v1", "dqn": "CartPole-v1"}
# environments, steps of a rollout, rows of a minibatch
PPO_SIZES = ((8, 128, 64), (8, 128, 256), (64, 64, 2_048), (1_024, 16, 16_384), (16_384, 4, 65_536))
OFFLINE_ALGOS = ("bc", "td3_bc", "iql")
A2C_SIZES = ((8, 5), (64, 5), (1_024, 5), (16_384, 4))


@dataclass(frozen=True)
class BenchmarkSize:
    """One size of one algorithm."""

    algo: str
    width: int
    rows: int
    options: dict[str, Any]
    steps: int  # environment steps, or updates from a dataset, in each round


def sizes() -> Iterator[BenchmarkSize]:
    """Yield every size; the widest network comes last."""
    for width in WIDTHS:
        for n_envs, n_steps, batch_size in PPO_SIZES:
            run = {"n_envs": n_envs, "n_steps": n_steps, "n_epochs": 2, "batch_size": batch_size}
            yield BenchmarkSize("ppo", width, batch_size, run, n_envs * n_steps)
        for n_envs, n_steps in A2C_SIZES:
            rows = n_envs * n_steps
            steps = rows * max(1, 4_000_000 // (rows * width))
            yield BenchmarkSize("a2c", width, rows, {"n_envs": n_envs, "n_steps": n_steps}, steps)
        for algo in ("dqn", "sac", "td3", "ddpg"):
            for rows in BATCHES:
                updates = max(4, 2**21 // (rows * width))
                each = 4 if algo == "dqn" else 1
                options = {"batch_size": rows, "train_freq": each, "n_envs": 1}
                buffer = {"learning_starts": 128, "buffer_size": 4_096}
                yield BenchmarkSize(algo, width, rows, options | buffer, each * updates)
        for algo in OFFLINE_ALGOS:
            for rows in BATCHES:
                updates = 16 * max(1, 2**17 // (rows * width))
                yield BenchmarkSize(algo, width, rows, {"batch_size": rows}, updates)


def measure(size: BenchmarkSize) -> dict[str, Any]:
    """Return the median CPU seconds of each engine, and the ratio of torch to native."""
    from rlox.algorithms import ALGORITHMS

    make: Any = ALGORITHMS[size.algo]
    options = size.options | {"net_arch": (size.width, size.width), "seed": 0}
    env_or_dataset, warmup_steps = ENVS.get(size.algo, "Pendulum-v1"), max(size.steps, 256)
    if size.algo in OFFLINE_ALGOS:
        env_or_dataset, warmup_steps = make_dataset(), size.steps
        options |= {"obs_dim": 3, "act_dim": 1}
    runs = {name: make(env_or_dataset, backend=name, **options) for name in ("torch", "native")}
    for run in runs.values():
        run.train(warmup_steps)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    while len(seconds["torch"]) < ROUNDS and sum(map(sum, seconds.values())) < MAX_SECONDS:
        for name, run in runs.items():
            start = time.process_time()
            run.train(run.clock.now + size.steps)
            seconds[name].append(time.process_time() - start)
    for run in runs.values():
        run.close()
    torch, native = (float(np.median(seconds[name])) for name in ("torch", "native"))
    microseconds = {
        "torch_us": round(1e6 * torch / size.steps, 2),
        "native_us": round(1e6 * native / size.steps, 2),
    }
    return {
        "width": size.width,
        "rows": size.rows,
        "ratio": round(torch / native, 2),
        **microseconds,
    }


def make_dataset() -> Any:
    """Make a dataset with the observation and action sizes of Pendulum-v1."""
    from rlox import OfflineDatasetBuffer

    rng, n = np.random.default_rng(0), 4_096
    obs = rng.standard_normal((n + 1, 3), np.float32)
    actions = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    rewards, truncated = rng.standard_normal(n, np.float32), np.arange(n) % 64 == 63
    return OfflineDatasetBuffer(obs[:-1], obs[1:], actions, rewards, np.zeros(n, bool), truncated)


def render(kinds: dict[str, Any]) -> str:
    """Return a table for each kind of CPU: the ratio of torch to native, microseconds per step of both."""
    lines = ["# Measured: torch beside the native engine", ""]
    for kind, results_of_kind in kinds.items():
        lines += [
            f"## {kind}",
            "",
            f"{results_of_kind['date']}, {results_of_kind['machine']}; one thread each.",
            "",
        ]
        lines += ["| algorithm | rows of an update | " + " | ".join(map(str, WIDTHS)) + " wide |"]
        lines += ["|---|---|" + "---|" * len(WIDTHS)]
        for algo, results in results_of_kind["algorithms"].items():
            for rows in sorted({size_result["rows"] for size_result in results}):
                ratios = {
                    size_result["width"]: f"{size_result['ratio']:.2f}x"
                    for size_result in results
                    if size_result["rows"] == rows
                }
                lines += [f"| {algo} | {rows:,} | " + " | ".join(ratios.get(w, "") for w in WIDTHS) + " |"]
        lines += [""]
    return "\n".join(lines)


def main() -> int:
    """Measure every size, and write this kind of CPU into the table."""
    algos = sorted({size.algo for size in sizes()})
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", choices=algos, default=algos)
    selected_algos = parser.parse_args().algorithms
    ensure_single_threaded()
    import torch

    from rlox.training.backend import TABLE_FILE, cpu_kind

    torch.set_num_threads(1)
    algorithms: dict[str, list[dict[str, Any]]] = {}
    for size in (size for size in sizes() if size.algo in selected_algos):
        result = measure(size)
        algorithms.setdefault(size.algo, []).append(result)
        print(size.algo, result, flush=True)
    kinds = json.loads(TABLE_FILE.read_text("utf-8")) if TABLE_FILE.exists() else {}
    machine, torch_version = describe_machine(), torch.__version__.partition("+")[0]
    machine_text = f"{machine['cpu']}, {machine['blas']}, torch {torch_version}"
    before = kinds.get(cpu_kind(), {}).get("algorithms", {})
    kinds[cpu_kind()] = {
        "date": utc_now(),
        "machine": machine_text,
        "algorithms": before | algorithms,
    }
    TABLE_FILE.write_text(json.dumps(kinds, indent=1) + "\n", encoding="utf-8")
    (OUT / "backends.md").write_text(render(kinds), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
