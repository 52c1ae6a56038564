"""Updates of TD3+BC, IQL and CQL from one dataset, beside d3rlpy: milliseconds of sampling and of learning.

Both have the same rows (17 numbers, actions of 6), networks (256x256) and batches (256), and one thread. Each
system runs in its own process, in turn. d3rlpy needs another Gymnasium, so it has its own virtual
environment, which `--install-d3rlpy` makes. The ratios within one call of this script are the result.

    pip install . && python benchmarks/bench_offline.py --install-d3rlpy
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from measurement_process import install_venv, run_measurement

OBS_DIM, ACT_DIM, ROWS, EPISODE_LENGTH = 17, 6, 100_000, 1000
WIDTHS, BATCH = (256, 256), 256
D3RLPY = "2.8.1"
SYSTEMS = ("d3rlpy", "torch", "native")
ALGORITHMS = {"td3_bc": SYSTEMS, "iql": SYSTEMS, "cql": ("d3rlpy", "torch")}


def make_columns() -> dict[str, Any]:
    """Make rows in episodes of 1,000 steps, with the sizes of HalfCheetah."""
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((ROWS + 1, OBS_DIM), np.float32)
    return {
        "obs": observations[:-1],
        "next_obs": observations[1:],
        "actions": rng.uniform(-1, 1, (ROWS, ACT_DIM)).astype(np.float32),
        "rewards": rng.standard_normal(ROWS, np.float32),
        "terminated": np.zeros(ROWS, np.bool_),
        "truncated": np.arange(ROWS) % EPISODE_LENGTH == EPISODE_LENGTH - 1,
    }


def run_rlox(algo: str, backend: str, updates: int) -> dict[str, float]:
    """Return the milliseconds of a batch and of an update."""
    from rlox import OfflineDatasetBuffer
    from rlox.algorithms import ALGORITHMS as KINDS

    options: dict[str, Any] = (
        {"cql_alpha": 5.0, "auto_alpha": False} if algo == "cql" else {"backend": backend}
    )
    algorithm = KINDS[algo](
        OfflineDatasetBuffer(**make_columns()), obs_dim=OBS_DIM, act_dim=ACT_DIM, act_high=1.0,
        batch_size=BATCH, net_arch=WIDTHS, **options,
    )  # fmt: skip
    algorithm.train(updates // 10)
    before = algorithm.timings.collect, algorithm.timings.update
    algorithm.train(updates + updates // 10)
    each = 1e3 / updates
    return {
        "draw": (algorithm.timings.collect - before[0]) * each,
        "update": (algorithm.timings.update - before[1]) * each,
    }


def run_d3rlpy(algo: str, updates: int) -> dict[str, float]:
    """Measure the same with d3rlpy's own calls."""
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    rows = make_columns()
    dataset = d3rlpy.dataset.MDPDataset(
        rows["obs"], rows["actions"], rows["rewards"], rows["terminated"], rows["truncated"]
    )
    kind = {"td3_bc": "TD3PlusBCConfig", "iql": "IQLConfig", "cql": "CQLConfig"}[algo]
    encoder = d3rlpy.models.VectorEncoderFactory(list(WIDTHS))
    options: dict[str, Any] = {"actor_encoder_factory": encoder, "critic_encoder_factory": encoder}
    if algo == "iql":
        options["value_encoder_factory"] = encoder
    if algo == "cql":
        options |= {"conservative_weight": 5.0, "alpha_learning_rate": 0.0}
    learner = getattr(d3rlpy.algos, kind)(batch_size=BATCH, **options).create(device=False)
    learner.build_with_dataset(dataset)
    seconds = {"draw": 0.0, "update": 0.0}
    for number in range(updates + updates // 10):
        start = time.perf_counter()
        batch = dataset.sample_transition_batch(BATCH)
        after_draw = time.perf_counter()
        learner.update(batch)
        if number >= updates // 10:
            seconds["draw"] += after_draw - start
            seconds["update"] += time.perf_counter() - after_draw
    return {part: part_seconds * 1e3 / updates for part, part_seconds in seconds.items()}


def compare(python: Path | None, updates: int, repeats: int) -> None:
    """Measure the systems in turn and print a table of medians."""
    print("| algorithm | system | draw ms | update ms | both | times d3rlpy | update alone |")
    print("|---|---|---|---|---|---|---|")
    for algo, systems in ALGORITHMS.items():
        systems_measured = [system for system in systems if system != "d3rlpy" or python]
        count = updates // 10 if algo == "cql" else updates
        runs: dict[str, list[dict[str, float]]] = {system: [] for system in systems_measured}
        for _ in range(repeats):
            for system in systems_measured:
                interpreter = python if system == "d3rlpy" else None
                child_arguments = ("--child", algo, system, "--updates", str(count))
                runs[system].append(run_measurement(interpreter, __file__, *child_arguments))
        medians = {
            system: {part: statistics.median(run[part] for run in system_runs) for part in system_runs[0]}
            for system, system_runs in runs.items()
        }
        peer = medians.get("d3rlpy")
        for system, parts in medians.items():
            batch_ms = parts["draw"] + parts["update"]
            ratios = "| - | - |"
            if peer:
                total_ratio = (peer["draw"] + peer["update"]) / batch_ms
                ratios = f"| {total_ratio:.1f} | {peer['update'] / parts['update']:.1f} |"
            print(
                f"| {algo} | {system} | {parts['draw']:.2f} | {parts['update']:.2f} "
                f"| {batch_ms:.2f} {ratios}",
                flush=True,
            )


def main() -> None:
    """Run the comparison, or one of its child processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=1000, help="updates (CQL: a tenth of them)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--install-d3rlpy", action="store_true")
    parser.add_argument("--d3rlpy-python", type=Path, help="interpreter of an environment that has d3rlpy")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        algo, system = args.child
        milliseconds = (
            run_d3rlpy(algo, args.updates) if system == "d3rlpy" else run_rlox(algo, system, args.updates)
        )
        print(json.dumps(milliseconds))
        return
    python = args.d3rlpy_python or (
        install_venv("d3rlpy", f"d3rlpy=={D3RLPY}") if args.install_d3rlpy else None
    )
    from rlox_cli.runs.provenance import cpu_model

    print(
        f"{cpu_model()}; rows of {OBS_DIM} numbers, actions of {ACT_DIM}, networks {WIDTHS}, batches {BATCH}"
    )
    compare(python, args.updates, args.repeats)


if __name__ == "__main__":
    main()
