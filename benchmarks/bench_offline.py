"""Updates of TD3+BC, IQL and CQL from one dataset, beside d3rlpy: milliseconds, drawing and learning apart.

The same rows (17 numbers, actions of 6), networks (256x256) and batches (256), one thread, every system in
a process of its own, by turns. d3rlpy, which wants another Gymnasium, has a virtual environment of its own,
which `--install-d3rlpy` makes. Ratios within one invocation are the result.

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
from apart import install, measured

OBS, ACT, ROWS, EPISODE = 17, 6, 100_000, 1000
WIDTHS, BATCH = (256, 256), 256
D3RLPY = "2.8.1"
SYSTEMS = ("d3rlpy", "torch", "native")
ALGORITHMS = {"td3_bc": SYSTEMS, "iql": SYSTEMS, "cql": ("d3rlpy", "torch")}


def columns() -> dict[str, Any]:
    """Rows in episodes of 1,000 steps, as large as HalfCheetah's."""
    rng = np.random.default_rng(0)
    seen = rng.standard_normal((ROWS + 1, OBS), np.float32)
    return {
        "obs": seen[:-1],
        "next_obs": seen[1:],
        "actions": rng.uniform(-1, 1, (ROWS, ACT)).astype(np.float32),
        "rewards": rng.standard_normal(ROWS, np.float32),
        "terminated": np.zeros(ROWS, np.bool_),
        "truncated": np.arange(ROWS) % EPISODE == EPISODE - 1,
    }


def run_rlox(algo: str, backend: str, updates: int) -> dict[str, float]:
    """Milliseconds of a batch and of an update."""
    from rlox import OfflineDatasetBuffer
    from rlox.algorithms import ALGORITHMS as KINDS

    options: dict[str, Any] = (
        {"cql_alpha": 5.0, "auto_alpha": False} if algo == "cql" else {"backend": backend}
    )
    algorithm = KINDS[algo](
        OfflineDatasetBuffer(**columns()), obs_dim=OBS, act_dim=ACT, act_high=1.0, batch_size=BATCH,
        net_arch=WIDTHS, **options,
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
    """The same by d3rlpy's own calls."""
    import d3rlpy
    import torch

    torch.set_num_threads(1)
    rows = columns()
    dataset = d3rlpy.dataset.MDPDataset(
        rows["obs"], rows["actions"], rows["rewards"], rows["terminated"], rows["truncated"]
    )
    kind = {"td3_bc": "TD3PlusBCConfig", "iql": "IQLConfig", "cql": "CQLConfig"}[algo]
    wide = d3rlpy.models.VectorEncoderFactory(list(WIDTHS))
    options: dict[str, Any] = {"actor_encoder_factory": wide, "critic_encoder_factory": wide}
    if algo == "iql":
        options["value_encoder_factory"] = wide
    if algo == "cql":
        options |= {"conservative_weight": 5.0, "alpha_learning_rate": 0.0}
    made = getattr(d3rlpy.algos, kind)(batch_size=BATCH, **options).create(device=False)
    made.build_with_dataset(dataset)
    seconds = {"draw": 0.0, "update": 0.0}
    for number in range(updates + updates // 10):
        begun = time.perf_counter()
        batch = dataset.sample_transition_batch(BATCH)
        drawn = time.perf_counter()
        made.update(batch)
        if number >= updates // 10:
            seconds["draw"] += drawn - begun
            seconds["update"] += time.perf_counter() - drawn
    return {part: spent * 1e3 / updates for part, spent in seconds.items()}


def compare(python: Path | None, updates: int, repeats: int) -> None:
    """Measure by turns, and print a table of medians."""
    print("| algorithm | system | draw ms | update ms | both | times d3rlpy | update alone |")
    print("|---|---|---|---|---|---|---|")
    for algo, systems in ALGORITHMS.items():
        used = [system for system in systems if system != "d3rlpy" or python]
        count = updates // 10 if algo == "cql" else updates
        runs: dict[str, list[dict[str, float]]] = {system: [] for system in used}
        for _ in range(repeats):
            for system in used:
                by = python if system == "d3rlpy" else None
                given = ("--child", algo, system, "--updates", str(count))
                runs[system].append(measured(by, __file__, *given))
        told = {
            system: {part: statistics.median(run[part] for run in found) for part in found[0]}
            for system, found in runs.items()
        }
        peer = told.get("d3rlpy")
        for system, parts in told.items():
            both = parts["draw"] + parts["update"]
            ratios = "| - | - |"
            if peer:
                whole = (peer["draw"] + peer["update"]) / both
                ratios = f"| {whole:.1f} | {peer['update'] / parts['update']:.1f} |"
            print(
                f"| {algo} | {system} | {parts['draw']:.2f} | {parts['update']:.2f} | {both:.2f} {ratios}",
                flush=True,
            )


def main() -> None:
    """Measure, or be one of those that are measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--updates", type=int, default=1000, help="of which CQL makes a tenth")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--install-d3rlpy", action="store_true")
    parser.add_argument(
        "--d3rlpy-python", type=Path, help="the interpreter of an environment that has it"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        algo, system = given.child
        found = (
            run_d3rlpy(algo, given.updates)
            if system == "d3rlpy"
            else run_rlox(algo, system, given.updates)
        )
        print(json.dumps(found))
        return
    python = given.d3rlpy_python or (
        install("d3rlpy", f"d3rlpy=={D3RLPY}") if given.install_d3rlpy else None
    )
    from rlox_cli.provenance import cpu_model

    print(
        f"{cpu_model()}; rows of {OBS} numbers, actions of {ACT}, networks {WIDTHS}, batches {BATCH}"
    )
    compare(python, given.updates, given.repeats)


if __name__ == "__main__":
    main()
