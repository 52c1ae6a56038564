"""A million Atari-shaped transitions in memory and on disk: memory, bytes, speed, kill -9.

    python benchmarks/memory_atari.py --rows 1000000 --hot 10000 --path replay_atari

Each step adds one new random 84 x 84 frame to a stack of four. A child process fills a buffer in memory.
Another one fills a buffer on disk and is killed with SIGKILL. Then this process reopens the buffer on disk,
checks every byte and samples hot and cold rows. It writes benchmarks/results/memory_atari.json: peak resident
memory of each process, bytes on disk, seconds, microseconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from harness.cli import RESULTS

import rlox

SCHEMA_VERSION = 2
BATCHES = 50  # of 32 rows, which are compared with the pushed rows


def open_buffer(path: str, hot: int, rows: int) -> rlox.MmapReplayBuffer:
    """Open the buffer that both processes use."""
    return rlox.MmapReplayBuffer(
        hot, rows, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1,
        cold_path=path, frame_stack=(4, "first"),
    )  # fmt: skip


def frame(step: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the frame of a step: random, but determined by the step alone."""
    return np.random.Generator(np.random.SFC64(step)).integers(0, 256, (84, 84), np.uint8)


def fill(buffer: rlox.MmapReplayBuffer | rlox.ReplayBuffer, rows: int) -> dict[str, float]:
    """Push the rows; return microseconds per push and the peak resident memory."""
    stack = np.stack([frame(k) for k in range(4)])
    push_seconds = 0.0
    for step in range(rows):
        next_stack = np.concatenate([stack[1:], frame(step + 4)[None]])
        start = time.perf_counter()
        buffer.push(stack, step % 6, float(step), step % 1000 == 999, False, next_stack)
        push_seconds += time.perf_counter() - start
        stack = next_stack
    return {"push_us": 1e6 * push_seconds / rows, "peak_bytes": peak_bytes()}


def write(path: str, hot: int, rows: int) -> None:
    """Fill the buffer on disk, print figures, wait to be killed."""
    buffer = open_buffer(path, hot, rows)
    figures = fill(buffer, rows)
    counts = {"rows": len(buffer), "unsealed": buffer.n_unsealed, "disk_bytes": buffer.disk_bytes}
    print(json.dumps(counts | figures), flush=True)
    signal.pause()


def fill_in_memory(rows: int) -> None:
    """Fill a buffer in memory and check some of its rows."""
    buffer = rlox.ReplayBuffer(
        rows, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1, frame_stack=(4, "first")
    )
    figures = {"rows": rows, **fill(buffer, rows), "nbytes": buffer.nbytes}
    print(json.dumps(figures | check(buffer, BATCHES)), flush=True)


def peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(buffer: rlox.MmapReplayBuffer | rlox.ReplayBuffer, batches: int) -> dict[str, float]:
    """Compare sampled rows with the pushed rows; return microseconds per batch of 32."""
    durations = []
    for seed in range(batches):
        start = time.perf_counter()
        batch = buffer.sample(32, seed=seed)
        durations.append(time.perf_counter() - start)
        for row, index in enumerate(batch["indices"].astype(int)):
            expected = np.stack([frame(k) for k in range(index, index + 5)])
            if not (
                np.array_equal(batch["obs"][row], expected[:4])
                and np.array_equal(batch["next_obs"][row], expected[1:])
                and batch["rewards"][row] == index
            ):
                raise SystemExit(f"row {index} is not what was pushed")
    return {"batches_checked": batches, "sample_32_us": 1e6 * float(np.median(durations))}


def measure_on_disk(path: str, hot: int, rows: int) -> dict[str, Any]:
    """Run the writer, kill it, and reopen its buffer."""
    sizes = ["--rows", str(rows), "--hot", str(hot), "--path", path]
    writer = child("disk", sizes)
    assert writer.stdout is not None
    figures: dict[str, Any] = {"hot": hot, "writer": json.loads(writer.stdout.readline())}
    writer.kill()
    writer.wait()
    start = time.perf_counter()
    buffer = open_buffer(path, hot, rows)
    figures["reopen_s"] = time.perf_counter() - start
    start = time.perf_counter()
    buffer.verify()
    figures["verify_s"] = time.perf_counter() - start
    figures["rows_after_kill"] = len(buffer)
    figures |= check(buffer, BATCHES)
    figures["reader_peak_bytes"] = peak_bytes()
    buffer.close()
    return figures


def child(mode: str, sizes: list[str]) -> subprocess.Popen[str]:
    """Start this script in one of its two child roles."""
    command = [sys.executable, str(Path(__file__).resolve()), *sizes, "--child", mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def report(args: argparse.Namespace) -> None:
    """Write and print the figures."""
    output, _ = child("memory", ["--rows", str(args.rows)]).communicate()
    figures_document = {
        "schema_version": SCHEMA_VERSION,
        "date": machine.utc_now(),
        "commit": machine.describe_commit(),
        "machine": machine.describe_machine(),
        "in_memory": json.loads(output),
        "on_disk": measure_on_disk(args.path, args.hot, args.rows),
    }
    text = json.dumps(figures_document, indent=1)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "memory_atari.json").write_text(text + "\n", "utf-8")
    print(text)


def main() -> None:
    """Measure both buffers; each is filled in its own process."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--hot", type=int, default=10_000)
    parser.add_argument("--path", default="replay_atari")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--child", choices=["disk", "memory"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "disk":
        write(args.path, args.hot, args.rows)
    elif args.child == "memory":
        fill_in_memory(args.rows)
    else:
        report(args)


if __name__ == "__main__":
    main()
