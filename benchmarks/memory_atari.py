"""A million Atari-shaped transitions in memory and on disk: memory, bytes, speed, kill -9.

    python benchmarks/memory_atari.py --rows 1000000 --hot 10000 --path replay_atari

Each step brings one new random 84 x 84 frame into a stack of four. A child process pushes all rows
and is killed with SIGKILL; this process reopens what it left, checks every byte and samples hot and
cold rows. Prints one JSON object: peak memory of both processes, bytes on disk, seconds, microseconds.
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

import rlox


def open_buffer(path: str, hot: int, rows: int) -> rlox.MmapReplayBuffer:
    """The buffer of both processes."""
    return rlox.MmapReplayBuffer(
        hot, rows, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1,
        cold_path=path, frame_stack=(4, "first"),
    )  # fmt: skip


def frame(step: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The frame that step brings: random, and a function of the step alone."""
    return np.random.Generator(np.random.SFC64(step)).integers(0, 256, (84, 84), np.uint8)


def write(path: str, hot: int, rows: int) -> None:
    """Push the rows, print figures, wait to be killed."""
    buffer = open_buffer(path, hot, rows)
    stack = np.stack([frame(k) for k in range(4)])
    pushing = 0.0
    for step in range(rows):
        following = np.concatenate([stack[1:], frame(step + 4)[None]])
        start = time.perf_counter()
        buffer.push(stack, step % 6, float(step), step % 1000 == 999, False, following)
        pushing += time.perf_counter() - start
        stack = following
    print(json.dumps({
        "rows": len(buffer), "unsealed": buffer.n_unsealed, "disk_bytes": buffer.disk_bytes,
        "push_us": 1e6 * pushing / rows, "writer_peak_bytes": peak(),
    }), flush=True)  # fmt: skip
    signal.pause()


def peak() -> int:
    """Largest resident memory of this process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check(buffer: rlox.MmapReplayBuffer, batches: int) -> dict[str, float]:
    """Compare sampled rows with what was pushed; microseconds per batch of 32."""
    spent = []
    for seed in range(batches):
        start = time.perf_counter()
        batch = buffer.sample(32, seed=seed)
        spent.append(time.perf_counter() - start)
        for row, index in enumerate(batch["indices"].astype(int)):
            expected = np.stack([frame(k) for k in range(index, index + 5)])
            if not (
                np.array_equal(batch["obs"][row], expected[:4])
                and np.array_equal(batch["next_obs"][row], expected[1:])
                and batch["rewards"][row] == index
            ):
                raise SystemExit(f"row {index} is not what was pushed")
    return {"batches_checked": batches, "sample_32_us": 1e6 * float(np.median(spent))}


def main() -> None:
    """Run the writer, kill it, reopen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--hot", type=int, default=10_000)
    parser.add_argument("--path", default="replay_atari")
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        write(args.path, args.hot, args.rows)
        return
    sizes = ["--rows", str(args.rows), "--hot", str(args.hot), "--path", args.path]
    command = [sys.executable, str(Path(__file__).resolve()), *sizes, "--write"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    figures: dict[str, Any] = json.loads(writer.stdout.readline())
    writer.kill()
    writer.wait()
    start = time.perf_counter()
    buffer = open_buffer(args.path, args.hot, args.rows)
    figures["reopen_s"] = time.perf_counter() - start
    start = time.perf_counter()
    buffer.verify()
    figures["verify_s"] = time.perf_counter() - start
    figures["rows_after_kill"] = len(buffer)
    figures |= check(buffer, args.batches)
    figures["reader_peak_bytes"] = peak()
    buffer.close()
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
