"""Measure how much more torch threads speed up an update, by networks and batches.

This makes the table of docs/cli.md, which shows when `torch_threads=N` helps: wall-clock seconds of the same
batches with 1, 2, 4, ... threads in turn, up to the number of cores. Run it on an idle machine.

    python benchmarks/torch_threads.py
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness.machine import describe_machine, utc_now
from harness.updates import second_update

OUT = Path(__file__).parent / "results"
ROUNDS = 15
# algorithm, environment, width, rows of a batch
CASES = (
    ("ppo", "CartPole-v1", 64, 256),
    ("ppo", "CartPole-v1", 256, 256),
    ("ppo", "CartPole-v1", 256, 2048),
    ("dqn", "CartPole-v1", 256, 64),
    ("sac", "Pendulum-v1", 64, 256),
    ("sac", "Pendulum-v1", 256, 64),
    ("sac", "Pendulum-v1", 256, 256),
    ("sac", "Pendulum-v1", 512, 256),
    ("td3", "Pendulum-v1", 256, 256),
)


def measure(algo: str, env: str, width: int, batch_size: int) -> dict[str, Any]:
    """Return the median seconds of an update by the number of threads."""
    import torch

    run, batch, clock = second_update(algo, env, width, batch_size)
    counts = [n for n in (1, 2, 4, 8, 16) if n <= (os.cpu_count() or 1)]
    seconds: dict[int, list[float]] = {n: [] for n in counts}
    for number in range(ROUNDS + 1):
        for n in counts:
            torch.set_num_threads(n)
            start = time.perf_counter()
            run.learner.update(batch, clock)
            if number:  # the first round warms up
                seconds[n].append(time.perf_counter() - start)
    run.close()
    medians = {str(n): float(np.median(thread_seconds)) for n, thread_seconds in seconds.items()}
    return {"algo": algo, "width": width, "batch_size": batch_size, "seconds": medians}


def render(report: dict[str, Any]) -> str:
    """Return a row for each case with the ratios to one thread."""
    counts = [n for n in report["cases"][0]["seconds"] if n != "1"]
    machine = report["machine"]
    head = f"| update of | networks | batch | {' | '.join(f'{n} threads' for n in counts)} |"
    lines = [
        f"{report['date']}; {machine['cpu']}, {machine['blas']}, {machine['cores']} cores, load "
        f"{machine['load']} at the start. Seconds with one thread over seconds with several, "
        f"medians of {ROUNDS} rounds by turns.",
        "",
        head,
        "|" + "---|" * (3 + len(counts)),
    ]
    for case in report["cases"]:
        ratios = [case["seconds"]["1"] / case["seconds"][n] for n in counts]
        width = case["width"]
        cells = [case["algo"].upper(), f"{width}x{width}", str(case["batch_size"])]
        lines.append("| " + " | ".join([*cells, *(f"{r:.2f}x" for r in ratios)]) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure every case and write benchmarks/results/torch_threads.json and .md."""
    machine, date = describe_machine(), utc_now()
    cases = [measure(*case) for case in CASES]
    report = {"schema_version": 1, "date": date, "machine": machine, "cases": cases}
    (OUT / "torch_threads.json").write_text(json.dumps(report, indent=1) + "\n")
    (OUT / "torch_threads.md").write_text(render(report))
    print(render(report), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
